//! A small, precise model of the environment of the queue: the ensemble, the network, sessions,
//! foreign contenders and operators. The model runs the crate's real queue.
//!
//! The model is deterministic. A sequence of [`Step`](step::Step)s decides what happens, so
//! property tests can draw steps at random and the explorer can try all of them. A
//! [`World`](world::World) is a value that can be cloned, compared and hashed.

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
mod try_checks;
pub(crate) mod world;

use zklock::queue::Ticket;

/// Returns the ticket before a directory's first ticket. The upper half of a ticket is the number
/// of the directory.
fn first_ticket(directory: usize) -> Ticket {
    Ticket((directory as u64) << 32)
}

/// Returns the directory whose queue gave a request this ticket.
fn directory_of(ticket: Ticket) -> usize {
    usize::try_from(ticket.0 >> 32).expect("few directories")
}
