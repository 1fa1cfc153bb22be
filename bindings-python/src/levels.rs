//! What was taken through one lock object.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;

/// What one acquire gives: a lease, or the leases of several locks.
pub(crate) trait Level: PyClass<Frozen = True> + Sync {
    /// Whether there is something left to release.
    fn is_open(&self) -> bool;

    /// Whether what was acquired is held.
    fn is_held(&self) -> bool;
}

/// Levels in the order in which they were acquired. Only the holders of the lock have any, so there are few; and
/// they are not lost with a forgetful caller: the lock object's end drops them, which releases them.
///
/// None is dropped while the list is locked: a weak reference to it may have a callback that uses the lock object.
pub(crate) struct Levels<T>(Mutex<Vec<Entry<T>>>);

struct Entry<T> {
    /// Who acquired it. The lease itself has an owner of its own where there is no re-entry.
    owner: zklock::Owner,
    level: Py<T>,
}

impl<T> Default for Levels<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Level> Levels<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, owner: zklock::Owner, level: Py<T>) {
        self.lock().push(Entry { owner, level });
    }

    /// The newest level that there is something left to release of: the owner's, or without one the newest of all.
    pub(crate) fn newest(&self, py: Python<'_>, owner: Option<zklock::Owner>) -> Option<Py<T>> {
        let mut entries = self.lock();
        let closed: Vec<_> = entries.extract_if(.., |entry| !entry.level.get().is_open()).collect();
        let newest = entries.iter().rfind(|entry| owner.is_none_or(|owner| owner == entry.owner));
        let newest = newest.map(|entry| entry.level.clone_ref(py));
        drop(entries);
        drop(closed);
        newest
    }

    /// Whether one of them proves that the lock is held.
    pub(crate) fn any_held(&self) -> bool {
        self.lock().iter().any(|entry| entry.level.get().is_held())
    }

    /// Takes the owner's newest level out, released or not. If the owner has none, the newest of all: a generator
    /// may leave a scope in another thread than the one that entered it.
    pub(crate) fn pop(&self, owner: zklock::Owner) -> Option<Py<T>> {
        let mut entries = self.lock();
        let own = entries.iter().rposition(|entry| entry.owner == owner);
        let at = own.or(entries.len().checked_sub(1))?;
        Some(entries.remove(at).level)
    }

    /// Forgets one level, if it is there.
    pub(crate) fn remove(&self, level: &Py<T>) {
        let mut entries = self.lock();
        let at = entries.iter().position(|entry| entry.level.is(level));
        let removed = at.map(|at| entries.remove(at));
        drop(entries);
        drop(removed);
    }
}
