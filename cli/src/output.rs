//! What the command says.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// Tells of a problem. Nobody may be left to read it.
pub(crate) fn complain(message: impl Display) {
    writeln!(io::stderr().lock(), "zklock: {message}").unwrap_or_default();
}

/// Writes to the standard output. A reader that has seen enough, such as `head`, is no problem.
#[expect(dead_code, reason = "the next commands")]
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::system("cannot write to the standard output", &error))
        }
        _ => Ok(()),
    }
}
