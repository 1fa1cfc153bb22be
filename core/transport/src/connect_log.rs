//! [`ConnectLog`]: the outcomes of the attempts to connect to each server, for errors and logs.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connect_throttle::Server;
use crate::escape::Escaped;
use crate::tls_failure::Distrust;

/// The outcome of the last connection attempt at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAttempt {
    /// Host of the server, as the client names it.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Outcome of the attempt.
    pub outcome: ConnectOutcome,
}

impl fmt::Display for ServerAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, outcome } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port} {outcome}")
        } else {
            write!(f, "{host}:{port} {outcome}")
        }
    }
}

/// The outcome of a connection attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectOutcome {
    /// The attempt timed out before the name was resolved.
    Unresolved,
    /// The host does not exist, or no resolver replied.
    UnknownHost(String),
    /// The attempt timed out before there was a connection.
    Silent,
    /// The host refused the connection, because no process listens on the port.
    Refused(String),
    /// The connection failed for another reason.
    Unreachable(String),
    /// The attempt timed out during the TLS handshake.
    HalfSecured,
    /// The TLS handshake failed.
    Unsecured(Distrust, String),
    /// The server accepted the connection but did not reply.
    Mute,
    /// The server closed the connection before it replied.
    Closed,
    /// The server closed the connection before it replied. A request for its status then showed
    /// that it serves no requests.
    NotServing,
    /// The server closed the connection before it replied. A request for its status then showed
    /// that it is read-only.
    ReadOnly,
    /// The server's bytes do not follow ZooKeeper's protocol.
    Malformed(String),
    /// The server replied, whatever happened afterwards.
    Answered,
}

impl ConnectOutcome {
    /// Returns `true` if the server closed the connection without a reply.
    fn closed_without_reply(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Returns `true` if the attempt was abandoned so early that the server's problem is not known.
    fn is_unfinished(&self) -> bool {
        matches!(self, Self::Unresolved | Self::Silent | Self::HalfSecured | Self::Mute)
    }
}

/// Writes a phrase that follows the server's name.
impl fmt::Display for ConnectOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Unresolved => "could not be looked up in time",
            Self::UnknownHost(problem) => {
                return write!(f, "could not be resolved: {}", Escaped(problem));
            }
            Self::Silent => "did not accept a connection in time",
            Self::Refused(problem) => {
                return write!(f, "refused the connection: {}", Escaped(problem));
            }
            Self::Unreachable(problem) => {
                return write!(f, "could not be reached: {}", Escaped(problem));
            }
            Self::HalfSecured => "accepted a connection, but did not finish the TLS handshake in time",
            Self::Unsecured(_, problem) => {
                return write!(f, "could not be trusted: {}", Escaped(problem));
            }
            Self::Mute => "accepted a connection, but did not answer",
            Self::Closed => "closed the connection without an answer",
            Self::NotServing => "serves no requests: it has no quorum, or has not started yet",
            Self::ReadOnly => "is read-only: it has lost its quorum",
            Self::Malformed(problem) => return write!(f, "misbehaved: {}", Escaped(problem)),
            Self::Answered => "answered",
        };
        f.write_str(text)
    }
}

/// Time after which the log reports a running attempt instead of the previous one. Until then, the
/// outcome of the previous attempt (if there is one) is more informative.
const MIN_REPORTED_TIME: Duration = Duration::from_secs(1);

/// The last attempt to connect to each server of a client. Each server has at most one entry.
#[derive(Debug, Default)]
pub(crate) struct ConnectLog {
    server_entries: Mutex<Vec<ServerEntry>>,
    /// Notified when an attempt fails.
    failed: Notify,
}

/// The entry of one server.
#[derive(Debug)]
struct ServerEntry {
    server: Server,
    /// Outcome of the last completed attempt.
    last: Option<ConnectOutcome>,
    /// Time at which an attempt last ended without a reply.
    failed: Option<Instant>,
    /// Start and progress of the running attempt.
    running: Option<(Instant, ConnectOutcome)>,
    /// `true` if the last attempt was abandoned so early that its outcome did not replace `last`.
    doubted: bool,
    /// `true` if the client asked the server why it closes connections without a reply.
    /// `probe_outcome` is the server's explanation, if it gave one.
    probed: bool,
    probe_outcome: Option<ConnectOutcome>,
}

impl ServerEntry {
    fn outcome(&self, now: Instant) -> Option<ConnectOutcome> {
        let running = self.running.as_ref().filter(|(began, outcome)| {
            let lasts = now.saturating_duration_since(*began) >= MIN_REPORTED_TIME;
            lasts || self.last.is_none() || *outcome == ConnectOutcome::Answered
        });
        match running {
            Some((_, outcome)) => Some(self.explained(outcome)),
            None => self.last_outcome(),
        }
    }

