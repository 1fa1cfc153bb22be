//! `zklock dev`: a server for development.

use clap::Args;
use zklock_embedded::{Settings, TestServer};

use crate::failure::{Failure, UNREACHABLE};
use crate::session::runtime;
use crate::signals::{Signal, Signals};
use crate::terminal_output::print;

/// Start a ZooKeeper server in memory, for development and tests only
///
/// The server is a single process. It stops on Ctrl-C or SIGTERM, and then its data is lost. In
/// production, use Apache ZooKeeper.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  zklock dev &\n  zklock run /locks/try -- echo it works")]
pub(crate) struct Options {
    /// The port to listen on at 127.0.0.1; 0 selects any free port. Clients use 2181 by default
    #[arg(short, long, default_value_t = 2181)]
    port: u16,
}

pub(crate) fn dev(options: &Options) -> Result<u8, Failure> {
    let runtime = runtime()?;
    runtime.block_on(async {
        // Before the message that the server is running.
        let mut ends = Signals::listen(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
        let port = options.port;
        let server = TestServer::start_on(("127.0.0.1", port), Settings::random()).map_err(|error| {
            let next = "another server might use this port: run `zklock doctor` to check, or choose another --port";
            Failure::new(UNREACHABLE, format!("cannot listen on 127.0.0.1:{port}: {error}; {next}"))
        })?;
        let hosts = server.hosts();
        print(format_args!(
            "listening on {hosts}, for development only (production is Apache ZooKeeper); press Ctrl-C to stop\n"
        ))?;
        ends.next().await;
        Ok(0)
    })
}
