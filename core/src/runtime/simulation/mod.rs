//! Hooks for the simulation in `tests/simulation`, which runs many clients and servers on one
//! thread in simulated time. Compiled only for this simulation.

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

/// Limits the total length of the paths that this thread's clients can watch, in bytes. `None`
/// restores the default.
pub fn set_watch_room(bytes: Option<usize>) {
    WATCH_ROOM.set(bytes);
}

pub(crate) fn watch_room() -> Option<usize> {
    WATCH_ROOM.get()
}

/// Runs `body` with this gate. All tasks that clients start during that time are spawned on the
/// caller's single-threaded runtime.
pub fn adopt<R>(gate: Rc<dyn Gate>, body: impl FnOnce() -> R) -> R {
    gate::behind(gate, || runtime::adopt(body))
}
