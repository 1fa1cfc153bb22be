//! An inbox whose receiver is woken once for everything in it.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// The arrivals that nobody has taken, and whether a wake-up is under way that will.
pub(crate) struct Arrivals<T>(Mutex<Arrived<T>>);

pub(crate) struct Arrived<T> {
    all: Vec<T>,
    /// The receiver has been woken and has not come yet. Meanwhile whatever comes is only put here: neither the receiver
    /// nor the sender is disturbed for it.
    waking: bool,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self(Mutex::new(Arrived { all: Vec::new(), waking: false }))
    }
}

impl<T> Arrivals<T> {
    /// A panic cannot leave half a change in it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Arrived<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`lock`](Self::lock), where somebody may have locked it who will not unlock it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Arrived<T>>> {
        self.0.try_lock().ok()
    }

    /// Adds something. Returns whether the receiver is to be woken: no wake-up is under way.
    pub(crate) fn push(&self, next: T) -> bool {
        let mut arrived = self.lock();
        arrived.all.push(next);
        !std::mem::replace(&mut arrived.waking, true)
    }
}

impl<T> Arrived<T> {
    /// The arrivals, in order.
    pub(crate) fn all(&self) -> &[T] {
        &self.all
    }

    /// Takes all that has arrived. What comes later needs another wake-up.
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.waking = false;
        std::mem::take(&mut self.all)
    }
}
