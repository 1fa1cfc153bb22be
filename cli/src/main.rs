//! The `zklock` command. All code is in the library, so that other packages can contain the command
//! too.

use std::process::ExitCode;

fn main() -> ExitCode {
    zklock_cli::main(std::env::args_os())
}
