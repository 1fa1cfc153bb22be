//! Acquires for callers that might already hold the lock.

use std::pin::Pin;
use std::sync::Arc;

use crate::config::timeout::Timeout;
use crate::error::escape::Escaped;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lease::lease_set::Leases;
use crate::lease::owner::{Owner, OwnerId};
use crate::lock::Acquiring;
use crate::lock::any::AnyLock;
use crate::lock::election::{Election, Leadership};
use crate::lock::multi::MultiLock;
use crate::lock::semaphore::Semaphore;

/// A requested acquire.
pub enum Requested {
    /// The owner already holds the lock, so it received another lease immediately (re-entry).
    Granted(Lease),
    /// The request waits in the queue. To cancel it, drop this value. If the lock is granted at the
    /// same moment, it is released.
    Pending(Pin<Box<dyn Future<Output = Result<Lease>> + Send>>),
}

/// Returns the owner for the acquire of each lock:
///
/// - If `named` contains a lease of the lock, the owner of the first such lease.
/// - Otherwise, if `around` contains a lease of the lock, the owner of the first such lease.
/// - Otherwise, a new owner, which is the same for all such locks.
///
/// Each lease in `named` must belong to one of the locks and must be held.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument), naming `within`, if a lease in `named` belongs
/// to none of the locks, or if its lock is not reentrant. Also the errors of [`Lease::check`].
pub fn owners(locks: &[AnyLock], named: &[&Lease], around: &[&Lease]) -> Result<Vec<Owner>> {
    for lease in named {
        if first(locks, |lock| enters(lock, lease))?.is_none() {
            let problem = format!("a lease of {:?} does not allow re-entry here", lease.path());
            return Err(Error::bad_argument("within", problem));
        }
        lease.check()?;
    }
    let new = Owner::new();
    let owner = |lock| {
        let held = first(named.iter().chain(around), |lease| enters(lock, lease))?;
        Ok(held.map_or_else(|| new.clone(), |lease| lease.owner()))
    };
    locks.iter().map(owner).collect()
}

/// Requests the lock for `owner`, which a semaphore ignores. Reports show `caller` as the owner of
/// the lease.
///
/// # Errors
/// [`UpgradeRefused`](crate::ErrorKind::UpgradeRefused),
/// [`ClientClosed`](crate::ErrorKind::ClientClosed) and [`Forked`](crate::ErrorKind::Forked). The
/// pending acquire returns all other errors.
pub fn request(lock: &AnyLock, owner: OwnerId, caller: &Owner, timeout: Timeout) -> Result<Requested> {
    Ok(match lock {
        AnyLock::Lock(lock) => match lock.request(owner, caller, timeout)? {
            Acquiring::Granted(lease) => Requested::Granted(lease),
            Acquiring::Pending(pending) => Requested::Pending(Box::pin(pending)),
        },
        AnyLock::Semaphore(semaphore) => {
            let (semaphore, caller) = (Arc::clone(semaphore), caller.clone());
            Requested::Pending(Box::pin(async move { semaphore.acquire_one(&caller, timeout).await }))
        }
    })
}

/// Returns the owner that reports show for a lease. For a lease from [`request`], this is the
/// argument `caller` of that call.
#[must_use]
pub fn caller_of(lease: &Lease) -> &Owner {
    lease.caller()
}

/// Acquires several locks. Reports show `caller` as the owner. If `caller` is `None`, they show the
/// elements of `owners`.
///
/// # Errors
/// Same as [`MultiLock::acquire_as_each`].
pub async fn acquire_each(
    lock: &MultiLock,
    owners: &[Owner],
    caller: Option<&Owner>,
    timeout: Timeout,
) -> Result<Leases> {
    lock.acquire_for(owners, caller, timeout).await
}

/// Acquires several permits. Reports such as [`dump_with_callers`](super::dump_with_callers) show
/// `caller` as the owner.
///
/// # Errors
/// Same as [`Semaphore::acquire_many`].
pub async fn acquire_permits(
    semaphore: &Semaphore,
    caller: &Owner,
    count: u32,
    timeout: Timeout,
) -> Result<Leases> {
    semaphore.acquire_for(caller, count, timeout).await
}

/// Campaigns in an election. Reports show `caller` as the owner.
///
/// # Errors
/// Same as [`Election::campaign_with`].
pub async fn campaign(election: &Election, caller: &Owner, timeout: Timeout) -> Result<Leadership> {
    election.campaign_for(caller, timeout).await
}

