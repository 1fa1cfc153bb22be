//! The leases taken through one lock object.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::lease::Lease;

/// Leases in the order in which they were acquired. Only the holder of the lock has any, so there are few; and
/// they are not lost with a forgetful caller: the lock object's end drops them, which releases them.
#[derive(Default)]
pub(crate) struct Leases(Mutex<Vec<Py<Lease>>>);

impl Leases {
    fn lock(&self) -> MutexGuard<'_, Vec<Py<Lease>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, lease: Py<Lease>) {
        self.lock().push(lease);
    }

    /// The owner's newest lease that there is something left to release of.
    pub(crate) fn newest(&self, py: Python<'_>, owner: zklock::Owner) -> Option<Py<Lease>> {
        let mut leases = self.lock();
        leases.retain(|lease| lease.get().is_open());
        leases.iter().rfind(|lease| lease.get().inner.owner() == owner).map(|lease| lease.clone_ref(py))
    }

    /// Takes the owner's newest lease out, released or not. If the owner has none, the newest of all: a generator
    /// may leave a scope in another thread than the one that entered it.
    pub(crate) fn pop(&self, owner: zklock::Owner) -> Option<Py<Lease>> {
        let mut leases = self.lock();
        let own = leases.iter().rposition(|lease| lease.get().inner.owner() == owner);
        let at = own.or(leases.len().checked_sub(1))?;
        Some(leases.remove(at))
    }

    /// Forgets one lease, if it is there.
    pub(crate) fn remove(&self, lease: &Py<Lease>) {
        self.lock().retain(|other| !other.is(lease));
    }
}
