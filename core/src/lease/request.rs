//! A request to acquire a lock, with the options of its hold.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::lease::owner::{Owner, OwnerId};
use crate::metrics::recorder::WaitTimer;
use crate::queue::Kind;

/// A request to acquire a lock. A contender keeps its request while it waits for the lock and while
/// it holds the lock.
#[derive(Clone)]
pub(crate) struct AcquireRequest {
    pub(crate) owner: OwnerId,
    /// The thread or task that sent the request. If the lock is reentrant, it is also the owner.
    /// Otherwise, each acquire has a new owner.
    pub(crate) caller: Owner,
    pub(crate) kind: Kind,
    /// Label of the lock.
    pub(crate) label: Option<Arc<str>>,
    /// Time when the caller began to wait. `None` for an internal request (such as the mutex of a
    /// semaphore), which reports and metrics omit.
    pub(crate) since: Option<Instant>,
    /// True if the request had to wait for another contender.
    pub(crate) contended: bool,
    /// Maximum duration of the hold, if limited.
    pub(crate) max_hold: Option<Duration>,
    /// The option `grace`.
    pub(crate) grace: Grace,
    /// The option `cohort`: maximum number of consecutive holds on one node. Hand-offs are
    /// permitted if it is more than 1.
    pub(crate) cohort: u16,
    /// The option `linger`: time in milliseconds for which the node is kept after its first
    /// release, or 0 if the node is deleted immediately.
    pub(crate) linger: u32,
}

/// Time between the report that a lease is lost and the end of the session's term. A `u32` in
/// milliseconds saves memory, because every waiter has a grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grace(u32);

impl Grace {
    /// Converts a duration to whole milliseconds. Rounds down, because rounding up could exceed the
    /// maximum of a sixth of the session timeout. A time above zero becomes at least one
    /// millisecond.
    pub(crate) fn of(time: Duration) -> Self {
        let whole = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Self(if time.is_zero() { 0 } else { whole.max(1) })
    }

    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn time(self) -> Duration {
        Duration::from_millis(self.0.into())
    }

    pub(crate) fn millis(self) -> u32 {
        self.0
    }
}

impl AcquireRequest {
    /// Creates the request of a caller. `wait` is `None` for an internal request, such as the mutex
    /// of a semaphore.
    pub(crate) fn new(caller: Owner, kind: Kind, wait: Option<WaitTimer>) -> Self {
        let contended = wait.is_some_and(|wait| wait.contended);
        let (since, grace) = (wait.map(|wait| wait.since), Grace::default());
        Self {
            owner: caller.id(),
            caller,
            kind,
            label: None,
            since,
            contended,
            max_hold: None,
            grace,
            cohort: 0,
            linger: 0,
        }
    }

    /// Returns `true` if this request is one step of a semaphore's acquire: the internal mutex, or
    /// one of several permits. The metrics count only the whole acquire.
    pub(crate) fn is_part(&self) -> bool {
        self.since.is_none() || matches!(self.kind, Kind::Permit(_))
    }
}
