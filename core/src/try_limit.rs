//! When a try that takes several steps ends at the latest.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime;

/// The end of a try that takes several steps: a client's connect time-out after it began. The driver ends each step
/// after that time, but together they would take a multiple of it (rule 21).
#[derive(Debug)]
pub(crate) struct TryLimit(Option<Limit>);

#[derive(Debug)]
struct Limit {
    client: Client,
    end: Instant,
}

impl TryLimit {
    /// For a try through these clients that begins now. The longest of their time-outs counts: a client with a shorter
    /// one ends its own steps by itself.
    pub(crate) fn of(clients: &[Client]) -> Self {
        let timeout = |client: &Client| client.options().connect_timeout;
        let client = clients.iter().max_by_key(|client| timeout(client));
        Self(client.map(|client| Limit { client: client.clone(), end: Instant::now() + timeout(client) }))
    }

    /// For an attempt that is no try.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.0.as_ref().map_or(Duration::MAX, |limit| limit.end.saturating_duration_since(Instant::now()))
    }

    /// Takes a step, unless the time is up before it ends. Dropping the step leaves its queues, and releases what it
    /// has acquired.
    pub(crate) async fn keep<T>(&self, step: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(limit) = &self.0 else { return step.await };
        tokio::select! {
            biased;
            outcome = step => outcome,
            slept = runtime::sleep(self.left()) => {
                slept?;
                Err(limit.unreachable())
            }
        }
    }

    /// The error of a wait that is a step of the try. One that timed out without a connection shows nobody in the way:
    /// it got no answer.
    pub(crate) fn wait_error(&self, error: Error) -> Error {
        match &self.0 {
            Some(limit) if error.kind() == ErrorKind::LockTimeout && !error.servers().is_empty() => {
                limit.unreachable()
            }
            _ => error,
        }
    }
}

impl Limit {
    fn unreachable(&self) -> Error {
        self.client.mailbox().status.unreachable()
    }
}
