//! A client that is about to close: it takes no new attempts, and closes when it holds nothing any more.

use tokio::sync::oneshot;

use super::Driver;
use crate::config::timeout::Deadline;
use crate::driver::directory::Directory;
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::Alarm;
use crate::error::Error;
use crate::queue::Intent;

/// The end that a client waits for.
pub(super) struct Drain {
    /// When it closes at the latest: the earliest of the times that were asked for.
    until: Deadline,
    /// Callers that wait for the close.
    closers: Vec<oneshot::Sender<()>>,
}

impl Drain {
    pub(super) fn closers(self) -> Vec<oneshot::Sender<()>> {
        self.closers
    }
}

/// Whether an attempt changes a hold of its owner, and asks for no lock that the owner does not have. Such an attempt is
/// part of a running scope, and does not wait for others.
pub(super) fn is_part_of_a_hold(attempt: &AcquireAttempt) -> bool {
    matches!(attempt.intent, Intent::Downgrade { .. })
}

impl Driver {
    /// Takes no new attempts from now on, and fails those that wait. Without that, a queue that never empties would keep
    /// the client open, and a waiter that is granted late would begin a scope that the close cuts off.
    pub(super) fn drain(&mut self, until: Deadline, done: oneshot::Sender<()>) {
        let drain = self.drain.get_or_insert_with(|| Drain { until, closers: Vec::new() });
        drain.closers.push(done);
        if let Some(end) = until.end() {
            if drain.until.end().is_none_or(|earlier| end < earlier) {
                drain.until = until;
            }
            self.timers.set(end, Alarm::Drained);
        }
        self.directories.turn_away(&Error::client_draining(), &mut self.timers, is_part_of_a_hold);
        self.stop_unless_wanted();
    }

    /// Whether the client was to drain, and has.
    pub(super) fn is_drained(&self) -> bool {
        // The first directory with a hold answers. Directories without any are those whose nodes are being deleted.
        self.drain
            .as_ref()
            .is_some_and(|drain| drain.until.is_over() || !self.directories.iter().any(Directory::is_in_use))
    }
}
