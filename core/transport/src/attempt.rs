//! [`ConnectAttempt`]: one connection attempt, from its start to the end of the connection.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use tokio::time::Instant;

use crate::connect_log::ConnectOutcome;
use crate::connect_throttle::{AttemptEnd, Server};
use crate::settings::Settings;

/// Fraction of the session timeout after which a connection counts as broken if no data arrives.
/// The client crate sends a ping within a fifth of the timeout, and gives up after two fifths, so
/// the fraction is between these two.
const SILENT_FOR: (u32, u32) = (3, 10);

/// A connection attempt, and then its connection. Dropping this value ends both. A connect future
/// owns this value, so dropping the future ends the attempt too.
#[derive(Debug)]
pub(crate) struct ConnectAttempt {
    settings: Settings,
    server: Server,
    began: Instant,
    /// Time by which the server must have replied.
    deadline: Option<Instant>,
    /// The outcome to report if the attempt ends now.
    outcome: ConnectOutcome,
    /// Time of the last received data. The server counts as silent if no data arrives for
    /// `silent_for`.
    heard: Instant,
    silent_for: Duration,
    /// `true` if the server has closed the connection.
    closed_by_server: bool,
}

impl ConnectAttempt {
    /// Starts an attempt as soon as the throttle allows a connection to this server.
    ///
    /// # Errors
    /// Fails if the client must try the other servers first.
    pub(crate) async fn begin(settings: Settings, host: &str, port: u16) -> Result<Self> {
        let server = (host.to_owned(), port);
        if settings.throttle().passes_over(&server) {
            return Err(Error::new(
                ErrorKind::TimedOut,
                "the server stopped replying; trying the other servers first",
            ));
        }
        let began = settings.throttle().wait_until_allowed(&server).await;
        let deadline = settings.throttle().limit(&server).map(|limit| began + limit);
        let outcome = ConnectOutcome::Silent;
        let (heard, silent_for, closed_by_server) = (began, Duration::MAX, false);
        let mut attempt =
            Self { settings, server, began, deadline, outcome, heard, silent_for, closed_by_server };
        attempt.set_outcome(ConnectOutcome::Silent);
        Ok(attempt)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the time by which the server must have replied. `None` if there are no other servers
    /// to try.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Records the progress of the attempt, or the reason of its end.
    pub(crate) fn set_outcome(&mut self, outcome: ConnectOutcome) {
        self.settings.connect_log().note(&self.server, self.began, outcome.clone());
        self.outcome = outcome;
    }

    /// Records that the server has sent data.
    pub(crate) fn note_data(&mut self) {
        self.heard = Instant::now();
    }

    /// Records the session timeout that the server has granted.
    pub(crate) fn set_session_timeout(&mut self, timeout: Duration) {
        let (numerator, denominator) = SILENT_FOR;
        self.silent_for = timeout * numerator / denominator;
    }

    /// Records that the server has closed the connection.
    pub(crate) fn note_closed(&mut self) {
        self.closed_by_server = true;
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn outcome(&self) -> &ConnectOutcome {
        &self.outcome
    }

    fn end(&self) -> AttemptEnd {
        match self.outcome {
            ConnectOutcome::Unresolved | ConnectOutcome::HalfSecured | ConnectOutcome::Mute
                if !self.closed_by_server =>
            {
                AttemptEnd::NotAnswered
            }
            ConnectOutcome::Silent => AttemptEnd::NotConnected,
            ConnectOutcome::Answered if !self.closed_by_server && self.heard.elapsed() >= self.silent_for => {
                AttemptEnd::FellSilent
            }
            _ => AttemptEnd::Replied,
        }
    }
}

/// Formats the attempt as the server's host and port.
impl fmt::Display for ConnectAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server.0, self.server.1)
    }
}

impl Drop for ConnectAttempt {
    fn drop(&mut self) {
        self.settings.connect_log().conclude(&self.server, self.began, self.outcome.clone());
        self.settings.throttle().ended(&self.server, self.began, self.end());
    }
}
