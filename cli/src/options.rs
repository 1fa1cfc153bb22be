//! The command line.

use clap::{Parser, Subcommand};

use crate::dev::Options as Dev;
use crate::doctor::Options as Doctor;
use crate::ls::Options as Ls;
use crate::manual::{Completions, Man};
use crate::operate::{Break, Revoke};
use crate::run::Options as Run;
use crate::wait::Options as Wait;

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
    Ls(Ls),
    Wait(Wait),
    Break(Break),
    Revoke(Revoke),
    Doctor(Doctor),
    Dev(Dev),
    Completions(Completions),
    Man(Man),
}
