//! The seams of the simulation in `tests/simulation`, which runs many clients, and servers, on one thread and in simulated
//! time. Compiled for nothing else.

use std::rc::Rc;

use crate::{gate, runtime};

pub use crate::gate::{Gate, of_client};
pub use zklock_transport::simulated::{Connecting, Network, Stream, enter};

/// Runs `body` with this gate, and puts everything that clients spawn meanwhile on the caller's runtime, of one thread.
pub fn adopt<R>(gate: Rc<dyn Gate>, body: impl FnOnce() -> R) -> R {
    gate::behind(gate, || runtime::adopt(body))
}
