//! Several locks taken as one: all or nothing.

use std::time::Duration;

use crate::any_lock::AnyLock;
use crate::error::{Error, Result};
use crate::leases::Leases;
use crate::lock::busy_is_none;
use crate::owner::Owner;
use crate::patience::{Deadline, Patience};

/// Several locks that are acquired together, all or none, within one deadline.
///
/// They are taken in an order that is the same in all zklock programs: by ensemble, then by path from the root, byte by
/// byte.
/// So two programs cannot wait for each other. Curator's `InterProcessMultiLock` keeps its caller's order: such peers
/// must sort by path. A lock that is named twice is taken once; the write half of a read/write lock is taken before its
/// read half.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{MultiLock, Mutex};
///
/// let (from, to) = (Mutex::new(client, "/accounts/1")?, Mutex::new(client, "/accounts/2")?);
/// let both = MultiLock::new(vec![from.into(), to.into()])?;
/// let leases = both.acquire().await?;
/// leases.check()?;
/// leases.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MultiLock {
    /// In the order in which they are taken.
    locks: Vec<AnyLock>,
}

impl MultiLock {
    /// Locks that are to be acquired together.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for an empty list, for one path through two clients (they would
    /// wait for each other) or for locks of two kinds, or for a lock without re-entry that is named twice.
    pub fn new(mut locks: Vec<AnyLock>) -> Result<Self> {
        if locks.is_empty() {
            return Err(Error::bad_argument("locks", "must not be empty"));
        }
        locks.sort_by_cached_key(AnyLock::order);
        for pair in locks.windows(2) {
            let [one, other] = pair else { continue };
            if let Some(problem) = cannot_both_be_held(one, other) {
                return Err(Error::bad_argument("locks", format!("{:?} {problem}", one.path())));
            }
        }
        locks.dedup_by_key(|lock| lock.order());
        Ok(Self { locks })
    }

    /// The locks, in the order in which they are taken.
    #[must_use]
    pub fn locks(&self) -> &[AnyLock] {
        &self.locks
    }

    /// Acquires all as a new owner, waiting as long as it takes.
    ///
    /// Cancel safe: dropping the future leaves all queues and releases what was acquired.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire(&self) -> Result<Leases> {
        self.acquire_as(Owner::new(), Patience::Forever).await
    }

    /// Like [`acquire`](Self::acquire), within `time`, which covers all of them.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout), which names the lock that was waited for, and those of
    /// [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: Duration) -> Result<Leases> {
        self.acquire_as(Owner::new(), Patience::For(time)).await
    }

    /// Acquires all if all are free, without queueing for any. Some may be held for a moment before one turns out
    /// to be taken.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire).
    pub async fn try_acquire(&self) -> Result<Option<Leases>> {
        busy_is_none(self.acquire_as(Owner::new(), Patience::Try).await)
    }

    /// Acquires all for `owner`, within one deadline; the leases are in the order in which they were taken. A lock that
    /// is lost while another is waited for is acquired again, after all the others have been released.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout) if not all could be acquired in time, or not at once with
    /// [`Patience::Try`]; [`BadArgument`](crate::ErrorKind::BadArgument) if the owner holds one of them but not one
    /// that comes before it: taking that now would break the order; and those of
    /// [`Lock::acquire_as`](crate::Lock::acquire_as).
    pub async fn acquire_as(&self, owner: Owner, patience: Patience) -> Result<Leases> {
        self.acquire_as_each(&vec![owner; self.locks.len()], patience).await
    }

    /// Like [`acquire_as`](Self::acquire_as), with an owner for each of the [`locks`](Self::locks): for programs that
    /// hold some of them as one owner and some as another.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire_as`](Self::acquire_as), and [`BadArgument`](crate::ErrorKind::BadArgument) if the number of owners
    /// differs from that of locks.
    pub async fn acquire_as_each(&self, owners: &[Owner], patience: Patience) -> Result<Leases> {
        if owners.len() != self.locks.len() {
            let problem =
                format!("are {}, but must be {}, one for each lock", owners.len(), self.locks.len());
            return Err(Error::bad_argument("owners", problem));
        }
        self.check_order(owners)?;
        let deadline = Deadline::after(patience);
        loop {
            let leases = self.acquire_once(owners, deadline).await?;
            if let Some(leases) = leases.filter(Leases::is_held) {
                return Ok(leases);
            }
        }
    }

    /// Acquires all, or `None` if one was lost on the way.
    async fn acquire_once(&self, owners: &[Owner], deadline: Deadline) -> Result<Option<Leases>> {
        let mut taken = Leases::default();
        for (lock, owner) in self.locks.iter().zip(owners) {
            tokio::select! {
                biased;
                lease = lock.acquire_as(*owner, deadline.left()) => taken.push(lease?),
                _ = taken.lost() => return Ok(None),
            }
        }
        Ok(Some(taken))
    }

    fn check_order(&self, owners: &[Owner]) -> Result<()> {
        let mut missing: Option<&AnyLock> = None;
        for (lock, owner) in self.locks.iter().zip(owners) {
            match (lock.owned_by(*owner)?, missing) {
                (true, Some(missing)) => {
                    let problem = format!(
                        "{:?} is held already, but {:?} must be acquired before it; release it first",
                        lock.path(),
                        missing.path()
                    );
                    return Err(Error::bad_argument("locks", problem));
                }
                (false, None) => missing = Some(lock),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why two locks that are adjacent in the order cannot be members of one lock.
fn cannot_both_be_held(one: &AnyLock, other: &AnyLock) -> Option<String> {
    let (first, second) = (one.order(), other.order());
    if (first.ensemble, first.path) != (second.ensemble, second.path) {
        None
    } else if !one.same_client(other) {
        Some("is named through two clients, which would wait for each other".to_owned())
    } else if one.family() != other.family() {
        Some(format!("is named as a {} and as a {}; give them different paths", one.family(), other.family()))
    } else if !(one.reentrant() && other.reentrant()) {
        Some("is named twice and does not re-enter".to_owned())
    } else {
        None
    }
}
