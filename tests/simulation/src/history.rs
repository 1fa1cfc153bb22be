//! What happened in a simulation, line by line, and a number that stands for all of it.

use crate::clock;

/// FNV-1a, which is the same in every build and on every machine: the standard library promises neither.
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

/// What happened.
#[derive(Debug, Default)]
pub struct History {
    /// Kept only if somebody wants to read them.
    pub lines: Option<Vec<String>>,
    /// What somebody looks for, and the lines that have it.
    pub sought: Option<String>,
    pub found: Vec<String>,
    digest: Digest,
}

impl History {
    /// Something happens now.
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

    /// Differs from that of another history.
    pub fn digest(&self) -> u64 {
        self.digest.0
    }
}
