//! The log of a simulation, and a digest of it.

use crate::clock;

/// FNV-1a hash. Unlike the standard library's hashes, it is the same in every build and on every
/// machine.
#[derive(Debug)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

/// The log of a simulation.
#[derive(Debug, Default)]
pub struct History {
    /// The lines of the log, if they are kept.
    pub lines: Option<Vec<String>>,
    /// The text that the run searches for.
    pub sought: Option<String>,
    pub found: Vec<String>,
    digest: Digest,
}

impl History {
    /// Adds a line with the current time.
    pub fn note(&mut self, what: &str) {
        let line = format!("{:>7} {what}", clock::now());
        self.digest.add(&line);
        if self.sought.as_deref().is_some_and(|sought| line.contains(sought)) {
            self.found.push(format!("found: {}", line.trim_start()));
        }
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    /// Returns a number that differs between different histories.
    pub fn digest(&self) -> u64 {
        self.digest.0
    }
}
