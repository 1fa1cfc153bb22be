//! The driver's clockwork: one sleep for all its alarms.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::queue::{Event, JoinId, NodeName};

/// What is due. The receiver checks whether it still matters: an alarm may be cancelled too late.
#[derive(Clone, Debug)]
pub(super) enum Alarm {
    /// The caller's time is up.
    Deadline(Arc<str>, JoinId),
    /// The client's time to reach a server is up, for this contender.
    Unreachable(Arc<str>, JoinId),
    /// The client's time to reach a server is up, for callers that wait for just that.
    Connect,
    /// An event that was held back is delivered.
    Tell(Arc<str>, Event),
    /// The caller that released this node's hold waits no longer.
    Released(Arc<str>, NodeName),
    /// The hold through this node has lasted for long.
    LongHold(Arc<str>, NodeName),
    /// The hold through this node has lasted for as long as it may.
    HeldTooLong(Arc<str>, NodeName),
    /// The heartbeat is due.
    Beat,
    /// The session's term has ended, unless it was extended.
    TermEnd,
    /// The session is given up, unless it has answered.
    Surrender,
    /// A queue that cannot watch polls.
    Poll(Arc<str>),
    /// It is time to look for silent queues.
    LookAgain,
}

/// Names an alarm that was set. The number distinguishes alarms set for the same instant.
pub(super) type AlarmKey = (Instant, u64);

#[derive(Debug, Default)]
pub(super) struct Timers {
    alarms: BTreeMap<AlarmKey, Alarm>,
    count: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at: Instant, alarm: Alarm) -> AlarmKey {
        self.count += 1;
        let key = (at, self.count);
        self.alarms.insert(key, alarm);
        key
    }

    /// Cancels alarms: a time-out of an hour must not be remembered for an hour when the lock came at once.
    pub(super) fn cancel(&mut self, keys: &[AlarmKey]) {
        for key in keys {
            self.alarms.remove(key);
        }
    }

    /// How many alarms are set.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.alarms.len()
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
