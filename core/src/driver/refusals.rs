//! The messages that callers read when the driver refuses or fails.

use crate::error::{Error, ErrorKind};
use crate::options::ClientOptions;
use crate::queue::{Kind, Refusal};
use crate::servers::Servers;
use crate::session::Denial;

/// No server answered within the connect time-out; `servers` tell what each of them did instead.
pub(super) fn unreachable(options: &ClientOptions, servers: Servers) -> Error {
    let mut message = format!(
        "no ZooKeeper server answered at {} within {:?}: {servers}; check the address and that the server runs",
        options.hosts.servers, options.connect_timeout
    );
    if options.tls.is_some() {
        message += ", that its port is the one for TLS, and that each side trusts the other's certificate";
    }
    Error::new(ErrorKind::ConnectionFailed, message).at_servers(servers)
}

/// There will be no session.
pub(super) fn denied(options: &ClientOptions, denial: Denial) -> Error {
    let servers = &options.hosts.servers;
    let message = match denial {
        Denial::Credentials if options.login.is_some() => format!(
            "{servers} refused the login, or does not know SASL; check user and password, and that the server has a \
             JAAS configuration with DIGEST-MD5, which FIPS mode disables (the default of ZooKeeper 3.9.6 and later: \
             use `digest` credentials or a client certificate there), and create a new client"
        ),
        Denial::Credentials => {
            format!("{servers} refused the credentials; check them and create a new client")
        }
        Denial::StockTransport => {
            let problem = "this program's connections cannot be encrypted, because it lacks the two \
                [patch.crates-io] lines that zklock's README shows; nothing was sent";
            return Error::bad_argument("tls", problem);
        }
    };
    Error::new(ErrorKind::AuthFailed, message)
}

pub(super) fn not_authorized(path: &str) -> Error {
    let message =
        format!("not permitted to use {path:?}; check the access control lists and the client's credentials");
    Error::new(ErrorKind::AuthFailed, message)
}

/// The time is up for a contender, while the client was connected.
pub(super) fn timed_out(path: &str, too_few: bool, ahead: Option<usize>) -> Error {
    let message = match ahead {
        _ if too_few => too_few_permits(path),
        Some(ahead @ 1..) => format!("{path:?} is taken: {ahead} still ahead in the queue"),
        _ => format!("{path:?} was not acquired in time"),
    };
    Error::new(ErrorKind::LockTimeout, message)
}

/// The time is up for a contender, while the client was not connected.
pub(super) fn out_of_reach(path: &str, servers: Servers) -> Error {
    let message = format!("the server did not answer in time while acquiring {path:?}: {servers}");
    Error::new(ErrorKind::LockTimeout, message).at_servers(servers)
}

/// What the server says about a path is more than the client reads. It is no use to ask again.
pub(super) fn too_large(path: &str, problem: &str) -> Error {
    let advice = "delete what is not needed there, or raise the client's `max_frame`";
    Error::bad_argument("path", format_args!("{path:?} cannot be used: the server has {problem}; {advice}"))
}

/// The queue refuses a contender of this kind.
pub(super) fn refused(path: &str, kind: Kind, refusal: Refusal) -> Error {
    let (error, message) = match (refusal, kind) {
        (Refusal::Busy, Kind::Permit(_)) => (ErrorKind::LockTimeout, too_few_permits(path)),
        (Refusal::Busy, _) => (ErrorKind::LockTimeout, format!("{path:?} is taken")),
        (Refusal::SequenceExhausted, _) => (
            ErrorKind::SequenceExhausted,
            format!(
                "the sequence numbers of {path:?} are used up; delete the directory while it is idle, or use another path"
            ),
        ),
        (Refusal::NotAuthorized, _) => return not_authorized(path),
        (Refusal::TooLarge(problem), _) => return too_large(path, &problem),
        (Refusal::Server(problem), _) => {
            (ErrorKind::ConnectionFailed, format!("the server refused to queue at {path:?}: {problem}"))
        }
    };
    Error::new(error, message)
}

fn too_few_permits(path: &str) -> String {
    format!("too few permits of {path:?} are free; `contenders()` tells who has them")
}
