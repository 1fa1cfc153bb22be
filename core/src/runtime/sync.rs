//! The locks and atomics through which threads share a hold, its levels, its term, and an operation.
//!
//! `tests/threads` compiles the files that use these with stand-ins, under which every interleaving of the threads is
//! tried. Here they are the standard library's and tokio's own.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};
pub(crate) use std::thread_local;

pub(crate) use tokio::sync::Notify;
