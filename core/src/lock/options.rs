//! Options of a lock, for all kinds of locks.

use std::sync::Arc;
use std::time::Duration;

use crate::config::timeout::Timeout;
use crate::config::{LONGEST, size_limits};
use crate::error::{Error, Result};
use crate::lease::owner::Owner;
use crate::lease::request::{AcquireRequest, Grace};
use crate::lock::node_metadata::NodeHolders;
use crate::metrics::recorder::WaitTimer;
use crate::queue::{Intent, Kind, Naming};

/// Options of a lock, for all kinds of locks.
///
/// If a kind of lock does not support an option, creating the lock fails with
/// [`BadArgument`](crate::ErrorKind::BadArgument).
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{LockOptions, Mutex, Naming};
///
/// let options = LockOptions::default().label("nightly report").naming(Naming::Kazoo);
/// let lock = Mutex::with_options(client, "/locks/report", options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOptions {
    reentrant: Option<bool>,
    label: Option<Arc<str>>,
    naming: Naming,
    max_hold: Option<Duration>,
    grace: Duration,
    max_waiters: Option<u32>,
    cohort: u32,
    linger: Duration,
}

impl LockOptions {
    /// Sets whether an owner that holds the lock can acquire it again. Default: `true`.
    ///
    /// This option is for mutexes. A read/write lock is always reentrant, and a semaphore never is.
    #[must_use]
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = Some(reentrant);
        self
    }

    /// Sets a name for this contender. It is stored in the data of its nodes, for operators.
    ///
    /// The label has at most 1024 bytes of UTF-8. Default: the label of the client.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into().into());
        self
    }

    /// Sets how nodes are named. The names decide which other client libraries can share the lock.
    ///
    /// This option is for mutexes and read/write locks. Default: Curator's names.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    /// Sets the maximum duration of a hold. Default: no limit.
    ///
    /// The time counts from the grant, and a re-entry does not extend it. Once it has passed,
    /// the lease is lost with the reason [`HeldTooLong`](crate::LossReason::HeldTooLong). The
    /// lock's node is deleted, so the next contender gets the lock. For a semaphore, the limit
    /// applies to each permit.
    ///
    /// Without a limit, a program that hangs keeps its locks forever, because a separate thread
    /// sends the heartbeats. Choose a limit longer than any legitimate hold. The program must stop
    /// its work when the lease is lost, as for any other loss. The library cannot stop that work.
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.max_hold = Some(time);
        self
    }

    /// Sets the *grace*: the time between the report of a loss and the end of the session's term.
    /// Default: zero.
    ///
    /// The term is the time until which the client is certain that the session is alive. The lock's
    /// node is kept until the lease is released or the term ends. So after the report, the program
    /// has this much time to stop before another contender can get the lock.
    ///
    /// The grace can be at most a sixth of the session timeout that the server granted. Otherwise
    /// an acquire fails with [`BadArgument`](crate::ErrorKind::BadArgument). A lock is granted only
    /// if the time left in the term is longer than the grace plus a sixth of the session timeout.
    /// There is no grace if an operator deletes the lock's node, if the session ends early, or if
    /// `max_hold` ends the hold.
    #[must_use]
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Sets the maximum number of waiters ahead of a new contender. Default: no limit.
    ///
    /// Use this option in a service that would rather reject a request than let it wait. If an
    /// acquire would have to wait behind this many waiters, it fails immediately, before it creates
    /// a node. The error is [`LockTimeout`](crate::ErrorKind::LockTimeout) with the reason
    /// [`Full`](crate::TimeoutReason::Full). With 0, an acquire never waits. Holders do not count
    /// as waiters. A re-entry never fails for this reason.
    ///
    /// With this option, an acquire takes one more round trip, because it first reads the queue.
    /// For a semaphore, it reads two directories in the same round trip. Contenders that arrive at
    /// the same moment read the same queue, so together they can exceed the limit. The limit
    /// applies only to this lock object. Other lock objects with the same path have their own limit
    /// or none. An acquire with [`Timeout::Try`](crate::Timeout::Try) ignores the limit, because it
    /// never waits. If the lock is taken, it fails with the reason
    /// [`Taken`](crate::TimeoutReason::Taken).
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// use zklock::{LockOptions, Mutex, TimeoutReason};
    ///
    /// let lock = Mutex::with_options(client, "/locks/report", LockOptions::default().max_waiters(10))?;
    /// match lock.acquire().await {
    ///     Ok(lease) => lease.release().await?,
    ///     Err(error) if error.timeout_reason() == Some(TimeoutReason::Full) => println!("503: {error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_waiters(mut self, waiters: u32) -> Self {
        self.max_waiters = Some(waiters);
        self
    }

    /// Sets how many owners of this client can hold the lock one after the other through the same
    /// node. Default: 1. The value 0 means the same.
    ///
    /// Use this option for mutexes and write locks if many threads or tasks of one client contend
    /// for them. With the default, all contenders receive the lock in queue order. With a larger
    /// number, other clients must wait for up to this many holds in a row.
    ///
    /// The thread that releases the lock hands it to the client's next waiter without a request.
    /// Waiters that receive the lock in this way create no nodes, so other clients do not see them.
    /// A single node is in the queue on behalf of all of them. A contender of another client waits
    /// for up to this many holds for each node ahead of its own. Consecutive holds have the same
    /// fencing token, so a resource must compare the pair of the token and
    /// [`handoffs`](crate::Lease::handoffs). This option cannot be combined with
    /// [`max_waiters`](Self::max_waiters), which counts nodes.
    ///
    /// The lock is not handed to the next waiter in these cases:
    /// * The client is disconnected.
    /// * The session's term ends within a sixth of the session timeout.
    /// * Another client has asked the holder to release the lock.
    /// * The node is older than [`max_hold`](Self::max_hold). Each hold also has its own time
    ///   limit, which counts from its grant.
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// use zklock::{LockOptions, Mutex};
    ///
    /// let lock = Mutex::with_options(client, "/locks/queue", LockOptions::default().cohort(64))?;
    /// let lease = lock.acquire().await?;
    /// println!("token {}, hand-off {}", lease.fencing_token(), lease.handoffs());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cohort(mut self, holds: u32) -> Self {
        self.cohort = holds;
        self
    }

    /// Sets how long the lock's node is kept after a release, while no other contender waits.
    /// Default: zero.
    ///
    /// Use this option for locks that the same client acquires repeatedly: a mutex, a write lock,
    /// or the read lock of a configuration that seldom changes.
    ///
    /// While the node is kept, this client acquires the lock again without a request. The client
    /// watches the lock's directory. As soon as another contender must wait because of the node,
    /// the client deletes the node. That contender waits one round trip longer than for a free
    /// lock. The time begins at the first release after a grant, and acquiring the lock again does
    /// not extend it. After that time, the node is deleted. It is also deleted immediately when the
    /// client is closed or the process exits.
    ///
    /// While the node is kept, an acquire with [`Timeout::Try`](crate::Timeout::Try) by another
    /// client fails, because the lock is taken. Consecutive holds on one node have the same fencing
    /// token, so a resource must compare the pair of token and
    /// [`handoffs`](crate::Lease::handoffs). If kept nodes save too few requests, the client stops
    /// keeping nodes for the length of `time`. Kept nodes save too few requests if, within `time`,
    /// the client has deleted them for other contenders more than eight times, each time after fewer
    /// than eight acquires without a request.
    ///
    /// Semaphores and elections do not support this option, and [`once`](crate::Mutex::once)
    /// ignores it.
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// use std::time::Duration;
    /// use zklock::{LockOptions, ReadWriteLock};
    ///
    /// let options = LockOptions::default().linger(Duration::from_secs(1));
    /// let settings = ReadWriteLock::with_options(client, "/locks/settings", options)?;
    /// for _ in 0..1_000 {
    ///     let lease = settings.read_lock.acquire().await?; // sends a request the first time
    ///     drop(lease);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    pub(crate) fn of_mutex(self) -> LockSettings {
        let Self { reentrant, label, naming, max_hold, grace, max_waiters, cohort, linger } = self;
        let reentrant = reentrant.unwrap_or(true);
        let stated_permits = None;
        LockSettings {
            reentrant,
            label,
            naming,
            max_hold,
            grace,
            max_waiters,
            cohort,
            linger,
            stated_permits,
        }
    }

    pub(crate) fn of_read_write_lock(self) -> Result<LockSettings> {
        if self.reentrant == Some(false) {
            return Err(Error::bad_argument(
                "reentrant",
                "a read/write lock is always reentrant; omit this option",
            ));
        }
        Ok(self.of_mutex())
    }

    /// Returns the settings of a semaphore. `stated_permits` is the number of permits that its
    /// nodes contain, if any.
    pub(crate) fn of_semaphore(self, stated_permits: Option<u32>) -> Result<LockSettings> {
        if self.reentrant == Some(true) {
            let problem = "a permit has no owner that could acquire it again; omit this option";
            return Err(Error::bad_argument("reentrant", problem));
        }
        if self.naming != Naming::Curator {
            let problem =
                "a semaphore supports only Curator's layout; contenders with another layout would not see it";
            return Err(Error::bad_argument("naming", problem));
        }
        if self.cohort > 1 {
            let problem = "permits are not handed on within a client; omit this option";
            return Err(Error::bad_argument("cohort", problem));
        }
        if !self.linger.is_zero() {
            let problem = "the node of a permit is not kept; omit this option";
            return Err(Error::bad_argument("linger", problem));
        }
        // Each request has a new owner, so `reentrant` has no effect.
        Ok(LockSettings { stated_permits, ..self.of_mutex() })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LockSettings {
    pub(crate) reentrant: bool,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) naming: Naming,
    /// Maximum duration of a hold, if limited.
    pub(crate) max_hold: Option<Duration>,
    /// A lease counts as lost this long before the end of its term.
    pub(crate) grace: Duration,
    /// Maximum number of waiters ahead of a new contender. `None` if there is no limit.
    pub(crate) max_waiters: Option<u32>,
    /// Maximum number of consecutive holds on one node.
    pub(crate) cohort: u32,
    /// Time for which a node is kept after the first release.
    pub(crate) linger: Duration,
    /// For a semaphore: the number of permits that its nodes contain.
    pub(crate) stated_permits: Option<u32>,
}

