//! What became of the attempts to connect to each server: for errors and logs.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connect_throttle::Server;
use crate::tls_failure::Distrust;

/// What became of the last attempt to connect to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAttempt {
    /// The server's host, as the client names it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What became of it.
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

/// What became of an attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectOutcome {
    /// The name was not resolved when time was up.
    Unresolved,
    /// There is no such host, or nobody who knows.
    UnknownHost(String),
    /// There was no connection when time was up.
    Silent,
    /// Nobody listens there.
    Refused(String),
    /// There is no connection to be had.
    Unreachable(String),
    /// There was a connection, but no encryption when time was up.
    HalfSecured,
    /// The connection could not be encrypted.
    Unsecured(Distrust, String),
    /// There was a connection, but no answer.
    Mute,
    /// The server closed the connection before it answered.
    Closed,
    /// The same; asked what it does, it said that it serves no one.
    NotServing,
    /// The same; asked what it does, it said that it can only be read.
    ReadOnly,
    /// What came was not ZooKeeper's protocol.
    Malformed(String),
    /// The server answered, whatever came after that.
    Answered,
}

impl ConnectOutcome {
    /// Whether the server turned the client away without a word.
    fn is_wordless(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Whether the attempt was given up before the server did anything that tells why.
    fn is_unfinished(&self) -> bool {
        matches!(self, Self::Unresolved | Self::Silent | Self::HalfSecured | Self::Mute)
    }
}

/// For use after the name of the server.
impl fmt::Display for ConnectOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Unresolved => "could not be looked up in time",
            Self::UnknownHost(problem) => {
                return write!(f, "is no host that can be found: {}", ControlEscaped(problem));
            }
            Self::Silent => "did not accept a connection in time",
            Self::Refused(problem) => {
                return write!(f, "refused the connection: {}", ControlEscaped(problem));
            }
            Self::Unreachable(problem) => {
                return write!(f, "could not be reached: {}", ControlEscaped(problem));
            }
            Self::HalfSecured => "accepted a connection, but did not finish the TLS handshake in time",
            Self::Unsecured(_, problem) => {
                return write!(f, "could not be trusted: {}", ControlEscaped(problem));
            }
            Self::Mute => "accepted a connection, but did not answer",
            Self::Closed => "closed the connection without an answer",
            Self::NotServing => "serves no requests: it has no quorum, or has not started yet",
            Self::ReadOnly => "can only be read: it has lost its quorum",
            Self::Malformed(problem) => return write!(f, "misbehaved: {}", ControlEscaped(problem)),
            Self::Answered => "answered",
        };
        f.write_str(text)
    }
}

/// Text with parts that a server chose: what would move a terminal's cursor is escaped.
struct ControlEscaped<'a>(&'a str);

impl fmt::Display for ControlEscaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

/// An attempt that goes on is told of once it has lasted for so long, or there is nothing else to tell: one that began a
/// moment ago says less than the last.
const TELLING: Duration = Duration::from_secs(1);

/// The last attempt for each server of a client, so that it is no longer than the client's list of servers.
#[derive(Debug, Default)]
pub(crate) struct ConnectLog {
    pages: Mutex<Vec<ServerEntry>>,
    /// Told when an attempt fails.
    failed: Notify,
}

/// One server's.
#[derive(Debug)]
struct ServerEntry {
    server: Server,
    /// The outcome of the last attempt that has ended.
    last: Option<ConnectOutcome>,
    /// When an attempt ended last without an answer.
    failed: Option<Instant>,
    /// When the attempt began that goes on, and how far it has come.
    now: Option<(Instant, ConnectOutcome)>,
    /// Whether an attempt since was given up too soon to tell more than that.
    doubted: bool,
    /// Whether the server was asked why it closes connections without an answer, and what it said.
    asked: bool,
    said: Option<ConnectOutcome>,
}

impl ServerEntry {
    fn outcome(&self, now: Instant) -> Option<ConnectOutcome> {
        let goes_on = self.now.as_ref().filter(|(began, outcome)| {
            let lasts = now.saturating_duration_since(*began) >= TELLING;
            lasts || self.last.is_none() || *outcome == ConnectOutcome::Answered
        });
        match goes_on {
            Some((_, outcome)) => Some(self.explained(outcome)),
            None => self.last_outcome(),
        }
    }

