//! The command line of `zklock`.

use clap::{Parser, Subcommand};

use crate::break_revoke::{Break, Revoke};
use crate::completions::{Completions, Man};
use crate::demo::Options as Demo;
use crate::dev::Options as Dev;
use crate::doctor::Options as Doctor;
use crate::ls::Options as Ls;
use crate::once::Options as Once;
use crate::run::Options as Run;
use crate::top::Options as Top;
use crate::wait::Options as Wait;

const START: &str = "\
To see what it does:
  zklock demo                                    # takes ten seconds, needs no server

To try it:
  zklock dev &                                   # a server in memory, for development only
  zklock run /locks/try -- sleep 30 &
  zklock ls /locks/try
  zklock run -n /locks/try -- echo never         # exits with 75: the lock is taken

In production, name the servers of Apache ZooKeeper: ZKLOCK_HOSTS=zk1,zk2,zk3, or -z zk1,zk2,zk3";

/// Distributed locks on Apache ZooKeeper, from the shell: run commands under locks, and inspect and
/// repair locks
#[derive(Parser, Debug)]
#[command(name = "zklock", version, after_help = START, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(Run),
    Ls(Ls),
    Top(Top),
    Wait(Wait),
    Break(Break),
    Revoke(Revoke),
    Once(Once),
    Doctor(Doctor),
    Demo(Demo),
    Dev(Dev),
    Completions(Completions),
    Man(Man),
}
