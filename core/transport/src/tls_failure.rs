//! The errors of encryption: the reason why a connection could not be encrypted, and the error of a
//! certificate or key that cannot be read.

use std::fmt;
use std::io::{Error, ErrorKind};

/// The reason why a connection could not be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distrust {
    /// The server's certificate is for a different name than the one in the connect string.
    Name,
    /// The server's certificate has expired or is not valid yet.
    Expired,
    /// No authority that the client trusts has signed the server's certificate.
    Authority,
    /// Another reason: for example, the server does not speak TLS, or does not accept the client's
    /// certificate.
    Other,
}

/// The error inside an [`Error`] if a connection could not be encrypted.
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

/// Returns the reason that is stored in an error, or `Other`.
pub(crate) fn why(error: &Error) -> Distrust {
    let problem = error.get_ref().and_then(|inner| inner.downcast_ref::<Problem>());
    problem.map_or(Distrust::Other, |problem| problem.why)
}

/// The error of a certificate or key that cannot be read. Never shows the text of the certificate
/// or key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemError {
    /// The invalid part: `ca`, `cert` or `key`.
    pub part: &'static str,
    /// Description of the problem.
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
