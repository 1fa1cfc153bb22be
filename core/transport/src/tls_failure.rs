//! Why a connection could not be encrypted, told apart as far as a program may want to.

use std::fmt;
use std::io::{Error, ErrorKind};

/// Why a connection could not be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distrust {
    /// The server's certificate is for another name than the one by which it was reached.
    Name,
    /// The server's certificate has expired, or is not valid yet.
    Expired,
    /// No authority that the client trusts has signed the server's certificate.
    Authority,
    /// Something else: the server does not speak TLS, or does not accept the client's certificate.
    Other,
}

/// What travels in an [`Error`] of a connection that could not be encrypted.
#[derive(Debug)]
pub(crate) struct Problem {
    why: Distrust,
    text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Problem {}

#[cfg_attr(not(feature = "_tls"), expect(dead_code, reason = "without TLS nothing goes wrong with it"))]
pub(crate) fn error(kind: ErrorKind, why: Distrust, text: impl Into<String>) -> Error {
    Error::new(kind, Problem { why, text: text.into() })
}

/// What an error says about that.
pub(crate) fn why(error: &Error) -> Distrust {
    let problem = error.get_ref().and_then(|inner| inner.downcast_ref::<Problem>());
    problem.map_or(Distrust::Other, |problem| problem.why)
}
