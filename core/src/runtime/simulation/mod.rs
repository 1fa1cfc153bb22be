//! The seams of the simulation in `tests/simulation`, which runs many clients, and servers, on one thread and in simulated
//! time. Compiled for nothing else.

#[cfg(feature = "_simulation")]
pub(super) mod gate;

use std::cell::Cell;
use std::rc::Rc;

use crate::runtime;

pub use self::gate::{Gate, Part, of_client};
pub use zklock_transport::simulated::{Connecting, Network, Stream, enter};

thread_local! {
    static WATCH_ROOM: Cell<Option<usize>> = const { Cell::new(None) };
}

/// How many bytes of paths this thread's clients may watch, instead of as many as always.
pub fn set_watch_room(bytes: Option<usize>) {
    WATCH_ROOM.set(bytes);
}

pub(crate) fn watch_room() -> Option<usize> {
    WATCH_ROOM.get()
}

/// Runs `body` with this gate, and puts everything that clients spawn meanwhile on the caller's runtime, of one thread.
pub fn adopt<R>(gate: Rc<dyn Gate>, body: impl FnOnce() -> R) -> R {
    gate::behind(gate, || runtime::adopt(body))
}
