//! A request to acquire a lock, with the options of its hold.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::lease::owner::{Owner, OwnerId};
use crate::metrics::recorder::WaitTimer;
use crate::queue::Kind;

/// A request to acquire a lock. A contender keeps the same request while it waits and while it
/// holds the lock.
#[derive(Clone)]
pub(crate) struct AcquireRequest {
    pub(crate) owner: OwnerId,
    /// The thread or task that sent the request. If the lock is reentrant, it is also the owner.
    /// Otherwise the owner was created for this acquire only.
    pub(crate) caller: Owner,
    pub(crate) kind: Kind,
    /// Label of the lock.
    pub(crate) label: Option<Arc<str>>,
    /// Time when the caller began to wait. `None` if reports and metrics must not count the request
    /// as a hold.
    pub(crate) since: Option<Instant>,
    /// True if the request had to wait for another contender.
    pub(crate) contended: bool,
    /// Maximum duration of the hold, if limited.
    pub(crate) max_hold: Option<Duration>,
    /// How long before the end of the session's term the lease counts as lost.
    pub(crate) grace: Grace,
    /// Maximum number of consecutive holds on one node. It is more than 1 if hand-offs are
    /// permitted.
    pub(crate) cohort: u16,
    /// Time in milliseconds for which the node is kept, counted from its first release. It is 0 if
    /// the node is deleted at its release.
    pub(crate) linger: u32,
}

/// How long before the end of the session's term a lease counts as lost. Stored as a `u32` in whole
/// milliseconds to save memory, because every waiter has a grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grace(u32);

impl Grace {
    /// Converts a duration to whole milliseconds. Rounds down, but a time above zero becomes at
    /// least one millisecond. Rounding up could exceed the maximum of a sixth of the session
    /// timeout, which is seldom a whole number of milliseconds.
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
    /// Creates the request of a caller whose wait began at `wait`. If `wait` is `None`, the request
    /// does not count as a hold.
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

    /// Returns `true` if this request is only a step of a semaphore's acquire: the request for the
    /// internal mutex, or for one of several permits. The metrics do not count such a step, because
    /// they count the acquire as a whole.
    pub(crate) fn is_part(&self) -> bool {
        self.since.is_none() || matches!(self.kind, Kind::Permit(_))
    }
}
