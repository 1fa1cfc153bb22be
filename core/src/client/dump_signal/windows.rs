//! The refusal on Windows, where no signal can ask a process for a dump.

use std::io::{Error, ErrorKind, Result};
use std::os::windows::io::AsHandle;

pub(super) fn dump_on(_signal: i32, _file: &impl AsHandle) -> Result<()> {
    Err(refused())
}

pub(super) fn dump_on_descriptor(_signal: i32, _descriptor: i32) -> Result<()> {
    Err(refused())
}

fn refused() -> Error {
    let problem = "Windows has no signal for dumps: call `dump` in the program, and write the text";
    Error::new(ErrorKind::Unsupported, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_on_a_signal_is_refused() {
        let signal = 10;
        for refused in [dump_on(signal, &std::io::stderr()), dump_on_descriptor(signal, 2)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("call `dump`"), "{error}");
        }
    }
}
