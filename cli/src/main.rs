//! The `zklock` command. Everything is in the library, so that packages may call it in another way.

use std::process::ExitCode;

fn main() -> ExitCode {
    zklock_cli::main(std::env::args_os())
}
