//! Logging of outages, that is, times in which no server can be used.
//!
//! During an outage, the client tries all servers several times each second. So a warning is logged
//! only when the outage begins, when the cause changes, and again after a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zklock_transport::Settings;

use crate::error::server_report::{ServerReport, Servers};

/// Minimum time between two warnings. `SAME` applies if the cause is the same, and `DIFFERENT` if
/// the cause has changed.
const SAME: Duration = Duration::from_secs(60);
const DIFFERENT: Duration = Duration::from_secs(5);

/// The last logged warning about an outage. All clones share it, because an outage can continue
/// after the end of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages(Arc<Mutex<Option<Warning>>>);

/// The last warning of the current outage.
#[derive(Debug)]
struct Warning {
    servers: String,
    at: Instant,
}

impl Outages {
    /// Logs a warning that no server can be used, unless it was logged recently.
    ///
    /// `servers` describes what happened at each server. Returns `true` if the warning was logged.
    pub(crate) fn warn_once(&self, servers: &str) -> bool {
        let (now, mut last) = (Instant::now(), self.last());
        let is_due = last.as_ref().is_none_or(|last| {
            let pause = if last.servers == servers { SAME } else { DIFFERENT };
            now.duration_since(last.at) >= pause
        });
        if is_due {
            tracing::warn!(%servers, "no server is usable; trying again");
            *last = Some(Warning { servers: servers.to_owned(), at: now });
        }
        is_due
    }

    /// Ends the outage. The next outage is logged again.
    pub(crate) fn end(&self) {
        *self.last() = None;
    }

    /// Logs a warning with the causes whenever all servers reject the client after this call.
    ///
    /// `servers` is a list of `host:port`, separated by commas. The future runs until it is
    /// dropped.
    pub(crate) fn watch(self, settings: Settings, servers: String) -> impl Future<Output = ()> + Send {
        let since = Instant::now();
        async move {
            loop {
                settings.attempt_failed().await;
                let failures = settings.failures_since(since);
                if failures.len() >= servers.split(',').count() {
                    self.warn_once(&Servers::from(ServerReport::all(&servers, &failures)).to_string());
                }
            }
        }
    }

    /// Returns the text of the last warning of the current outage.
    #[cfg(test)]
    pub(crate) fn warned(&self) -> Option<String> {
        self.last().as_ref().map(|warning| warning.servers.clone())
    }

    fn last(&self) -> MutexGuard<'_, Option<Warning>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of warnings in `seconds` seconds, with one failed attempt at all servers
    /// each second. `problem` returns the cause of each failure.
    async fn told(seconds: u64, problem: impl Fn(u64) -> String) -> usize {
        let (outages, mut told) = (Outages::default(), 0);
        for second in 0..seconds {
            told += usize::from(outages.warn_once(&problem(second)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        told
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_tells_once_a_minute_of_servers_that_cannot_be_used_and_sooner_if_something_else_happens()
    {
        assert_eq!(told(60, |_| "refused".to_owned()).await, 1);
        assert_eq!(told(61, |_| "refused".to_owned()).await, 2);
        assert_eq!(told(60, |second| format!("problem {second}")).await, 12);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_outage_is_told_of_although_the_same_happens() {
        let outages = Outages::default();
        assert!(outages.warn_once("refused") && !outages.clone().warn_once("refused"));
        outages.end();
        assert!(outages.warn_once("refused"));
    }
}