    /// The outcome of the last attempt that has ended.
    fn last_outcome(&self) -> Option<ConnectOutcome> {
        self.last.as_ref().map(|outcome| self.explained(outcome))
    }

    /// An outcome, with what the server says of it.
    fn explained(&self, outcome: &ConnectOutcome) -> ConnectOutcome {
        let said = self.said.as_ref().filter(|_| outcome.is_wordless());
        said.unwrap_or(outcome).clone()
    }

    fn entry(&self, outcome: ConnectOutcome) -> ServerAttempt {
        let (host, port) = self.server.clone();
        ServerAttempt { host, port, outcome }
    }
}

impl ConnectLog {
    /// How far an attempt has come that began then.
    pub(crate) fn note(&self, server: &Server, began: Instant, outcome: ConnectOutcome) {
        self.on_page(server, |page| page.now = Some((began, outcome)));
    }

    /// What became of an attempt that began then. One that was given up within moments says less than an earlier one
    /// that came to an end: this machine may have been too busy. Two in a row say that the server has changed.
    pub(crate) fn conclude(&self, server: &Server, began: Instant, outcome: ConnectOutcome) {
        let failed = outcome != ConnectOutcome::Answered;
        self.on_page(server, |page| {
            if failed {
                page.failed = Some(Instant::now());
            }
            page.now.take_if(|(newer, _)| *newer <= began);
            let cut_short = outcome.is_unfinished() && began.elapsed() < TELLING;
            let known = page.last.as_ref().is_some_and(|last| !last.is_unfinished());
            if cut_short && known && !std::mem::replace(&mut page.doubted, true) {
                return;
            }
            page.doubted = false;
            if !outcome.is_wordless() {
                (page.asked, page.said) = (false, None);
            }
            page.last = Some(outcome);
        });
        if failed {
            self.failed.notify_waiters();
        }
    }

    /// Waits until an attempt fails.
    pub(crate) async fn failed(&self) {
        self.failed.notified().await;
    }

    /// The servers at which an attempt has failed since then, and why the last one did.
    pub(crate) fn failures_since(&self, since: Instant) -> Vec<ServerAttempt> {
        let pages = self.pages();
        let failed = pages.iter().filter(|page| page.failed.is_some_and(|failed| failed >= since));
        failed.filter_map(|page| Some(page.entry(page.last_outcome()?))).collect()
    }

    /// Whether the server closes connections without an answer, and was not asked why.
    pub(crate) fn wonders_about(&self, server: &Server) -> bool {
        self.on_page(server, |page| {
            !page.asked && page.last.as_ref().is_some_and(ConnectOutcome::is_wordless)
        })
    }

    /// What the server says when it is asked why.
    pub(crate) fn said(&self, server: &Server, answer: Option<ConnectOutcome>) {
        self.on_page(server, |page| (page.asked, page.said) = (true, answer));
    }

    pub(crate) fn entries(&self) -> Vec<ServerAttempt> {
        let (pages, now) = (self.pages(), Instant::now());
        pages.iter().filter_map(|page| Some(page.entry(page.outcome(now)?))).collect()
    }

    /// The server of the current connection: the one whose answer is the last word of an attempt that goes on.
    pub(crate) fn connected(&self) -> Option<Server> {
        let is_connected = |page: &&ServerEntry| matches!(&page.now, Some((_, ConnectOutcome::Answered)));
        self.pages().iter().find(is_connected).map(|page| page.server.clone())
    }

    fn on_page<T>(&self, server: &Server, change: impl FnOnce(&mut ServerEntry) -> T) -> T {
        let mut pages = self.pages();
        let at = pages.iter().position(|page| page.server == *server).unwrap_or_else(|| {
            pages.push(ServerEntry {
                server: server.clone(),
                last: None,
                failed: None,
                now: None,
                doubted: false,
                asked: false,
                said: None,
            });
            pages.len() - 1
        });
        change(&mut pages[at])
    }