impl LockSettings {
    /// Checks the settings and limits `max_hold` to the longest supported time.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if the label is too long, if `max_hold` is
    /// zero, or if `cohort` is combined with `max_waiters`.
    pub(crate) fn validated(self) -> Result<Self> {
        size_limits::check("label", self.label.as_deref().map_or(0, str::len), size_limits::LABEL)?;
        if self.max_hold.is_some_and(|time| time.is_zero()) {
            return Err(Error::bad_argument("max_hold", "must be more than zero"));
        }
        if self.cohort > 1 && self.max_waiters.is_some() {
            let problem =
                "must not be combined with max_waiters, which counts nodes: waiters of a cohort have none";
            return Err(Error::bad_argument("cohort", problem));
        }
        Ok(Self { max_hold: self.max_hold.map(|time| time.min(LONGEST)), ..self })
    }

    pub(crate) fn node_holders<'a>(&self, kind: Kind, owner: &'a Owner) -> NodeHolders<'a> {
        match (self.consecutive_holds(kind), Grace::of(self.linger).millis()) {
            (0, 0) => NodeHolders::One(owner),
            (cohort, linger) => NodeHolders::Several { cohort, linger },
        }
    }

    /// Returns the maximum number of consecutive holds on one node. Returns zero if this client
    /// never hands the lock to another of its owners.
    fn consecutive_holds(&self, kind: Kind) -> u16 {
        let handed_on = self.cohort > 1 && matches!(kind, Kind::Exclusive | Kind::Write);
        if handed_on { u16::try_from(self.cohort).unwrap_or(u16::MAX) } else { 0 }
    }

    pub(crate) fn intent(&self, timeout: Timeout) -> Intent {
        match (timeout.intent(), self.max_waiters) {
            (Intent::Wait, Some(waiters)) => Intent::WaitIfFewer(waiters),
            (intent, _) => intent,
        }
    }

    /// Returns the request of a caller that has waited for `wait`.
    pub(crate) fn request(&self, caller: Owner, kind: Kind, wait: WaitTimer) -> AcquireRequest {
        let (max_hold, grace) = (self.max_hold, Grace::of(self.grace));
        let cohort = self.consecutive_holds(kind);
        let linger = Grace::of(self.linger).millis();
        AcquireRequest {
            label: self.label.clone(),
            max_hold,
            grace,
            cohort,
            linger,
            ..AcquireRequest::new(caller, kind, wait.counts.then_some(wait))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument<T>(result: Result<T>) -> Option<String> {
        result.err().and_then(|error| error.argument().map(str::to_owned))
    }

    #[test]
    fn a_lock_refuses_what_it_cannot_do() {
        let options = LockOptions::default;
        assert_eq!(argument(options().reentrant(false).of_read_write_lock()).as_deref(), Some("reentrant"));
        assert_eq!(argument(options().reentrant(true).of_semaphore(None)).as_deref(), Some("reentrant"));
        assert_eq!(argument(options().naming(Naming::Kazoo).of_semaphore(None)).as_deref(), Some("naming"));
    }

    #[test]
    fn what_is_so_anyway_may_be_said() {
        let options = LockOptions::default;
        assert!(options().reentrant(true).naming(Naming::Kazoo).of_read_write_lock().is_ok());
        assert!(options().reentrant(false).naming(Naming::Curator).label("x").of_semaphore(Some(2)).is_ok());
        assert!(!options().reentrant(false).of_mutex().reentrant);
        assert!(options().of_mutex().reentrant);
    }
}
