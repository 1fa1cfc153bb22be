//! `zklock demo`: several processes contend for one lock, and one is killed while it holds the
//! lock.

mod contestant;
mod picture;
mod play;
mod svg;

use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use zklock::{Client, ClientOptions};
use zklock_embedded::{Settings, TestServer};

use crate::demo::play::Play;
use crate::failure::{Failure, INTERNAL, UNREACHABLE};
use crate::run::REFUSAL;
use crate::session::runtime;
use crate::signals::{Signal, Signals};

/// Watch several processes hold a lock one after the other; one is killed while it holds the lock
///
/// Starts an in-memory server, for development only, and four processes that contend for one lock.
/// Each process is `zklock run` with a program that sleeps. Needs neither ZooKeeper nor Java. The
/// demo takes about ten seconds.
///
/// With `--with`, your own programs contend instead.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zklock demo
  zklock demo --plain      # one line per event, the default without a terminal
  zklock demo --with Python='python job.py' --with Node='node job.mjs' --picture demo.svg")]
pub(crate) struct Options {
    /// Print a line for each event, and the picture only at the end
    #[arg(long)]
    plain: bool,

    /// Run this program as a contender. Can be repeated. The last of the programs is killed
    ///
    /// The program must acquire the lock /demo/lock at least twice, on the servers in the variable
    /// `ZKLOCK_HOSTS`, and exit with status 0.
    #[arg(long = "with", value_name = "TITLE=COMMAND")]
    programs: Vec<Program>,

    /// Write the picture to this file, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// A program that contends for the lock.
#[derive(Clone, Debug)]
struct Program {
    title: String,
    command: String,
}

impl FromStr for Program {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((title, command)) if !title.is_empty() && !command.trim().is_empty() => {
                Ok(Self { title: title.to_owned(), command: command.to_owned() })
            }
            _ => Err("expected a title, an equals sign and a command, such as Python='python job.py'"),
        }
    }
}

/// Runs the demo. `program` is the path with which this program was called.
pub(crate) fn demo(options: &Options, program: &Path) -> Result<u8, Failure> {
    if let Some(refusal) = REFUSAL {
        return Err(Failure::new(INTERNAL, format!("the demo needs `zklock run`: {refusal}")));
    }
    if options.programs.len() == 1 {
        return Err(Failure::usage("the demo needs at least two programs; pass --with for each of them"));
    }
    let server = TestServer::start_on(("127.0.0.1", 0), Settings::random())
        .map_err(|error| Failure::new(UNREACHABLE, format!("cannot listen on 127.0.0.1: {error}")))?;
    let hosts = server.hosts();
    let plain = options.plain
        || !stdout().is_terminal()
        || ["NO_COLOR", "CI"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    runtime()?.block_on(async {
        let mut signals = Signals::listen(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
        let client = Client::new(ClientOptions::new(Some(&hosts))?.label(Some("the demo".to_owned()))?);
        let mut play = Play::new(options, &own_program(program), &hosts, plain);
        let outcome = tokio::select! {
            signal = signals.next() => Err(Failure::signal(signal as i32)),
            outcome = play.perform(&client) => outcome,
        };
        client.close().await.ok();
        outcome
    })
}

/// Returns a path from which this program can be started again: its executable, or the script that
/// an interpreter runs.
fn own_program(program: &Path) -> PathBuf {
    let running = std::env::current_exe().ok();
    let by_name =
        |path: &PathBuf| path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("zklock"));
    running.filter(by_name).unwrap_or_else(|| program.to_owned())
}
