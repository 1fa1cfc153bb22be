//! A small, precise model of the world around the queue: the ensemble, the network, sessions, other contenders and
//! operators. The queue in it is the real one.
//!
//! Nothing in it is random: [`Step`](step::Step)s say what happens next, so that property tests can draw them and an
//! explorer can try them all. A [`World`](world::World) is a value that can be cloned, compared and hashed.

// Each test binary uses a different part of the model.
#![allow(dead_code)]

mod checks;
pub(crate) mod client;
mod connection;
mod driver;
pub(crate) mod explorer;
mod foreign;
mod ledger;
pub(crate) mod mutants;
mod request;
pub(crate) mod server;
mod session;
pub(crate) mod step;
pub(crate) mod world;
