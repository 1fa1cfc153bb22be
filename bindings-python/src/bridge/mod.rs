//! Lets threads, asyncio tasks and greenlets wait for operations, and delivers the outcomes to them on
//! background threads.

mod arrivals;
pub(crate) mod asyncio_tasks;
pub(crate) mod block_on;
pub(crate) mod callers;
pub(crate) mod delivery_thread;
#[cfg(unix)]
mod doorbell;
pub(crate) mod gevent;
pub(crate) mod log;
mod loop_inbox;
pub(crate) mod owner;
pub(crate) mod owner_names;
pub(crate) mod pending;
pub(crate) mod trio;
