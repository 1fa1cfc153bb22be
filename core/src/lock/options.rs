//! How a lock behaves: what callers may choose, whatever its kind.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{LONGEST, size_limits};
use crate::error::{Error, Result};
use crate::lease::hold::AcquireRequest;
use crate::lease::owner::Owner;
use crate::metrics::recorder::WaitTimer;
use crate::queue::{Kind, Naming};

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

    /// The settings of a mutex.
    pub(crate) fn of_mutex(self) -> LockSettings {
        let Self { reentrant, label, naming, max_hold } = self;
        LockSettings { reentrant: reentrant.unwrap_or(true), label, naming, max_hold, stated_permits: None }
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
    /// For a semaphore: the number of permits that its nodes state.
    pub(crate) stated_permits: Option<u32>,
}

impl LockSettings {
    /// The same within their bounds.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a label that is too long, or a hold of no time.
    pub(crate) fn validated(self) -> Result<Self> {
        size_limits::check("label", self.label.as_deref().map_or(0, str::len), size_limits::LABEL)?;
        if self.max_hold.is_some_and(|time| time.is_zero()) {
            return Err(Error::bad_argument("max_hold", "must be more than zero"));
        }
        Ok(Self { max_hold: self.max_hold.map(|time| time.min(LONGEST)), ..self })
    }

    /// The request of an owner that has waited like this.
    pub(crate) fn request(&self, owner: Owner, kind: Kind, wait: WaitTimer) -> AcquireRequest {
        let max_hold = self.max_hold;
        AcquireRequest { max_hold, ..AcquireRequest::new(owner, kind, wait.counts.then_some(wait)) }
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
