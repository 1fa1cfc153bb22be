//! Drains a client: it accepts no new acquires, and closes as soon as it holds no lock.

use tokio::sync::oneshot;

use super::Driver;
use crate::config::timeout::Deadline;
use crate::driver::directory::Directory;
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::Alarm;
use crate::error::Error;
use crate::queue::Intent;

/// A pending close of the client.
pub(super) struct Drain {
    /// The latest time to close: the earliest of the requested times.
    until: Deadline,
    /// Callers that wait for the close.
    closers: Vec<oneshot::Sender<()>>,
}

impl Drain {
    pub(super) fn closers(self) -> Vec<oneshot::Sender<()>> {
        self.closers
    }
}

/// Returns `true` if an attempt only changes its owner's hold, such as a downgrade. A draining
/// client accepts such attempts, because they do not wait for other owners.
pub(super) fn is_part_of_a_hold(attempt: &AcquireAttempt) -> bool {
    matches!(attempt.intent, Intent::Downgrade { .. })
}

impl Driver {
    /// Starts to drain: refuses new attempts and fails waiting attempts. A waiting attempt could
    /// keep the client open, or acquire a lock shortly before the client closes.
    pub(super) fn drain(&mut self, until: Deadline, done: oneshot::Sender<()>) {
        let drain = self.drain.get_or_insert_with(|| Drain { until, closers: Vec::new() });
        drain.closers.push(done);
        if let Some(end) = until.end() {
            if drain.until.end().is_none_or(|earlier| end < earlier) {
                drain.until = until;
            }
            self.timers.set(end, Alarm::Drained);
        }
        self.directories.refuse_waiters(&Error::client_draining(), &mut self.timers, is_part_of_a_hold);
        self.stop_unless_wanted();
    }

    pub(super) fn is_drained(&self) -> bool {
        // Do not wait for the deletion of the last nodes: only holds and waiters count.
        self.drain
            .as_ref()
            .is_some_and(|drain| drain.until.is_over() || !self.directories.iter().any(Directory::is_in_use))
    }
}
