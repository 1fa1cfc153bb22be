//! `zklock completions` and `zklock man`: generate shell completions and manual pages from the
//! definition of the command line.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::{Failure, INTERNAL};
use crate::terminal_output::print;

/// Print a script that completes zklock's words in a shell
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  zklock completions bash > ~/.local/share/bash-completion/completions/zklock"
)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print a manual page
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  zklock man run > /usr/local/share/man/man1/zklock-run.1")]
pub(crate) struct Man {
    /// The command to describe; zklock itself if none is named
    command: Option<String>,
}

pub(crate) fn completions(options: &Completions, mut cli: Command) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut cli, "zklock", &mut script);
    print(String::from_utf8_lossy(&script))?;
    Ok(0)
}

pub(crate) fn man(options: &Man, mut cli: Command) -> Result<u8, Failure> {
    cli.build();
    let shown = match &options.command {
        None => cli,
        Some(name) => cli
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Failure::usage(format!("there is no command {name:?}; see `zklock help`")))?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(shown)
        .render(&mut page)
        .map_err(|error| Failure::new(INTERNAL, format!("cannot write the manual page: {error}")))?;
    print(String::from_utf8_lossy(&page))?;
    Ok(0)
}
