//! One test or more for each rule of the protocol: it tells the queue a short history, and says what the queue must do.
//!
//! The numbers are those of `docs/protocol.md`. Rules without a test here are the driver's or the handles'.

mod admission;
mod checks;
mod desk;
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
