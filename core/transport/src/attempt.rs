//! One attempt to have a connection, from its beginning to the end of the connection.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use tokio::time::Instant;

use crate::connect_log::ConnectOutcome;
use crate::connect_throttle::{AttemptEnd, Server};
use crate::settings::Settings;

/// A connection on which nothing has come for this part of the session's time-out fell silent: the client crate asks for a
/// sign of life within a fifth, and gives up after two.
const SILENT_FOR: (u32, u32) = (3, 10);

/// One attempt. Ends when it is dropped: where a future that was given up ends, too.
#[derive(Debug)]
pub(crate) struct ConnectAttempt {
    settings: Settings,
    server: Server,
    began: Instant,
    /// Until when there has to be an answer.
    deadline: Option<Instant>,
    /// What is to be said of it if it ends now.
    outcome: ConnectOutcome,
    /// When anything was heard last, and after which time without that the server is silent.
    heard: Instant,
    silent_for: Duration,
    /// Whether the server has ended the connection.
    hung_up: bool,
}

impl ConnectAttempt {
    /// Begins one as soon as the server may be connected to.
    ///
    /// # Errors
    /// If the others are to be tried before.
    pub(crate) async fn begin(settings: Settings, host: &str, port: u16) -> Result<Self> {
        let server = (host.to_owned(), port);
        if settings.pace().passes_over(&server) {
            return Err(Error::new(ErrorKind::TimedOut, "it has just fallen silent; the others come first"));
        }
        let began = settings.pace().turn(&server).await;
        let deadline = settings.pace().limit(&server).map(|limit| began + limit);
        let outcome = ConnectOutcome::Silent;
        let (heard, silent_for, hung_up) = (began, Duration::MAX, false);
        let mut attempt = Self { settings, server, began, deadline, outcome, heard, silent_for, hung_up };
        attempt.is_now(ConnectOutcome::Silent);
        Ok(attempt)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Until when there has to be an answer, if there are other servers to try.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Notes how far it has come, or why it ends.
    pub(crate) fn is_now(&mut self, outcome: ConnectOutcome) {
        self.settings.diary().note(&self.server, self.began, outcome.clone());
        self.outcome = outcome;
    }

    /// Notes that the server has sent something.
    pub(crate) fn hears(&mut self) {
        self.heard = Instant::now();
    }

    /// Notes the time-out of the session that the server has given.
    pub(crate) fn serves_session(&mut self, timeout: Duration) {
        let (numerator, denominator) = SILENT_FOR;
        self.silent_for = timeout * numerator / denominator;
    }

    /// Notes that the server has ended the connection.
    pub(crate) fn hangs_up(&mut self) {
        self.hung_up = true;
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
                if !self.hung_up =>
            {
                AttemptEnd::NotAnswered
            }
            ConnectOutcome::Silent => AttemptEnd::NotConnected,
            ConnectOutcome::Answered if !self.hung_up && self.heard.elapsed() >= self.silent_for => {
                AttemptEnd::FellSilent
            }
            _ => AttemptEnd::Told,
        }
    }
}

/// The server.
impl fmt::Display for ConnectAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server.0, self.server.1)
    }
}

impl Drop for ConnectAttempt {
    fn drop(&mut self) {
        self.settings.diary().conclude(&self.server, self.began, self.outcome.clone());
        self.settings.pace().ended(&self.server, self.began, self.end());
    }
}
