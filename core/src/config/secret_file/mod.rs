//! Reads a file with a secret, and refuses one that others than its owner can use.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

#[cfg(unix)]
use self::unix as this;
#[cfg(windows)]
use self::windows as this;
use crate::error::{Error, Result};

/// For tests: writes a file that others than its owner cannot use.
#[cfg(test)]
pub(super) use self::this::write_private;

/// How others than its owner can use a file, and the command that changes that.
#[derive(Debug, PartialEq, Eq)]
struct Exposure {
    how: String,
    remedy: String,
}

/// Reads a file of credentials. Fails if other users than its owner can access the file.
pub(super) fn read(file: &Path) -> Result<String> {
    let problem = |error: io::Error| {
        let message = format!("cannot read {}: {error}", file.display());
        Error::bad_argument("auth_file", message).because(error)
    };
    let mut opened = File::open(file).map_err(problem)?;
    // Check the open file, not its name: a moment later, the name can refer to another file.
    if let Some(Exposure { how, remedy }) = this::exposure(&opened, file).map_err(problem)? {
        let file = file.display();
        let problem = format!(
            "{file} contains credentials, and users other than its owner can access it ({how}): run `{remedy}`"
        );
        return Err(Error::bad_argument("auth_file", problem));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(problem)?;
    Ok(text)
}
