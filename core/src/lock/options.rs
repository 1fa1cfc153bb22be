//! How a lock behaves: what callers may choose, whatever its kind.

use std::sync::Arc;
use std::time::Duration;

use crate::config::timeout::Timeout;
use crate::config::{LONGEST, size_limits};
use crate::error::{Error, Result};
use crate::lease::hold::{AcquireRequest, Grace};
use crate::lease::owner::Owner;
use crate::lock::node_metadata::NodeHolders;
use crate::metrics::recorder::WaitTimer;
use crate::queue::{Intent, Kind, Naming};

/// How a lock behaves. One type for all kinds of locks; a lock refuses what it cannot do with
/// [`BadArgument`](crate::ErrorKind::BadArgument) when it is created, instead of ignoring it.
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
    /// Whether an owner that holds the lock may acquire it again. For mutexes; a read/write lock is always reentrant,
    /// and a semaphore never. Default: yes.
    #[must_use]
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = Some(reentrant);
        self
    }

    /// A name for this contender, shown to operators in the data of its nodes: up to 1024 bytes of UTF-8. Default: that
    /// of the client.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into().into());
        self
    }

    /// How the nodes are named, which decides which other clients understand them. For mutexes and read/write locks.
    /// Default: as Curator names them.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    /// For how long the lock may be held, from the grant on, however often its owner acquires it again. Then the lease
    /// is lost, for the reason [`HeldTooLong`](crate::LossReason::HeldTooLong), and its node is deleted, so that the next
    /// contender gets the lock. For a semaphore it is the limit of each permit. Default: no limit.
    ///
    /// Without it a program that hangs keeps its locks for ever: the heartbeat has a thread of its own. Choose it longer
    /// than any honest hold, and stop on the loss as on any other: nothing else ends what the program does under the
    /// lock.
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.max_hold = Some(time);
        self
    }

    /// How long before the end of its term a lease is reported lost. The lock's node is kept until the lease is released
    /// or that term ends, so the program has this long to stop before another contender can be granted the lock. Default:
    /// none.
    ///
    /// At most a sixth of the session time-out that the server granted; an acquire fails with
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if it is more. A grant waits until a sixth of the time-out and the
    /// grace are left of the term. A lock that is broken, a session that ends early and `max_hold` leave no grace.
    #[must_use]
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// How many contenders may wait for the lock at most when another one joins them: for a service that refuses a request
    /// rather than queue it. An attempt that would have to wait behind this many waiters is refused at once, with a
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout) for the reason [`Full`](crate::TimeoutReason::Full). It has created
    /// nothing by then. With 0, an attempt never waits behind anybody. Holders are no waiters, and one that acquires the
    /// lock again is never refused. Default: no limit.
    ///
    /// An attempt that may wait reads the queue first, which costs a round trip more (a semaphore reads two directories, in
    /// one flight). Contenders that arrive at the same moment read the same queue, so the limit holds but for those. It
    /// is a limit of this lock object: others on the path have their own, or none. A try does not wait in any case, and
    /// fails because the lock is [`Taken`](crate::TimeoutReason::Taken).
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

    /// How many holds may follow each other on one node within this client, before the ensemble's queue gets its turn. For
    /// mutexes and write locks for which many threads or tasks of one client contend. Default: one, which keeps the strict
    /// order of the queue; 0 means the same.
    ///
    /// The thread that releases the lock hands it to the client's next waiter without a request. Waiters that will be
    /// served so create no nodes, so other clients do not see them; one node stands in the queue for all of them. A
    /// contender of another client waits for up to this many holds for each node before its own. Holds that follow each
    /// other have the same fencing token: a resource compares the pair of token and [`handoffs`](crate::Lease::handoffs).
    /// Not together with [`max_waiters`](Self::max_waiters), which counts nodes.
    ///
    /// The lock is not handed on while the client is disconnected, with no more than a sixth of the session time-out left
    /// of the term, once somebody has asked its holder to give it up, or on a node that is older than
    /// [`max_hold`](Self::max_hold), which counts from each grant.
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

    /// For how long the lock's node is kept after the lock was released, while nobody else waits for it. For locks that the
    /// same client takes again and again: a mutex, a write lock, or the read lock of a configuration that seldom changes.
    /// Default: not at all.
    ///
    /// Taking the lock again sends no request and needs no answer. The client watches the lock's directory, and gives the
    /// node up as soon as a contender joins that would have to wait for it: that contender waits one round trip longer than
    /// for a lock that is free. The time counts from the first release after a grant, however often the lock is taken
    /// again; then the node is deleted. The end of the client and of the process give it up at once.
    ///
    /// A try of another client finds the lock taken while its node is kept. Holds that follow each other on one node have
    /// the same fencing token: a resource compares the pair of token and [`handoffs`](crate::Lease::handoffs). If nodes are
    /// given up more than eight times within `time`, each before it was taken again eight times, none is kept for that
    /// long. Not for semaphores, elections and [`once`](crate::Mutex::once).
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

    /// The settings of a mutex.
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

    /// The settings of both halves of a read/write lock.
    pub(crate) fn of_read_write_lock(self) -> Result<LockSettings> {
        if self.reentrant == Some(false) {
            return Err(Error::bad_argument(
                "reentrant",
                "a read/write lock is always reentrant; leave it out",
            ));
        }
        Ok(self.of_mutex())
    }

    /// The settings of a semaphore whose nodes state this number of permits.
    pub(crate) fn of_semaphore(self, stated_permits: Option<u32>) -> Result<LockSettings> {
        if self.reentrant == Some(true) {
            let problem = "a permit has no owner that could acquire it again; leave it out";
            return Err(Error::bad_argument("reentrant", problem));
        }
        if self.naming != Naming::Curator {
            let problem =
                "a semaphore has Curator's layout only, and other clients' contenders would not see it";
            return Err(Error::bad_argument("naming", problem));
        }
        if self.cohort > 1 {
            let problem = "permits are not handed on within a client; leave it out";
            return Err(Error::bad_argument("cohort", problem));
        }
        if !self.linger.is_zero() {
            let problem = "the node of a permit is not kept; leave it out";
            return Err(Error::bad_argument("linger", problem));
        }
        // Each request is by an owner of its own, so that nobody re-enters.
        Ok(LockSettings { stated_permits, ..self.of_mutex() })
    }
}

