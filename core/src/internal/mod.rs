//! Functions that several bindings or the command-line tool share. They are not meant for Rust
//! programs, and are not stable.
//!
//! A binding only converts errors, durations and handles, and waits in the manner of its language.
//! All decisions are made in this module and in the modules that it uses.

mod acquire;
mod acquired;
mod acquired_stack;
mod arguments;
mod client_handle;
mod credentials;
mod forgotten;
mod inspect;
pub mod log;
pub mod once;
mod operation;
mod scope;
mod scope_match;
#[cfg(test)]
mod test_support;
mod transaction_builder;

pub use self::acquire::{
    Requested, acquire_each, acquire_permits, caller_of, campaign, owned_by, owners, reenter, remains,
    request, warn_of_wait_for_oneself,
};
pub use self::acquired::{Acquired, Released};
pub use self::acquired_stack::{AcquiredStack, Exited, SuspendedLevel};
pub use self::arguments::{Count, parse_count, parse_permits};
pub use self::arguments::{GivenOptions, GivenValue};
pub use self::arguments::{Language, Spelling, limit, unless_minus_one};
pub use self::arguments::{parse_owner_name, parse_version};
pub use self::client_handle::close_all;
pub use self::client_handle::{ClientHandle, shown_hosts};
pub use self::credentials::{Identity, TlsParts};
pub use self::forgotten::{Forgotten, collectable, collectable_all, on_forgotten, pin};
pub use self::inspect::{
    about, contender, first_contender, four_letter_word, last_proof, list, look, resolve, term_left,
    why_unproven,
};
pub use self::operation::{Operation, begin};
pub use self::scope::{BodyOutcome, ScopeError, ScopeExit, leave, scope_error};
pub use self::scope_match::{Exit, Frame, Site};
pub use self::transaction_builder::TransactionBuilder;
pub use crate::client::dump::dump_with_callers;
pub use crate::client::dump_signal::dump_on_descriptor;
pub use crate::client::signals::close_on_signals_after;
pub use crate::config::environment::{Secured, SetByProgram, VARIABLES, parse_duration};
pub use crate::driver::mailbox::replies::{Listing, NodeContent};
pub use crate::error::escape::Escaped;
pub use crate::error::timeout_reason::FullQueue;
use crate::error::{Error, ErrorKind};
pub use crate::lease::owner::OwnerId;
pub use crate::lock::election::run::Rounds;
pub use crate::runtime::fork::{ForkGuard, PerProcess};
pub use crate::runtime::same_thread;
pub use crate::system::block_signals;

/// Creates an error of the given kind.
#[must_use]
pub fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message.into())
}

/// Creates the error for an argument that is out of range. The message begins with the argument's
/// name.
#[must_use]
pub fn bad_argument(argument: &str, problem: impl std::fmt::Display) -> Error {
    Error::bad_argument(argument, problem)
}

/// Returns the full queue if the error reports one. Callers use it to write their own message, with
/// the name that the option has in their language.
#[must_use]
pub fn full_queue(error: &Error) -> Option<&FullQueue> {
    error.full_queue()
}
