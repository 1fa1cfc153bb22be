//! Writes files of histories for checkers outside the simulation: see tests/porcupine/README.md.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Creates an empty file for histories.
pub fn begin(file: &Path) -> io::Result<()> {
    File::create(file).map(drop)
}

/// Appends one history in a single write, because other threads append to the same file.
pub fn append(file: &Path, history: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(file)?.write_all(history.as_bytes())
}