/// How a lock behaves, whatever its kind.
#[derive(Clone, Debug)]
pub(crate) struct LockSettings {
    pub(crate) reentrant: bool,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) naming: Naming,
    /// For how long it may be held, if that is limited.
    pub(crate) max_hold: Option<Duration>,
    /// How long before the end of its term a lease is lost.
    pub(crate) grace: Duration,
    /// How many contenders may wait at most when another one joins them, if that is limited.
    pub(crate) max_waiters: Option<u32>,
    /// How many holds there may be on one node.
    pub(crate) cohort: u32,
    /// For how long its node is kept after the first release.
    pub(crate) linger: Duration,
    /// For a semaphore: the number of permits that its nodes state.
    pub(crate) stated_permits: Option<u32>,
}

impl LockSettings {
    /// The same within their bounds.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a label that is too long, a hold of no time, or a cohort with a
    /// limit of waiters.
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

    /// The holders for whom a node of a lock of this kind is created, for this owner first.
    pub(crate) fn node_holders<'a>(&self, kind: Kind, owner: &'a Owner) -> NodeHolders<'a> {
        match (self.holds_in_a_row(kind), Grace::of(self.linger).millis()) {
            (0, 0) => NodeHolders::One(owner),
            (cohort, linger) => NodeHolders::Several { cohort, linger },
        }
    }

    /// How many holds of a lock of this kind may follow each other on one node; zero if it is not handed on.
    fn holds_in_a_row(&self, kind: Kind) -> u16 {
        let handed_on = self.cohort > 1 && matches!(kind, Kind::Exclusive | Kind::Write);
        if handed_on { u16::try_from(self.cohort).unwrap_or(u16::MAX) } else { 0 }
    }

    /// How an attempt that may take this long joins the queue.
    pub(crate) fn intent(&self, timeout: Timeout) -> Intent {
        match (timeout.intent(), self.max_waiters) {
            (Intent::Wait, Some(waiters)) => Intent::WaitIfFewer(waiters),
            (intent, _) => intent,
        }
    }

    /// The request of a caller that has waited like this.
    pub(crate) fn request(&self, caller: Owner, kind: Kind, wait: WaitTimer) -> AcquireRequest {
        let (max_hold, grace) = (self.max_hold, Grace::of(self.grace));
        let cohort = self.holds_in_a_row(kind);
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
