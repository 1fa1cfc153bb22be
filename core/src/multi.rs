//! Several locks as one: all or nothing.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lock::Lock;
use crate::options::{Clock, Patience};
use crate::owner::Owner;

/// Several locks that are acquired together, all or none, within one deadline.
///
/// They are taken in one order that all zklock programs share: by ensemble, then by path. So two of them cannot wait
/// for each other. Curator's `InterProcessMultiLock` keeps the order of its caller: such peers must sort by
/// path. A lock that is named twice is taken once.
#[derive(Debug)]
pub struct MultiLock {
    /// In the order in which they are taken.
    locks: Vec<Arc<Lock>>,
}

impl MultiLock {
    /// Locks that are to be acquired together.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for no locks, one path through two clients (they would wait for each
    /// other), or a lock twice that does not re-enter.
    pub fn new(mut locks: Vec<Arc<Lock>>) -> Result<Self> {
        if locks.is_empty() {
            return Err(Error::bad_argument("locks", "must not be empty"));
        }
        locks.sort_by_key(|lock| lock.order());
        for pair in locks.windows(2) {
            let [one, other] = pair else { continue };
            if one.order().0 != other.order().0 {
                continue;
            }
            if !one.same_client(other) {
                let problem =
                    format!("{} is named through two clients, which would wait for each other", one.path());
                return Err(Error::bad_argument("locks", problem));
            }
            if !(one.reentrant() && other.reentrant()) {
                let problem = format!("{} is named twice and does not re-enter", one.path());
                return Err(Error::bad_argument("locks", problem));
            }
        }
        locks.dedup_by_key(|lock| lock.order());
        Ok(Self { locks })
    }

    /// Acquires all as a new owner, waiting as long as it takes.
    ///
    /// Cancel safe: dropping the future leaves all queues and releases what was acquired.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<Vec<Lease>> {
        self.acquire_as(Owner::new(), Patience::Forever).await
    }

    /// Acquires all for `owner`, within one deadline; the leases are in the order of taking. A lock that is lost while
    /// another is waited for is acquired again, after all the others were released.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout) if not all could be had in time, or not at once with
    /// [`Patience::Try`]; [`BadArgument`](ErrorKind::BadArgument) if the owner holds one of them but not one that
    /// comes before it: taking that now would break the order; and those of [`Lock::acquire_as`].
    pub async fn acquire_as(&self, owner: Owner, patience: Patience) -> Result<Vec<Lease>> {
        self.check_order(owner)?;
        let clock = Clock::start(patience);
        loop {
            let leases = self.acquire_once(owner, clock).await?;
            if let Some(leases) = leases.filter(|leases| leases.iter().all(is_held)) {
                return Ok(leases);
            }
        }
    }

    /// Acquires all, or `None` if one was lost on the way.
    async fn acquire_once(&self, owner: Owner, clock: Clock) -> Result<Option<Vec<Lease>>> {
        let mut leases: Vec<Lease> = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            let granted = lock.request(owner, clock.left())?.granted();
            tokio::select! {
                lease = granted => leases.push(lease?),
                () = any_lost(&leases) => return Ok(None),
            }
        }
        Ok(Some(leases))
    }

    fn check_order(&self, owner: Owner) -> Result<()> {
        let mut missing: Option<&Lock> = None;
        for lock in &self.locks {
            match (lock.owned_by(owner)?, missing) {
                (true, Some(missing)) => {
                    let problem = format!(
                        "{} is held already, but {} must be acquired before it; release it first",
                        lock.path(),
                        missing.path()
                    );
                    return Err(Error::new(ErrorKind::BadArgument, format!("locks: {problem}")));
                }
                (false, None) => missing = Some(lock),
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_held(lease: &Lease) -> bool {
    lease.check().is_ok()
}

/// Waits until one of the leases is lost.
async fn any_lost(leases: &[Lease]) {
    let mut losses: Vec<Pin<Box<dyn Future<Output = _> + Send>>> = Vec::new();
    for lease in leases {
        losses.push(Box::pin(lease.lost()));
    }
    poll_fn(|cx| {
        let lost = losses.iter_mut().any(|loss| loss.as_mut().poll(cx).is_ready());
        if lost { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
