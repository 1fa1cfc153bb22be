//! Prints the command's output and messages.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// Reports a problem. The reader may have closed the output.
pub(crate) fn report_problem(message: impl Display) {
    writeln!(io::stderr().lock(), "zklock: {message}").unwrap_or_default();
}

/// Writes to standard output. Returns no error if the reader, such as `head`, has stopped reading.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::system("cannot write to the standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Asks a yes-or-no question. Any answer except yes counts as no.
pub(crate) fn ask(question: &str) -> Result<bool, Failure> {
    let mut err = io::stderr().lock();
    let mut answer = String::new();
    write!(err, "{question}")
        .and_then(|()| err.flush())
        .and_then(|()| io::stdin().read_line(&mut answer))
        .map_err(|error| Failure::system("cannot ask for confirmation", &error))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
