//! The mutexes and atomics for state that threads share, such as a hold.
//!
//! `tests/threads` compiles the files that use these types with replacement types that try every
//! interleaving of the threads. In normal builds, these are the types of the standard library and
//! tokio.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};
pub(crate) use std::thread_local;

pub(crate) use tokio::sync::Notify;
