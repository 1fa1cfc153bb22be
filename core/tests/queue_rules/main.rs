//! Tests for the rules of the protocol. Each test gives the queue a short history of events and
//! checks its actions.
//!
//! `docs/protocol.md` has the rules and their numbers. Rules without a test here concern the driver
//! or the handles.

mod admission;
mod checks;
mod fixture;
mod flight;
mod knowledge;
mod leaving;
mod lifetime;
mod limited;
mod lookahead;
mod lost_replies;
mod names;
mod probes;
mod sessions;
mod terms;
mod try_acquire;
