//! The locks of the inboxes. `tests/threads` compiles those with stand-ins, under which every interleaving of the threads
//! is tried.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
