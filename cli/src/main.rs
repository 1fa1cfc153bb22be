//! The `zklock` command. All code is in the library, so that packages can call it in other ways.

use std::process::ExitCode;

fn main() -> ExitCode {
    zklock_cli::main(std::env::args_os())
}
