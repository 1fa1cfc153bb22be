//! Why a connection could not be encrypted, told apart as far as a program may want to, and which certificate or key
//! cannot be read.

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

/// A certificate or key that cannot be read. Never shows the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemError {
    /// `ca`, `cert` or `key`.
    pub part: &'static str,
    /// The problem with it.
    pub problem: String,
}

impl PemError {
    pub(crate) fn new(part: &'static str, problem: impl fmt::Display) -> Self {
        Self { part, problem: problem.to_string() }
    }
}

impl fmt::Display for PemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.problem)
    }
}

impl std::error::Error for PemError {}
