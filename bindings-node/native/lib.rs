//! The native half of the npm package `zklock`: core's handles as JavaScript classes, nothing else.
//!
//! Private to the package. The public API, its documentation and its argument checks are in TypeScript.
//! Operations are started with a [`bridge::Bridge`], which hands their outcomes to the JavaScript thread.

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
