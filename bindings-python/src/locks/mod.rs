//! The classes of locks and leases, and the functions that acquire and release locks.

pub(crate) mod acquire;
pub(crate) mod acquired;
pub(crate) mod asyncio;
pub(crate) mod client_arg;
pub(crate) mod election;
pub(crate) mod lease;
pub(crate) mod leases;
pub(crate) mod lock;
mod lock_levels;
pub(crate) mod multi;
pub(crate) mod mutex;
pub(crate) mod once;
mod pickle;
pub(crate) mod rwlock;
pub(crate) mod scope;
pub(crate) mod semaphore;
