//! What became of the attempts to connect to each server: for errors and logs.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::pace::Server;

/// What became of the last attempt to connect to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The server's host, as the client names it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What became of it.
    pub outcome: Outcome,
}

impl fmt::Display for Entry {
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
pub enum Outcome {
    /// There was no connection when time was up.
    Silent,
    /// There is no connection to be had, or no such host.
    Unreachable(String),
    /// There was a connection, but no encryption when time was up.
    HalfSecured,
    /// The connection could not be encrypted.
    Unsecured(String),
    /// There was a connection, but no answer.
    Mute,
    /// The server closed the connection before it answered.
    Closed,
    /// What came was not ZooKeeper's protocol.
    Malformed(String),
    /// The server answered, whatever came after that.
    Answered,
}

/// For use after the name of the server.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Silent => "did not accept a connection in time",
            Self::Unreachable(problem) => return write!(f, "could not be reached: {}", Printable(problem)),
            Self::HalfSecured => "accepted a connection, but did not finish the TLS handshake in time",
            Self::Unsecured(problem) => return write!(f, "could not be trusted: {}", Printable(problem)),
            Self::Mute => "accepted a connection, but did not answer",
            Self::Closed => "closed the connection without an answer",
            Self::Malformed(problem) => return write!(f, "misbehaved: {}", Printable(problem)),
            Self::Answered => "answered",
        };
        f.write_str(text)
    }
}

/// Text with parts that a server chose: what would move a terminal's cursor is escaped.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
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

/// The last attempt for each server of a client, so that it is no longer than the client's list of servers.
#[derive(Debug, Default)]
pub(crate) struct Diary(Mutex<Vec<Entry>>);

impl Diary {
    pub(crate) fn note(&self, (host, port): &Server, outcome: Outcome) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.iter_mut().find(|entry| entry.host == *host && entry.port == *port) {
            Some(entry) => entry.outcome = outcome,
            None => entries.push(Entry { host: host.clone(), port: *port, outcome }),
        }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_one_entry_and_cannot_write_on_a_terminal() {
        let diary = Diary::default();
        for _ in 0..3 {
            diary.note(&("a".into(), 1), Outcome::Mute);
            diary.note(&("::1".into(), 2), Outcome::Malformed("x\u{1b}[2J\ny".into()));
        }
        let told: Vec<_> = diary.entries().iter().map(Entry::to_string).collect();
        let expected =
            ["a:1 accepted a connection, but did not answer", "[::1]:2 misbehaved: x\\u{1b}[2J\\ny"];
        assert_eq!(told, expected);
    }
}
