//! A queue from which one thread takes, and to which any thread adds.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// The items that are due, in the order in which that was found out.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    news: Condvar,
}

struct State<T> {
    due: VecDeque<T>,
    /// The thread that takes has been started.
    begun: bool,
    /// Nothing more comes.
    ended: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = State { due: VecDeque::new(), begun: false, ended: false };
        Self { state: Mutex::new(state), news: Condvar::new() }
    }
}

impl<T> Queue<T> {
    /// A panic cannot leave half a change in it.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next; None when no more will come.
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

    /// Adds what is due behind all else.
    pub(crate) fn push(&self, next: T) {
        self.state().due.push_back(next);
        self.news.notify_one();
    }

    /// Puts what was taken back, before all else. The thread that takes does so itself, so nobody is woken.
    pub(crate) fn put_back(&self, next: T) {
        self.state().due.push_front(next);
    }

    /// Notes that the thread is being started. Returns false if it was before.
    pub(crate) fn begin(&self) -> bool {
        !std::mem::replace(&mut self.state().begun, true)
    }

    /// Notes that the thread could not be started.
    pub(crate) fn fail_to_begin(&self) {
        self.state().begun = false;
    }

    /// Nothing more comes: the thread ends once it has taken what is due. Returns whether there is one.
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