/// Acquires the lock once more for an owner that already holds it (re-entry). Returns immediately,
/// without a future, so nested scopes can use it. Returns `None` if the owner does not hold the
/// lock and must request it. Always returns `None` for a permit, which has no owner.
///
/// # Errors
/// [`UpgradeRefused`](crate::ErrorKind::UpgradeRefused) and [`Forked`](crate::ErrorKind::Forked).
pub fn reenter(lock: &AnyLock, owner: OwnerId) -> Result<Option<Lease>> {
    match lock {
        AnyLock::Lock(lock) => lock.reenter(owner),
        AnyLock::Semaphore(_) => Ok(None),
    }
}

/// Returns `true` if the owner with this id holds the lock. Returns `false` for a permit, which has
/// no owner. Sends no request.
///
/// # Errors
/// [`Forked`](crate::ErrorKind::Forked).
pub fn owned_by(lock: &AnyLock, owner: OwnerId) -> Result<bool> {
    lock.owned_by(&owner.into())
}

/// Returns a copy of `lease` that counts as released, with the same node and token.
///
/// A binding can drop a re-entered lease when it is released. If the program reads an attribute of
/// that lease later, the binding passes another lease of the same hold to this function.
pub fn remains(lease: &Lease) -> Lease {
    lease.remains()
}

/// Logs a warning that a caller waits for a lock that it holds itself. `message` explains why the
/// acquire is not a re-entry, and how to re-enter in the binding's language.
pub fn warn_of_wait_for_oneself(lease: &Lease, message: &'static str) {
    let (path, node) = (lease.path(), lease.node());
    let (path, node) = (Escaped(path), Escaped(&node));
    tracing::warn!(%path, %node, "{message}");
}

fn first<T>(all: impl IntoIterator<Item = T>, is: impl Fn(&T) -> Result<bool>) -> Result<Option<T>> {
    for one in all {
        if is(&one)? {
            return Ok(Some(one));
        }
    }
    Ok(None)
}

fn enters(lock: &AnyLock, lease: &Lease) -> Result<bool> {
    Ok(lock.reentrant() && lock.owns_lease(lease)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internal::test_support::{client, held, mutex};

    #[test]
    fn what_is_held_is_entered_by_its_owner_and_the_rest_by_one_new_owner() {
        let client = client();
        let locks = ["/a", "/b", "/c"].map(|path| mutex(&client, path, true));
        let owner = Owner::new();
        let lease = held(&locks[1], &owner, 1);
        for (named, around) in [(&[&lease][..], &[][..]), (&[][..], &[&lease][..])] {
            let found = owners(&locks, named, around).unwrap();
            assert_eq!((&found[1], &found[0]), (&owner, &found[2]));
            assert_ne!(found[0], owner);
        }
    }

    #[test]
    fn what_is_named_comes_before_what_is_around() {
        let client = client();
        let lock = mutex(&client, "/a", true);
        let (outer, inner) = (held(&lock, &Owner::new(), 1), held(&lock, &Owner::new(), 2));
        assert_eq!(owners(&[lock], &[&outer], &[&inner]).unwrap(), [outer.owner()]);
    }

    #[test]
    fn only_what_is_named_has_to_be_entered() {
        let client = client();
        let (lock, other) = (mutex(&client, "/a", true), mutex(&client, "/b", true));
        let alone = mutex(&client, "/a", false);
        let lease = held(&other, &Owner::new(), 1);
        let of_alone = held(&alone, &Owner::new(), 2);
        for (lock, lease) in [(&lock, &lease), (&alone, &of_alone)] {
            let error = owners(std::slice::from_ref(lock), &[lease], &[]).unwrap_err();
            assert_eq!(error.argument(), Some("within"), "{error}");
            let found = owners(std::slice::from_ref(lock), &[], &[lease]).unwrap();
            assert_ne!(found[0], lease.owner());
        }
    }

    #[test]
    fn what_remains_of_a_lease_is_released_and_holds_nothing() {
        let client = client();
        let lock = mutex(&client, "/a", true);
        let lease = held(&lock, &Owner::new(), 1);
        let remains = remains(&lease);
        assert_eq!(remains.check().unwrap_err().code(), "NOT_HELD");
        assert_eq!(remains.release_in_background().unwrap_err().code(), "NOT_HELD");
        assert_eq!((remains.node(), remains.fencing_token()), (lease.node(), lease.fencing_token()));
        drop(remains);
        assert!(lease.check().is_ok());
        lease.release_in_background().unwrap();
        assert_eq!(lease.check().unwrap_err().code(), "NOT_HELD");
    }

    #[test]
    fn what_is_named_has_to_be_held() {
        let client = client();
        let lock = mutex(&client, "/a", true);
        let lease = held(&lock, &Owner::new(), 1);
        lease.release_in_background().unwrap();
        assert_eq!(owners(&[lock], &[&lease], &[]).unwrap_err().code(), "NOT_HELD");
    }
}
