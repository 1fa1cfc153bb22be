//! Errors that only a binding can find.

use crate::error::{Error, ErrorKind};

/// An error of a kind.
#[must_use]
pub fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message.into())
}

/// An argument that is out of range; the message begins with its name.
#[must_use]
pub fn bad_argument(argument: &str, problem: impl std::fmt::Display) -> Error {
    Error::bad_argument(argument, problem)
}
