//! The runtime of core, compiled with loom's locks and atomics. A thread of the test replaces the
//! library's thread.

#[path = "../../../core/src/runtime/clock.rs"]
pub(crate) mod clock;
#[path = "../../../core/src/runtime/fork.rs"]
pub(crate) mod fork;
mod library_thread;
pub(crate) mod sync;

pub(crate) use crate::same_thread;
pub(crate) use library_thread::{Background, LibraryThread, ready, run, sleep};
