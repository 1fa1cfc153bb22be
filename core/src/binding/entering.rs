//! Which owners acquire locks for a caller that already holds some of them.

use crate::any_lock::AnyLock;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::owner::Owner;

/// For each of the locks, the owner that is to acquire it: the owner of a lease of it, the first one among `named` and
/// then `around`; for all others one new owner. Only the leases in `named` have to be of these locks, and held.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument), naming `within`, if one of `named` is of none of the locks, or its
/// lock is not reentrant; those of [`Lease::check`].
pub fn owners(locks: &[AnyLock], named: &[&Lease], around: &[&Lease]) -> Result<Vec<Owner>> {
    for lease in named {
        if first(locks, |lock| enters(lock, lease))?.is_none() {
            let problem = format_args!("a lease of {:?} does not allow re-entry here", lease.path());
            return Err(Error::bad_argument("within", problem));
        }
        lease.check()?;
    }
    let new = Owner::new();
    let owner = |lock| {
        let held = first(named.iter().chain(around), |lease| enters(lock, lease))?;
        Ok(held.map_or(new, |lease| lease.owner()))
    };
    locks.iter().map(owner).collect()
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
    Ok(lock.reentrant() && lock.gave(lease)?)
}
