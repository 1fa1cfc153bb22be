//! The mutex and condition variable of the inboxes (`bridge/arrivals.rs`, `callbacks/queue.rs`).
//! `tests/threads` compiles the inboxes with other types of these names, and tests every interleaving of
//! their threads.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
