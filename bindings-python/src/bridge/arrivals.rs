//! An inbox that wakes its receiver once for all queued items.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// The items that the receiver has not taken yet, and whether it has been woken for them.
pub(crate) struct Arrivals<T>(Mutex<Arrived<T>>);

pub(crate) struct Arrived<T> {
    all: Vec<T>,
    /// `true` from the wake-up of the receiver until it takes the items. New items need no second wake-up
    /// meanwhile.
    waking: bool,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self(Mutex::new(Arrived { all: Vec::new(), waking: false }))
    }
}

impl<T> Arrivals<T> {
    /// Locks the state. Ignores poisoning, because a panic cannot leave the state half changed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Arrived<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`lock`](Self::lock), but returns `None` instead of waiting, because the thread that locked the
    /// state might never unlock it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Arrived<T>>> {
        self.0.try_lock().ok()
    }

    /// Adds an item. Returns `true` if the caller must wake the receiver, because no wake-up is pending.
    pub(crate) fn push(&self, next: T) -> bool {
        let mut arrived = self.lock();
        arrived.all.push(next);
        !std::mem::replace(&mut arrived.waking, true)
    }
}

impl<T> Arrived<T> {
    /// Returns the queued items, oldest first.
    pub(crate) fn all(&self) -> &[T] {
        &self.all
    }

    /// Takes all queued items. The next item needs another wake-up.
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.waking = false;
        std::mem::take(&mut self.all)
    }
}
