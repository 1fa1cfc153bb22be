//! The command line.

use clap::{Parser, Subcommand};

use crate::run::Options as Run;

/// Distributed locks on Apache ZooKeeper, from the shell.
#[derive(Parser, Debug)]
#[command(name = "zklock", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(Run),
}
