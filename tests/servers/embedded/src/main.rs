//! Runs the embedded server as a separate process for tests. It prints `listening on HOST:PORT` as
//! soon as clients can connect. It keeps no data and runs until it is killed.

use std::fmt::Display;
use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;

use tokio::runtime::Builder;
use zklock_embedded::{Server, Settings};

const USAGE: &str = "\
options: --port NUMBER, and in milliseconds --tick, --min-session-timeout, --max-session-timeout, --reap-interval;
         --max-frame BYTES; --ttl-nodes true|false";

/// Parses the options. Returns the port and the settings.
fn read(mut options: impl Iterator<Item = String>) -> Result<(u16, Settings), String> {
    let mut port = 0;
    let mut settings = Settings { seed: RandomState::new().hash_one(0), ..Settings::default() };
    while let Some(name) = options.next() {
        let value = options.next().ok_or_else(|| format!("{name} has no value"))?;
        match name.as_str() {
            "--port" => port = parse(&name, &value)?,
            "--tick" => settings.tick = parse(&name, &value)?,
            "--min-session-timeout" => settings.min_timeout = parse(&name, &value)?,
            "--max-session-timeout" => settings.max_timeout = parse(&name, &value)?,
            "--reap-interval" => settings.reap_interval = parse(&name, &value)?,
            "--max-frame" => settings.max_frame = parse(&name, &value)?,
            "--ttl-nodes" => settings.ttl_nodes = parse(&name, &value)?,
            _ => return Err(format!("there is no option {name}")),
        }
    }
    Ok((port, settings))
}

fn parse<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error| format!("{name} {value}: {error}"))
}

fn serve(port: u16, settings: Settings) -> std::io::Result<()> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let server = Server::start_with(("127.0.0.1", port), settings).await?;
        say(&server.hosts())?;
        pending().await
    })
}

fn say(hosts: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {hosts}")?;
    out.flush()
}

fn main() -> ExitCode {
    let outcome = read(std::env::args().skip(1))
        .map_err(|problem| format!("{problem}\n{USAGE}"))
        .and_then(|(port, settings)| serve(port, settings).map_err(|error| error.to_string()));
    if let Err(problem) = outcome {
        // Standard error can already be closed.
        writeln!(std::io::stderr(), "zklock-test-server: {problem}").unwrap_or_default();
    }
    // `serve` returns only if it fails.
    ExitCode::FAILURE
}
