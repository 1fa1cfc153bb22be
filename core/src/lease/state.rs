//! The states of a lease, and the shared state of a hold.

use std::fmt;
use std::pin::pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::error::loss_reason::LossReason;
use crate::runtime::sync::{AtomicBool, AtomicU8, Mutex, Notify};

/// The state of a lease.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::LeaseState;
///
/// let lease = zklock::Mutex::new(client, "/locks/report")?.acquire().await?;
/// if lease.state() == LeaseState::Suspended {
///     println!("begin nothing long now: {:?} are left", lease.remaining());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is held, but the server does not reply. If it replies in time, the state becomes
    /// `Held` again. Otherwise, the lock is lost.
    Suspended,
    /// The lock is lost. This state is final.
    Lost(LossReason),
    /// This lease was released. The same owner can still hold the lock through other leases.
    Released,
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl LeaseState {
    /// All states, at the index of their number.
    const ALL: [Self; 9] = [
        Self::Held,
        Self::Suspended,
        Self::Released,
        Self::Lost(LossReason::TermEnded),
        Self::Lost(LossReason::SessionExpired),
        Self::Lost(LossReason::NodeDeleted),
        Self::Lost(LossReason::ClientClosed),
        Self::Lost(LossReason::HeldTooLong),
        Self::Lost(LossReason::Forked),
    ];

    /// Returns the state's number, for an atomic variable.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Suspended => 1,
            Self::Released => 2,
            Self::Lost(reason) => 3 + reason as u8,
        }
    }

    /// Returns the state with this [`number`](Self::number).
    pub(crate) fn numbered(number: u8) -> Self {
        Self::ALL[usize::from(number)]
    }

    /// Returns the name of the state. It is the same in all language bindings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Suspended => "suspended",
            Self::Lost(_) => "lost",
            Self::Released => "released",
        }
    }

    /// Returns `true` if the lock is held, even if the client is disconnected.
    pub(crate) fn holds(self) -> bool {
        matches!(self, Self::Held | Self::Suspended)
    }
}

#[derive(Debug, Default)]
pub(crate) struct HoldState {
    /// The number of the state. The default 0 is `Held`.
    state: AtomicU8,
    /// True if another contender has requested the lock.
    revoked: AtomicBool,
    /// Locked during each change of the state, so that no change is lost.
    changing: Mutex<()>,
    changed: Notify,
}

impl HoldState {
    /// Returns the current state.
    pub(crate) fn state(&self) -> LeaseState {
        LeaseState::numbered(self.state.load(Ordering::Acquire))
    }

    /// Changes the state and wakes the waiters. Returns `true` if the state changed.
    ///
    /// `to` receives the current state and returns the new state, which other threads see only
    /// after `to` has returned.
    pub(crate) fn change(&self, to: impl FnOnce(LeaseState) -> Option<LeaseState>) -> bool {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = to(self.state()) else { return false };
        self.state.store(state.number(), Ordering::Release);
        drop(changing);
        self.wake_waiters();
        true
    }

    /// Records that another client has requested the lock, and wakes the waiters.
    pub(crate) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
        self.wake_waiters();
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Wakes the waiters, so that they check the state again.
    pub(crate) fn wake_waiters(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until `look`, which reads this state, returns a value.
    pub(crate) async fn wait_for<T>(&self, look: impl Fn(&Self) -> Option<T>) -> T {
        let mut changed = pin!(self.changed.notified());
        loop {
            // Check the state after `changed` exists, so that any later change completes `changed`.
            if let Some(found) = look(self) {
                return found;
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_number_of_its_own() {
        for (number, state) in (0..).zip(LeaseState::ALL) {
            assert_eq!((state.number(), LeaseState::numbered(number)), (number, state));
        }
    }
}
