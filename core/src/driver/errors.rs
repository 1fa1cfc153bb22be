//! Builds the errors that callers receive when the driver refuses a request or fails.

use std::time::Duration;

use crate::config::ClientOptions;
use crate::error::server_report::Servers;
use crate::error::timeout_reason::TimeoutReason;
use crate::error::{Error, ErrorKind};
use crate::queue::{Kind, Refusal};
use crate::session::ConnectRefusal;

/// Returns the error for a client that received no reply from any server within `within` (default:
/// the connect timeout). `servers` describes the connection attempts to each server.
pub(crate) fn unreachable(options: &ClientOptions, within: Option<Duration>, servers: Servers) -> Error {
    let within = within.unwrap_or(options.connect_timeout);
    let mut message = format!(
        "no ZooKeeper server answered at {} within {within:?}: {servers}; check the address and that the server runs",
        options.hosts.servers
    );
    if options.tls.is_some() {
        message += ", that its port is the one for TLS, and that each side trusts the other's certificate";
    }
    Error::new(ErrorKind::ConnectionFailed, message).at_servers(servers)
}

/// Returns the error for a client that no server will give a session.
pub(super) fn denied(options: &ClientOptions, denial: ConnectRefusal) -> Error {
    let servers = &options.hosts.servers;
    let message = match denial {
        ConnectRefusal::Credentials if options.login.is_some() => format!(
            "{servers} refused the login, or does not support SASL; check the user and password, and that the server \
             has a JAAS configuration with DIGEST-MD5, which FIPS mode disables (the default of ZooKeeper 3.9.6 \
             and later: use `digest` credentials or a client certificate there), and create a new client"
        ),
        ConnectRefusal::Credentials => {
            format!("{servers} refused the credentials; check them and create a new client")
        }
        ConnectRefusal::StockTransport => {
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

/// Returns the timeout error of a contender. `too_few` is `true` if fewer permits are free than it
/// requested. `ahead` is the known number of contenders ahead of it. `servers` is given if the
/// client was not connected.
pub(super) fn timed_out(
    path: &str,
    reason: TimeoutReason,
    too_few: bool,
    ahead: Option<usize>,
    servers: Option<Servers>,
) -> Error {
    use TimeoutReason::{Taken, Unreachable};

    let Some(servers) = servers else {
        let message = match (reason, ahead) {
            (Taken, _) if too_few => too_few_permits(path),
            (Taken, Some(ahead @ 1..)) => format!("{path:?} is taken: {ahead} still ahead in the queue"),
            (Taken, _) => {
                format!(
                    "{path:?} is taken: another contender was still ahead in the queue when it was last read"
                )
            }
            (Unreachable, _) => format!(
                "{path:?} was not acquired in time: the client is connected, but the server does not answer \
                 requests; check the server, and try again"
            ),
            _ => format!(
                "{path:?} was not acquired in time: no reply showed a contender ahead; try again, or use a longer \
                 timeout"
            ),
        };
        return Error::timed_out(reason, message);
    };
    let message = if reason == Taken {
        format!("{path:?} was taken when the connection was lost: {servers}")
    } else {
        format!("the server did not answer in time while acquiring {path:?}: {servers}")
    };
    Error::timed_out(reason, message).at_servers(servers)
}

/// Returns the error for a reply that is larger than the client's limit. A retry cannot help.
pub(super) fn too_large(path: &str, problem: &str) -> Error {
    let advice = "delete unneeded nodes there, or raise the client's `max_frame`";
    Error::bad_argument("path", format_args!("{path:?} cannot be used: the server sends {problem}; {advice}"))
}

pub(super) fn refused(path: &str, kind: Kind, refusal: Refusal) -> Error {
    let taken = |message| Error::timed_out(TimeoutReason::Taken, message);
    let (error, message) = match (refusal, kind) {
        (Refusal::Busy, Kind::Permit(_)) => return taken(too_few_permits(path)),
        (Refusal::Busy, _) => {
            return taken(format!("{path:?} is taken; `contenders()` lists the contenders"));
        }
        (Refusal::Full(waiting), _) => return Error::full(path, waiting),
        (Refusal::SequenceExhausted, _) => (
            ErrorKind::SequenceExhausted,
            format!(
                "the sequence numbers of {path:?} are used up; delete the directory while it is idle, or use \
                 another path"
            ),
        ),
        (Refusal::NotAuthorized, _) => return not_authorized(path),
        (Refusal::BesideKazoo(node), _) => {
            return Error::bad_argument(
                "path",
                format_args!(
                    "{path:?} cannot be used for this election: {node:?} belongs to a kazoo client, which does not see \
                     candidates and would lead at the same time; use another path, or at this path a lock with \
                     naming=\"kazoo\" (in Python zklock.compat.kazoo.Lock)",
                    node = node.as_str()
                ),
            );
        }
        (Refusal::TooLarge(problem), _) => return too_large(path, &problem),
        (Refusal::Server(problem), _) => (
            ErrorKind::ConnectionFailed,
            format!("the server refused to create a node in the queue of {path:?}: {problem}"),
        ),
    };
    Error::new(error, message)
}

fn too_few_permits(path: &str) -> String {
    format!("too few permits of {path:?} are free; `contenders()` lists the holders")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_without_a_connection_tells_whether_the_lock_was_taken() {
        let message =
            |reason| timed_out("/l", reason, false, None, Some(Servers::from(Vec::new()))).to_string();
        let taken = message(TimeoutReason::Taken);
        assert!(taken.contains("\"/l\" was taken when the connection was lost"), "{taken}");
        for reason in [TimeoutReason::Unreachable, TimeoutReason::Unknown] {
            let unknown = message(reason);
            assert!(
                unknown.contains("the server did not answer in time while acquiring \"/l\""),
                "{unknown}"
            );
        }
    }

    #[test]
    fn a_time_out_with_a_connection_is_told_on_one_line() {
        for reason in [TimeoutReason::Taken, TimeoutReason::Unreachable, TimeoutReason::Unknown] {
            for ahead in [None, Some(2)] {
                let message = timed_out("/l", reason, false, ahead, None).to_string();
                assert!(!message.contains("  ") && !message.contains('\n'), "{message:?}");
            }
        }
    }
}
