//! [`Acquired`]: a common interface to one lease and to several leases.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::config::timeout::Timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lease::lease_set::Leases;
use crate::lease::release::Releasing;

/// The acknowledgement of a release. If the owner holds several leases of the lock (re-entry), the
/// release of every lease except the last completes immediately, without a request or an
/// allocation.
#[must_use = "it waits for the acknowledgement only if it is awaited"]
#[derive(Debug)]
pub struct Released(Acknowledgement);

enum Acknowledgement {
    /// The acknowledgement for one lease.
    One(Releasing),
    /// The acknowledgements for several leases.
    Several(Pin<Box<dyn Future<Output = Result<()>> + Send>>),
}

impl std::fmt::Debug for Acknowledgement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One(_) => "One",
            Self::Several(_) => "Several",
        })
    }
}

impl Released {
    /// Returns a release that is already complete.
    pub(super) fn over(end: Result<()>) -> Self {
        Self(Acknowledgement::One(end.into()))
    }
}

impl Future for Released {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0 {
            Acknowledgement::One(one) => Pin::new(one).poll(context),
            Acknowledgement::Several(all) => all.as_mut().poll(context),
        }
    }
}

/// The result of one acquire: a lease, or several.
pub trait Acquired: Send + Sync {
    /// Returns an error unless every lease is held.
    ///
    /// # Errors
    /// Same as [`Lease::check`].
    fn check(&self) -> Result<()>;

    /// Returns `true` while every lease is held.
    fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Returns `true` until every lease is released. A lost lease must be released too. Returns
    /// `false` in a forked child that inherited the leases.
    fn is_open(&self) -> bool;

    /// Returns the first loss, if any.
    fn loss(&self) -> Option<Error>;

    /// Starts to release the leases that are not released yet. The returned value waits for the
    /// acknowledgement, for at most `timeout`, and not longer than [`Lease::release`] waits. With
    /// [`Timeout::Try`], it does not wait.
    fn release(&self, timeout: Timeout) -> Released;

    /// Logs a warning that the owner ended without releasing its leases. `_owner` is the kind of
    /// owner, such as a thread.
    fn owner_ended(&self, _owner: &'static str) {}
}

impl Acquired for Lease {
    fn check(&self) -> Result<()> {
        Self::check(self)
    }

    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    fn loss(&self) -> Option<Error> {
        self.check().err().filter(|error| error.kind() == ErrorKind::LockLost)
    }

    fn release(&self, timeout: Timeout) -> Released {
        Released(Acknowledgement::One(self.release_with(timeout)))
    }

    fn owner_ended(&self, owner: &'static str) {
        Self::owner_ended(self, owner);
    }
}

impl Acquired for Leases<Arc<Lease>> {
    fn check(&self) -> Result<()> {
        Self::check(self)
    }

    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    fn loss(&self) -> Option<Error> {
        self.iter().find_map(|lease| lease.loss())
    }

    fn release(&self, timeout: Timeout) -> Released {
        Released(Acknowledgement::Several(Box::pin(self.release_with(timeout))))
    }

    fn owner_ended(&self, owner: &'static str) {
        self.iter().for_each(|lease| lease.owner_ended(owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internal::test_support::{client, held, lose, mutex};
    use crate::lease::owner::Owner;

    /// Returns whether it is held, open, and lost.
    fn facts(acquired: &dyn Acquired) -> (bool, bool, bool) {
        (acquired.is_held(), acquired.is_open(), acquired.loss().is_some())
    }

    #[test]
    fn a_lease_is_open_until_it_is_released() {
        let client = client();
        let lock = mutex(&client, "/a", true);
        let lease = held(&lock, &Owner::new(), 1);
        assert_eq!(facts(&lease), (true, true, false));
        lease.release_in_background().unwrap();
        assert_eq!(facts(&lease), (false, false, false));
        assert_eq!(lease.check().unwrap_err().code(), "NOT_HELD");
        assert_eq!(lease.release_in_background().unwrap_err().code(), "NOT_HELD");
    }

    #[test]
    fn a_lost_lease_is_still_to_be_released() {
        let client = client();
        let lock = mutex(&client, "/a", true);
        let lease = held(&lock, &Owner::new(), 1);
        lose(&lock, 1);
        assert_eq!(facts(&lease), (false, true, true));
        assert_eq!(lease.loss().unwrap().code(), "LOCK_LOST");
        lease.release_in_background().unwrap();
        assert_eq!(facts(&lease), (false, false, true));
    }

    #[test]
    fn several_leases_are_held_together_and_released_together() {
        let client = client();
        let (a, b) = (mutex(&client, "/a", true), mutex(&client, "/b", true));
        let mut leases = Leases::default();
        leases.push(held(&a, &Owner::new(), 1));
        leases.push(held(&b, &Owner::new(), 2));
        let leases = leases.into_arcs();
        assert_eq!(facts(&leases), (true, true, false));
        lose(&b, 2);
        assert_eq!(facts(&leases), (false, true, true));
        assert!(leases.loss().unwrap().to_string().contains("\"/b\""));
        leases.release_in_background().unwrap();
        assert!(!Acquired::is_open(&leases));
    }

    #[test]
    fn a_lease_outlives_its_set() {
        let client = client();
        let lock = mutex(&client, "/a", true);
        let mut leases = Leases::default();
        leases.push(held(&lock, &Owner::new(), 1));
        let leases = leases.into_arcs();
        let lease = Arc::clone(&leases[0]);
        drop(leases);
        assert!(lease.check().is_ok());
    }
}
