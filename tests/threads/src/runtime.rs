//! The runtime of core, with locks and atomics of loom, and with a thread of the test in place of the library's.

#[path = "../../../core/src/runtime/clock.rs"]
pub(crate) mod clock;
#[path = "../../../core/src/runtime/fork.rs"]
pub(crate) mod fork;
mod library_thread;
pub(crate) mod sync;

pub(crate) use library_thread::{Background, LibraryThread, ready, run, sleep};
