//! The leases taken through one lock object.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::lease::Lease;

/// Leases in the order in which they were acquired. Only the holders of the lock have any, so there are few; and
/// they are not lost with a forgetful caller: the lock object's end drops them, which releases them.
#[derive(Default)]
pub(crate) struct Leases(Mutex<Vec<Entry>>);

struct Entry {
    /// Who acquired it. The lease itself has an owner of its own where there is no re-entry.
    owner: zklock::Owner,
    lease: Py<Lease>,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, owner: zklock::Owner, lease: Py<Lease>) {
        self.lock().push(Entry { owner, lease });
    }

    /// The newest lease that there is something left to release of: the owner's, or without one the newest of all.
    pub(crate) fn newest(&self, py: Python<'_>, owner: Option<zklock::Owner>) -> Option<Py<Lease>> {
        let mut entries = self.lock();
        entries.retain(|entry| entry.lease.get().is_open());
        let newest = entries.iter().rfind(|entry| owner.is_none_or(|owner| owner == entry.owner));
        newest.map(|entry| entry.lease.clone_ref(py))
    }

    /// Whether one of them proves that the lock is held.
    pub(crate) fn any_held(&self) -> bool {
        self.lock().iter().any(|entry| entry.lease.get().is_held())
    }

    /// Takes the owner's newest lease out, released or not. If the owner has none, the newest of all: a generator
    /// may leave a scope in another thread than the one that entered it.
    pub(crate) fn pop(&self, owner: zklock::Owner) -> Option<Py<Lease>> {
        let mut entries = self.lock();
        let own = entries.iter().rposition(|entry| entry.owner == owner);
        let at = own.or(entries.len().checked_sub(1))?;
        Some(entries.remove(at).lease)
    }

    /// Forgets one lease, if it is there.
    pub(crate) fn remove(&self, lease: &Py<Lease>) {
        self.lock().retain(|entry| !entry.lease.is(lease));
    }
}