    fn pages(&self) -> MutexGuard<'_, Vec<ServerEntry>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        ("a".to_owned(), 1)
    }

    fn told(diary: &ConnectLog) -> Vec<ConnectOutcome> {
        diary.entries().into_iter().map(|entry| entry.outcome).collect()
    }

    #[test]
    fn each_server_has_one_entry_and_cannot_write_on_a_terminal() {
        let (diary, now) = (ConnectLog::default(), Instant::now());
        for _ in 0..3 {
            diary.conclude(&server(), now, ConnectOutcome::Mute);
            diary.conclude(&("::1".into(), 2), now, ConnectOutcome::Malformed("x\u{1b}[2J\ny".into()));
        }
        let told: Vec<_> = diary.entries().iter().map(ServerAttempt::to_string).collect();
        let expected =
            ["a:1 accepted a connection, but did not answer", "[::1]:2 misbehaved: x\\u{1b}[2J\\ny"];
        assert_eq!(told, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_goes_on_is_told_of_if_it_is_the_first_or_lasts() {
        let diary = ConnectLog::default();
        diary.note(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&diary), [ConnectOutcome::Silent]);
        diary.conclude(&server(), Instant::now(), ConnectOutcome::Refused("no".into()));
        diary.note(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&diary), [ConnectOutcome::Refused("no".into())]);
        tokio::time::sleep(TELLING).await;
        assert_eq!(told(&diary), [ConnectOutcome::Silent]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_attempt_that_is_given_up_at_once_does_not_hide_why_the_last_failed_but_two_do() {
        let (diary, refused) = (ConnectLog::default(), ConnectOutcome::Refused("no".into()));
        diary.conclude(&server(), Instant::now(), refused.clone());
        diary.conclude(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&diary), std::slice::from_ref(&refused));
        diary.conclude(&server(), Instant::now(), refused.clone());
        diary.conclude(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&diary), std::slice::from_ref(&refused));
        diary.conclude(&server(), Instant::now(), ConnectOutcome::Silent);
        assert_eq!(told(&diary), [ConnectOutcome::Silent]);
        // One that had its time needs no second.
        diary.conclude(&server(), Instant::now(), refused);
        let began = Instant::now();
        tokio::time::sleep(TELLING).await;
        diary.conclude(&server(), began, ConnectOutcome::Silent);
        assert_eq!(told(&diary), [ConnectOutcome::Silent]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ends_late_does_not_hide_the_next() {
        let diary = ConnectLog::default();
        let first = Instant::now();
        diary.note(&server(), first, ConnectOutcome::Silent);
        tokio::time::sleep(TELLING).await;
        diary.note(&server(), Instant::now(), ConnectOutcome::Mute);
        diary.conclude(&server(), first, ConnectOutcome::Silent);
        tokio::time::sleep(TELLING).await;
        assert_eq!(told(&diary), [ConnectOutcome::Mute]);
    }

    #[test]
    fn a_server_is_asked_once_why_it_closes_connections_and_that_counts_until_it_does_something_else() {
        let (diary, now) = (ConnectLog::default(), Instant::now());
        assert!(!diary.wonders_about(&server()));
        diary.conclude(&server(), now, ConnectOutcome::Closed);
        assert!(diary.wonders_about(&server()));
        diary.said(&server(), Some(ConnectOutcome::ReadOnly));
        diary.conclude(&server(), now, ConnectOutcome::Closed);
        assert!(!diary.wonders_about(&server()));
        assert_eq!(told(&diary), [ConnectOutcome::ReadOnly]);
        diary.conclude(&server(), now, ConnectOutcome::Refused("no".into()));
        diary.conclude(&server(), now, ConnectOutcome::Closed);
        assert_eq!(told(&diary), [ConnectOutcome::Closed]);
        assert!(diary.wonders_about(&server()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_and_counts_from_when_it_happened() {
        let diary = ConnectLog::default();
        diary.conclude(&server(), Instant::now(), ConnectOutcome::Refused("before".into()));
        tokio::time::sleep(TELLING).await;
        let since = Instant::now();
        let mut failed = std::pin::pin!(diary.failed());
        assert!(futures_poll(failed.as_mut()).is_pending());
        // That of a connection which has served the session is none.
        diary.conclude(&server(), since, ConnectOutcome::Answered);
        assert!(futures_poll(failed.as_mut()).is_pending());
        assert!(diary.failures_since(since).is_empty());
        diary.conclude(&server(), since, ConnectOutcome::Refused("no".into()));
        assert!(futures_poll(failed.as_mut()).is_ready());
        let expected =
            ServerAttempt { host: "a".into(), port: 1, outcome: ConnectOutcome::Refused("no".into()) };
        assert_eq!(diary.failures_since(since), [expected]);
    }

    fn futures_poll(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> std::task::Poll<()> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