    /// Returns the outcome of the last completed attempt.
    fn last_outcome(&self) -> Option<ConnectOutcome> {
        self.last.as_ref().map(|outcome| self.explained(outcome))
    }

    /// Returns the outcome, or the server's own explanation of it if there is one.
    fn explained(&self, outcome: &ConnectOutcome) -> ConnectOutcome {
        let probe_outcome = self.probe_outcome.as_ref().filter(|_| outcome.closed_without_reply());
        probe_outcome.unwrap_or(outcome).clone()
    }

    fn attempt(&self, outcome: ConnectOutcome) -> ServerAttempt {
        let (host, port) = self.server.clone();
        ServerAttempt { host, port, outcome }
    }
}

impl ConnectLog {
    /// Records the progress of the attempt that began at `began`.
    pub(crate) fn note(&self, server: &Server, began: Instant, outcome: ConnectOutcome) {
        self.with_entry(server, |entry| entry.running = Some((began, outcome)));
    }

    /// Records the outcome of the attempt that began at `began`.
    ///
    /// If the attempt was abandoned within moments, this machine might just have been too busy. The
    /// outcome of an earlier completed attempt is then kept. If this happens twice in a row, the
    /// new outcome replaces it.
    pub(crate) fn conclude(&self, server: &Server, began: Instant, outcome: ConnectOutcome) {
        let failed = outcome != ConnectOutcome::Answered;
        self.with_entry(server, |entry| {
            if failed {
                entry.failed = Some(Instant::now());
            }
            entry.running.take_if(|(newer, _)| *newer <= began);
            let cut_short = outcome.is_unfinished() && began.elapsed() < MIN_REPORTED_TIME;
            let known = entry.last.as_ref().is_some_and(|last| !last.is_unfinished());
            if cut_short && known && !std::mem::replace(&mut entry.doubted, true) {
                return;
            }
            entry.doubted = false;
            if !outcome.closed_without_reply() {
                (entry.probed, entry.probe_outcome) = (false, None);
            }
            entry.last = Some(outcome);
        });
        if failed {
            self.failed.notify_waiters();
        }
    }

    /// Waits until an attempt fails.
    pub(crate) async fn failed(&self) {
        self.failed.notified().await;
    }

    /// Returns the servers to which a connection attempt has failed since `since`, with the reason
    /// of the last failure.
    pub(crate) fn failures_since(&self, since: Instant) -> Vec<ServerAttempt> {
        let server_entries = self.server_entries();
        let failed = server_entries.iter().filter(|entry| entry.failed.is_some_and(|failed| failed >= since));
        failed.filter_map(|entry| Some(entry.attempt(entry.last_outcome()?))).collect()
    }

    /// Returns `true` if the server closes connections without a reply, and the client has not yet
    /// asked it for the reason.
    pub(crate) fn needs_probe(&self, server: &Server) -> bool {
        self.with_entry(server, |entry| {
            !entry.probed && entry.last.as_ref().is_some_and(ConnectOutcome::closed_without_reply)
        })
    }

    /// Records the server's reply to the status request, which shows why the server closes
    /// connections.
    pub(crate) fn record_probe(&self, server: &Server, answer: Option<ConnectOutcome>) {
        self.with_entry(server, |entry| (entry.probed, entry.probe_outcome) = (true, answer));
    }

    pub(crate) fn entries(&self) -> Vec<ServerAttempt> {
        let (server_entries, now) = (self.server_entries(), Instant::now());
        server_entries.iter().filter_map(|entry| Some(entry.attempt(entry.outcome(now)?))).collect()
    }

    /// Returns the server to which the client is connected: the attempt is still running, and the
    /// server has replied.
    pub(crate) fn connected(&self) -> Option<Server> {
        let is_connected =
            |entry: &&ServerEntry| matches!(&entry.running, Some((_, ConnectOutcome::Answered)));
        self.server_entries().iter().find(is_connected).map(|entry| entry.server.clone())
    }

    fn with_entry<T>(&self, server: &Server, change: impl FnOnce(&mut ServerEntry) -> T) -> T {
        let mut server_entries = self.server_entries();
        let at = server_entries.iter().position(|entry| entry.server == *server).unwrap_or_else(|| {
            server_entries.push(ServerEntry {
                server: server.clone(),
                last: None,
                failed: None,
                running: None,
                doubted: false,
                probed: false,
                probe_outcome: None,
            });
            server_entries.len() - 1
        });
        change(&mut server_entries[at])
    }

