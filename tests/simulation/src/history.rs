//! What happened in a simulation, line by line, and a number that stands for all of it.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::clock;

/// What happened.
#[derive(Debug, Default)]
pub struct History {
    /// Kept only if somebody wants to read them.
    pub lines: Option<Vec<String>>,
    digest: DefaultHasher,
}

impl History {
    /// Something happens now.
    pub fn note(&mut self, what: &str) {
        let line = format!("{:>7} {what}", clock::now());
        line.hash(&mut self.digest);
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    /// Differs from that of another history.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }
}
