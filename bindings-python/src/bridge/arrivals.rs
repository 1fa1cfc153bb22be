//! An inbox that wakes its receiver once for all queued items.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// The queued items, shared by the senders and the receiver.
pub(crate) struct Arrivals<T>(Mutex<Arrived<T>>);

pub(crate) struct Arrived<T> {
    all: Vec<T>,
    /// `true` if the receiver has been woken and has not taken the items yet. It then needs no second
    /// wake-up.
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

    /// Like [`lock`](Self::lock), but returns `None` instead of waiting. In a forked child, the thread that
    /// locked the state might not exist.
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
