//! The error for a message that no honest server sends.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// A message that no honest server sends, and that therefore closes the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(Cow<'static, str>);

impl Malformed {
    pub(super) fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it sent {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<zklock_jute::Error> for Malformed {
    fn from(error: zklock_jute::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<Malformed> for io::Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(io::ErrorKind::InvalidData, malformed)
    }
}