    fn server_entries(&self) -> MutexGuard<'_, Vec<ServerEntry>> {
        self.server_entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        ("a".to_owned(), 1)
    }

    fn told(connect_log: &ConnectLog) -> Vec<ConnectOutcome> {
        connect_log.entries().into_iter().map(|entry| entry.outcome).collect()
    }

    #[test]
    fn each_server_has_one_entry_and_cannot_write_on_a_terminal() {
        let (connect_log, now) = (ConnectLog::default(), Instant::now());
        for _ in 0..3 {
            connect_log.conclude(&server(), now, ConnectOutcome::Mute);
            connect_log.conclude(&("::1".into(), 2), now, ConnectOutcome::Malformed("x\u{1b}[2J\ny".into()));
        }
        let told: Vec<_> = connect_log.entries().iter().map(ServerAttempt::to_string).collect();
        let expected =
            ["a:1 accepted a connection, but did not answer", "[::1]:2 misbehaved: x\\u{1b}[2J\\ny"];
        assert_eq!(told, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_goes_on_is_told_of_if_it_is_the_first_or_lasts() {
        let connect_log = ConnectLog::default();
        connect_log.note(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&connect_log), [ConnectOutcome::Silent]);
        connect_log.conclude(&server(), Instant::now(), ConnectOutcome::Refused("no".into()));
        connect_log.note(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&connect_log), [ConnectOutcome::Refused("no".into())]);
        tokio::time::sleep(MIN_REPORTED_TIME).await;
        assert_eq!(told(&connect_log), [ConnectOutcome::Silent]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_attempt_that_is_given_up_at_once_does_not_hide_why_the_last_failed_but_two_do() {
        let (connect_log, refused) = (ConnectLog::default(), ConnectOutcome::Refused("no".into()));
        connect_log.conclude(&server(), Instant::now(), refused.clone());
        connect_log.conclude(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&connect_log), std::slice::from_ref(&refused));
        connect_log.conclude(&server(), Instant::now(), refused.clone());
        connect_log.conclude(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&connect_log), std::slice::from_ref(&refused));
        connect_log.conclude(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&connect_log), [ConnectOutcome::Silent]);
        // A single attempt that had enough time replaces the earlier outcome.
        connect_log.conclude(&server(), Instant::now(), refused);
        let began = Instant::now();
        tokio::time::sleep(MIN_REPORTED_TIME).await;
        connect_log.conclude(&server(), began, ConnectOutcome::Silent);
        assert_eq!(told(&connect_log), [ConnectOutcome::Silent]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ends_late_does_not_hide_the_next() {
        let connect_log = ConnectLog::default();
        let first = Instant::now();
        connect_log.note(&server(), first, ConnectOutcome::Silent);
        tokio::time::sleep(MIN_REPORTED_TIME).await;
        connect_log.note(&server(), Instant::now(), ConnectOutcome::Mute);
        connect_log.conclude(&server(), first, ConnectOutcome::Silent);
        tokio::time::sleep(MIN_REPORTED_TIME).await;
        assert_eq!(told(&connect_log), [ConnectOutcome::Mute]);
    }

    #[test]
    fn a_server_is_asked_once_why_it_closes_connections_and_that_counts_until_it_does_something_else() {
        let (connect_log, now) = (ConnectLog::default(), Instant::now());
        assert!(!connect_log.needs_probe(&server()));
        connect_log.conclude(&server(), now, ConnectOutcome::Closed);
        assert!(connect_log.needs_probe(&server()));
        connect_log.record_probe(&server(), Some(ConnectOutcome::ReadOnly));
        connect_log.conclude(&server(), now, ConnectOutcome::Closed);
        assert!(!connect_log.needs_probe(&server()));
        assert_eq!(told(&connect_log), [ConnectOutcome::ReadOnly]);
        connect_log.conclude(&server(), now, ConnectOutcome::Refused("no".into()));
        connect_log.conclude(&server(), now, ConnectOutcome::Closed);
        assert_eq!(told(&connect_log), [ConnectOutcome::Closed]);
        assert!(connect_log.needs_probe(&server()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_and_counts_from_when_it_happened() {
        let connect_log = ConnectLog::default();
        connect_log.conclude(&server(), Instant::now(), ConnectOutcome::Refused("before".into()));
        tokio::time::sleep(MIN_REPORTED_TIME).await;
        let since = Instant::now();
        let mut failed = std::pin::pin!(connect_log.failed());
        assert!(futures_poll(failed.as_mut()).is_pending());
        // The end of a connection that has served the session is not a failure.
        connect_log.conclude(&server(), since, ConnectOutcome::Answered);
        assert!(futures_poll(failed.as_mut()).is_pending());
        assert!(connect_log.failures_since(since).is_empty());
        connect_log.conclude(&server(), since, ConnectOutcome::Refused("no".into()));
        assert!(futures_poll(failed.as_mut()).is_ready());
        let expected =
            ServerAttempt { host: "a".into(), port: 1, outcome: ConnectOutcome::Refused("no".into()) };
        assert_eq!(connect_log.failures_since(since), [expected]);
    }

    fn futures_poll(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> std::task::Poll<()> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
