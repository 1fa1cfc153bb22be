//! A small, precise model of the world around the queue: the ensemble, the network, sessions, other contenders and
//! operators. The queue in it is the real one.
//!
//! Nothing in it is random: [`Step`](step::Step)s say what happens next, so that property tests can draw them and an
//! explorer can try them all. A [`World`](world::World) is a value that can be cloned, compared and hashed.

// Each test binary uses a different part of the model.
#![allow(dead_code)]

pub(crate) mod attempt;
mod checks;
pub(crate) mod client;
mod clock;
mod connection;
mod driver;
pub(crate) mod explorer;
mod foreign;
mod ledger;
pub(crate) mod local;
pub(crate) mod mutants;
mod request;
pub(crate) mod server;
mod session;
mod shared;
pub(crate) mod step;
mod tries;
pub(crate) mod world;

use zklock::queue::Ticket;

/// The first ticket of a directory's queue follows this one: so tickets tell the directories apart.
fn first_ticket(directory: usize) -> Ticket {
    Ticket((directory as u64) << 32)
}

/// The directory whose queue gave this ticket to a request.
fn directory_of(ticket: Ticket) -> usize {
    usize::try_from(ticket.0 >> 32).expect("few directories")
}
