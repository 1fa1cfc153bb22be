//! The mutex and condition variable of the queues in `bridge/arrivals.rs` and `callbacks/queue.rs`.
//! `tests/threads` compiles these queues with its own versions of the two types, and tests every interleaving
//! of the threads that use them.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
