//! What is wrong with the text of a certificate or key.

use std::fmt;

/// What is wrong with which part of the text that encryption is made from. Never shows the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemError {
    /// `ca`, `cert` or `key`.
    pub part: &'static str,
    /// What is wrong with it.
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
