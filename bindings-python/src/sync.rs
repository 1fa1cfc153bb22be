//! The locks of the inboxes. `tests/threads` compiles the inboxes with replacements for these locks, and
//! tests every interleaving of the threads.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
