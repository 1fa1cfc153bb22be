//! The messages that callers read when the driver refuses or fails.

use crate::error::{Error, ErrorKind};
use crate::options::ClientOptions;
use crate::queue::{Kind, Refusal};

/// No server answered within the connect time-out.
pub(super) fn unreachable(options: &ClientOptions) -> Error {
    let message = format!(
        "no ZooKeeper server answered at {} within {:?}; check the address and that the server runs{}",
        options.hosts.servers,
        options.connect_timeout,
        if options.tls.is_some() {
            ", that its port is the one for TLS, and that each side trusts the other's certificate"
        } else {
            ""
        }
    );
    Error::new(ErrorKind::ConnectionFailed, message)
}

/// The servers do not accept the credentials.
pub(super) fn credentials_refused(options: &ClientOptions) -> Error {
    let servers = &options.hosts.servers;
    let message = format!("{servers} refused the credentials; check them and create a new client");
    Error::new(ErrorKind::AuthFailed, message)
}

pub(super) fn not_authorized(path: &str) -> Error {
    let message =
        format!("not permitted to use {path:?}; check the access control lists and the client's credentials");
    Error::new(ErrorKind::AuthFailed, message)
}

/// The time is up for a contender: says whether the lock was taken, or the server unreachable.
pub(super) fn timed_out(path: &str, connected: bool, too_few: bool, ahead: Option<usize>) -> Error {
    let message = match (connected, ahead) {
        (true, _) if too_few => too_few_permits(path),
        (false, _) => format!("the server did not answer in time while acquiring {path:?}"),
        (true, Some(ahead @ 1..)) => format!("{path:?} is taken: {ahead} still ahead in the queue"),
        (true, _) => format!("{path:?} was not acquired in time"),
    };
    Error::new(ErrorKind::LockTimeout, message)
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
        (Refusal::Server(problem), _) => {
            (ErrorKind::ConnectionFailed, format!("the server refused to queue at {path:?}: {problem}"))
        }
    };
    Error::new(error, message)
}

fn too_few_permits(path: &str) -> String {
    format!("too few permits of {path:?} are free")
}
