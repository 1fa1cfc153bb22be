//! Replacements for `bindings-python/src/sync.rs`.

pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
