//! The driver's clockwork: one sleep for all its alarms.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::queue::JoinId;

/// What is due. Alarms are not taken back: who is told checks whether it still matters.
#[derive(Clone, Debug)]
pub(super) enum Alarm {
    /// The caller's time is up.
    Deadline(Arc<str>, JoinId),
    /// The client's time to reach a server is up, for this contender.
    Unreachable(Arc<str>, JoinId),
    /// The client's time to reach a server is up, for those that wait for just that.
    Connect,
    /// A hold has lasted for long.
    Guard(Arc<str>, JoinId),
    /// It is time to look for silent queues.
    LookAgain,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    // The number keeps alarms of the same instant apart.
    alarms: BTreeMap<(Instant, u64), Alarm>,
    count: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at: Instant, alarm: Alarm) {
        self.count += 1;
        self.alarms.insert((at, self.count), alarm);
    }

    /// Waits until an alarm is due. Cancel safe.
    pub(super) async fn next(&self) {
        match self.alarms.first_key_value() {
            Some(((at, _), _)) => sleep_until(*at).await,
            None => std::future::pending().await,
        }
    }

    /// The next alarm that is due.
    pub(super) fn due(&mut self) -> Option<Alarm> {
        let first = self.alarms.first_entry()?;
        (first.key().0 <= Instant::now()).then(|| first.remove())
    }
}
