//! One attempt to have a connection, from its beginning to the end of the connection.

use std::fmt;

use tokio::time::Instant;

use crate::diary::Outcome;
use crate::pace::Server;
use crate::settings::Settings;

/// One attempt. Ends when it is dropped: where a future that was given up ends, too.
#[derive(Debug)]
pub(crate) struct Attempt {
    settings: Settings,
    server: Server,
    began: Instant,
    /// What is to be said of it if it ends now.
    outcome: Outcome,
}

impl Attempt {
    /// Begins one as soon as the server may be connected to.
    pub(crate) async fn begin(settings: Settings, host: &str, port: u16) -> Self {
        let server = (host.to_owned(), port);
        let began = settings.pace().turn(&server).await;
        let mut attempt = Self { settings, server, began, outcome: Outcome::Silent };
        attempt.is_now(Outcome::Silent);
        attempt
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Notes how far it has come, or why it ends.
    pub(crate) fn is_now(&mut self, outcome: Outcome) {
        self.settings.diary().note(&self.server, self.began, outcome.clone());
        self.outcome = outcome;
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

/// The server.
impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server.0, self.server.1)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.settings.diary().conclude(&self.server, self.began, self.outcome.clone());
        self.settings.pace().ended(&self.server, self.began);
    }
}
