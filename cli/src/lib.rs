//! The `zklock` command: runs programs under distributed locks on Apache ZooKeeper, and shows and
//! repairs such locks.
//!
//! This crate contains the whole command, and `main.rs` only calls [`main`]. Programs that need
//! locks use the crate `zklock` instead.
#![cfg_attr(windows, allow(dead_code, reason = "only `run` uses it, which is refused on Windows"))]

mod break_revoke;
mod completions;
mod connection;
mod contender;
mod demo;
mod dev;
mod doctor;
mod duration;
mod failure;
mod ls;
mod missing;
mod once;
mod options;
mod queue;
#[cfg_attr(windows, path = "run/windows.rs")]
mod run;
mod session;
mod signals;
mod terminal_output;
mod top;
mod wait;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::failure::{Failure, USAGE};
use crate::options::{Cli, Command};

/// Runs the command with these arguments and returns its exit status. The first argument is the
/// command's own name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let program = arguments.first().map(PathBuf::from).unwrap_or_default();
    match Cli::try_parse_from(arguments) {
        Ok(cli) => finish(carry_out(cli.command, &program)),
        Err(told) => {
            let text = told.render().to_string();
            match text.strip_prefix("error: ") {
                // Print the error with the same prefix as all other problems.
                Some(problem) => terminal_output::report_problem(problem.trim_end()),
                // Help. The reader may have closed the output.
                None => told.print().unwrap_or_default(),
            }
            ExitCode::from(if told.use_stderr() { USAGE } else { 0 })
        }
    }
}

fn carry_out(command: Command, program: &Path) -> Result<u8, Failure> {
    match command {
        Command::Run(options) => run::run(&options),
        Command::Ls(options) => ls::ls(&options),
        Command::Top(options) => top::top(&options),
        Command::Wait(options) => wait::wait(&options),
        Command::Break(options) => break_revoke::break_lock(&options),
        Command::Revoke(options) => break_revoke::revoke(&options),
        Command::Once(options) => once::once(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Demo(options) => demo::demo(&options, program),
        Command::Dev(options) => dev::dev(&options),
        Command::Completions(options) => completions::completions(&options, Cli::command()),
        Command::Man(options) => completions::man(&options, Cli::command()),
    }
}

fn finish(outcome: Result<u8, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if let Some(message) = &failure.message {
                terminal_output::report_problem(message);
            }
            ExitCode::from(failure.code)
        }
    }
}
