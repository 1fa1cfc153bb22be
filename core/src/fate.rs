//! What becomes of a hold: its state, and whether it was asked for, for those that look and those that wait.
//!
//! Whoever looks only reads: a lock is looked at far more often than it changes hands.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::lease_state::LeaseState;

#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// By number; the first is `Held`.
    state: AtomicU8,
    /// Whether another contender has asked for the lock.
    revoked: AtomicBool,
    /// Borrowed while the state changes, so that one change follows from the last.
    changing: Mutex<()>,
    changed: Notify,
}

impl Fate {
    /// The state that was set last.
    pub(crate) fn state(&self) -> LeaseState {
        LeaseState::numbered(self.state.load(Ordering::Acquire))
    }

    /// Changes the state, and tells those that wait. Returns whether it changed. What `to` does is done before anyone
    /// sees the new state.
    pub(crate) fn change(&self, to: impl FnOnce(LeaseState) -> Option<LeaseState>) -> bool {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = to(self.state()) else { return false };
        self.state.store(state.number(), Ordering::Release);
        drop(changing);
        self.look_again();
        true
    }

    /// Another contender has asked for the lock.
    pub(crate) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
        self.look_again();
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Those that wait look again.
    pub(crate) fn look_again(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until what is looked for is there.
    pub(crate) async fn wait_for<T>(&self, look: impl Fn(&Self) -> Option<T>) -> T {
        let mut changed = pin!(self.changed.notified());
        loop {
            // After this future was made: it ends with any later change.
            if let Some(found) = look(self) {
                return found;
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }
}
