//! The native half of the npm package `zklock`: exports the core's handles as JavaScript classes.
//!
//! These classes are private to the package. The public API, its documentation and its argument
//! checks are in TypeScript. A [`bridge::Bridge`] starts operations, and delivers their outcomes to
//! the JavaScript thread.

#![allow(unreachable_pub, reason = "what `#[napi]` exports has to be public")]
#![allow(clippy::needless_pass_by_value, reason = "napi passes arguments by value")]

mod bridge;
mod client;
mod contender;
mod election;
mod error;
mod health;
mod lease;
mod lock;
mod log;
mod multi;
mod node_data;
mod once;
mod owner;
mod semaphore;
mod state;
mod stats;
mod testing;
mod transaction;
