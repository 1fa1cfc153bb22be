//! Files of histories, for judges that are not part of the simulation: tests/porcupine/README.md.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Makes an empty file for histories.
pub fn begin(file: &Path) -> io::Result<()> {
    File::create(file).map(drop)
}

/// Appends one history, whole: others do the same on other threads.
pub fn append(file: &Path, history: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(file)?.write_all(history.as_bytes())
}
