//! What only bindings need: rules that each of them would otherwise write again. Not for programs in Rust, and not
//! stable.
//!
//! A binding converts errors, durations and handles, and waits as its language does. All decisions are made here or
//! further down.

mod acquired;
mod children;
mod closing;
mod connection;
mod draft;
mod entering;
mod errors;
mod forgotten;
#[cfg(test)]
mod held;
mod identity;
mod language;
mod levels;
pub mod log;
mod looks;
mod naming;
mod permits;
mod scope;
mod scope_match;
mod versions;

pub use acquired::{Acquired, Released};
pub use children::children;
pub use closing::close_all;
pub use connection::{Connection, shown_hosts};
pub use draft::Draft;
pub use entering::{owners, reenter, remains};
pub use errors::{bad_argument, error};
pub use forgotten::{Forgotten, collectable, collectable_all, on_forgotten, pin};
pub use identity::{Identity, TlsParts};
pub use language::{Language, Spelling, limit, unless_minus_one};
pub use levels::{Exited, Levels, Saved};
pub use looks::{about, list, look};
pub use naming::parse_naming;
pub use permits::{Count, parse_count, parse_permits};
pub use scope::{Left, Raised, leave, loss_to_raise};
pub use scope_match::{Exit, Frame, Site};
pub use versions::parse_version;

pub use crate::begun::{Operation, begin};
pub use crate::looks::{Listing, Sight};
pub use crate::process::{Origin, PerProcess};
pub use crate::runtime::block_signals;
pub use crate::shown::Shown;
