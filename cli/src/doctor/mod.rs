//! `zklock doctor`: looks at an ensemble as a client sees it, and says what to change.

mod advice;
mod words;

use std::time::{Duration, Instant};

use clap::Args;
use zklock::binding::Shown;
use zklock::{Client, Mutex, Owner};

use crate::connection::Connection;
use crate::doctor::advice::{Finding, advise_latency, advise_session, advise_tick, advise_version};
use crate::duration;
use crate::failure::Failure;
use crate::output::print;
use crate::session::with_session;

/// Reads, for the latency.
const READS: u32 = 5;

/// Look at an ensemble as a client sees it, and say what to change
///
/// Connects, and measures; asks each server for its version and settings. With a PATH it also takes and releases a lock
/// there, which shows whether access control lists allow that. Exits with 1 if something should be changed.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  zklock doctor -z zk1,zk2,zk3\n  zklock doctor --session-timeout 4s /locks/doctor"
)]
pub(crate) struct Options {
    /// Take a lock here, and release it
    path: Option<String>,
    /// The session time-out that your programs ask for
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    session_timeout: Duration,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn doctor(options: &Options) -> Result<u8, Failure> {
    let began = Instant::now();
    let findings = with_session(&options.connection, Some(options.session_timeout), async |client| {
        let connected = format!("connected to {} in {}", client.hosts(), shown(began.elapsed()));
        let mut findings = vec![Finding::good(connected)];
        findings.push(advise_session(options.session_timeout, client.session_timeout()));
        findings.push(advise_latency(read_latency(client).await?, client.session_timeout()));
        findings.extend(servers(client));
        if !options.connection.restricts_access() {
            findings.push(Finding::note(
                "nodes are created open to everyone: who reaches the servers can break locks",
                "give --auth-file and --acl creator, unless the network keeps others out",
            ));
        }
        if let Some(path) = &options.path {
            findings.push(lock(client, path).await?);
        }
        Ok(findings)
    })?;
    for finding in &findings {
        print(format_args!("{finding}\n"))?;
    }
    Ok(u8::from(findings.iter().any(Finding::is_a_problem)))
}

async fn read_latency(client: &Client) -> Result<Duration, Failure> {
    let began = Instant::now();
    for _ in 0..READS {
        // It need not exist.
        client.get("/zookeeper").await?;
    }
    Ok(began.elapsed() / READS)
}

/// What the servers say of themselves, each of them.
fn servers(client: &Client) -> Vec<Finding> {
    let hosts = client.hosts();
    let servers = hosts.split('/').next().unwrap_or_default().split(',');
    let timeout = client.session_timeout();
    servers
        .flat_map(|server| {
            let Some(text) = words::ask(server, "srvr") else {
                return vec![Finding::note(
                    &format!("{server} does not answer `srvr`: its version is unknown"),
                    "allow it with 4lw.commands.whitelist=srvr,conf, if it speaks without TLS there",
                )];
            };
            let mut found = vec![advise_version(server, &text)];
            found.extend(words::ask(server, "conf").and_then(|conf| advise_tick(server, &conf, timeout)));
            found
        })
        .collect()
}

/// Takes and releases a lock.
async fn lock(client: &Client, path: &str) -> Result<Finding, Failure> {
    let lock = Mutex::new(client, path)?;
    let began = Instant::now();
    let lease = lock.acquire_as(Owner::new(), client.session_timeout()).await?;
    let token = lease.fencing_token();
    lease.release().await?;
    let (path, took) = (Shown(path), shown(began.elapsed()));
    Ok(Finding::good(format!("took and released {path} in {took}, with fencing token {token}")))
}

/// To the hundredth of a millisecond.
fn shown(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}
