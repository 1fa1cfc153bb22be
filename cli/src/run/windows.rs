//! The refusal of `zklock run` on Windows. The command stops and ends a program with signals to its
//! process group before its lock is lost. Windows has neither, and needs another design for that.

use std::ffi::OsString;

use clap::Args;

use crate::failure::{Failure, INTERNAL};

/// The reason why no program can be run under a lock on this system, or `None` if that is possible.
pub(crate) const REFUSAL: Option<&str> = Some(
    "`zklock run` is not available on Windows yet: acquire the lock in your program with one of the libraries, or \
     run zklock in WSL",
);

/// Take a lock, run a command, and release the lock when the command has ended (not on Windows yet)
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The options, the lock's path and the command, as on other systems
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(_options: &Options) -> Result<u8, Failure> {
    Err(Failure::new(INTERNAL, REFUSAL.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The words after `zklock`.
    #[derive(Parser)]
    struct Run {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn every_command_line_is_refused_with_the_reason() {
        for words in
            ["/locks/a -- job.exe", "-n -E 0 /locks/a -- job.exe --help", "--slots 3 /locks/a -- a", ""]
        {
            let line = ["run"].into_iter().chain(words.split_whitespace());
            let failure = run(&Run::try_parse_from(line).unwrap().options).unwrap_err();
            assert_eq!((failure.code, failure.message.as_deref()), (INTERNAL, REFUSAL));
        }
    }
}
