//! A queue with one consumer thread and any number of producer threads.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// The due items, in the order in which they were queued.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    news: Condvar,
}

struct State<T> {
    due: VecDeque<T>,
    /// `true` once the consumer thread has been started.
    begun: bool,
    /// `true` once no more items will arrive.
    ended: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = State { due: VecDeque::new(), begun: false, ended: false };
        Self { state: Mutex::new(state), news: Condvar::new() }
    }
}

impl<T> Queue<T> {
    /// Locks the state. Ignores poisoning, because a panic cannot leave the state half changed.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next item. Returns `None` when no more will arrive.
    pub(crate) fn take(&self) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(next) = state.due.pop_front() {
                return Some(next);
            }
            if state.ended {
                return None;
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds an item at the back.
    pub(crate) fn push(&self, next: T) {
        self.state().due.push_back(next);
        self.news.notify_one();
    }

    /// Puts a taken item back at the front. The consumer thread calls this itself, so no thread is woken.
    pub(crate) fn put_back(&self, next: T) {
        self.state().due.push_front(next);
    }

    /// Records that the consumer thread is being started. Returns `false` if it was started before.
    pub(crate) fn begin(&self) -> bool {
        !std::mem::replace(&mut self.state().begun, true)
    }

    /// Records that the consumer thread could not be started.
    pub(crate) fn fail_to_begin(&self) {
        self.state().begun = false;
    }

    /// Closes the queue: the consumer thread exits once it has taken the due items. Returns `true` if the
    /// thread was started.
    pub(crate) fn end(&self) -> bool {
        let begun = {
            let mut state = self.state();
            state.ended = true;
            state.begun
        };
        self.news.notify_one();
        begun
    }
}
