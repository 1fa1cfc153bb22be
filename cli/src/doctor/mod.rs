//! `zklock doctor`: looks at an ensemble as a client sees it, and says what to change.

mod advice;
mod clock;
mod four_letter_words;

use std::time::{Duration, Instant};

use clap::Args;
use zklock::internal::{Escaped, look};
use zklock::{Client, Mutex, Owner};

use crate::connection::Connection;
use crate::doctor::advice::{
    Finding, advise_build, advise_connections, advise_latency, advise_mode, advise_refusal, advise_session,
    advise_tick, advise_version,
};
use crate::doctor::clock::Offset;
use crate::doctor::four_letter_words::Answer;
use crate::duration;
use crate::failure::Failure;
use crate::session::with_session;
use crate::terminal_output::print;

/// Reads, for the latency.
const READS: u32 = 5;

/// Look at an ensemble as a client sees it, and say what to change
///
/// Connects, and measures; asks each server for its version and settings. With a PATH it also takes and releases a lock
/// there, which shows whether access control lists allow that, and whether the clocks agree. Exits with 1 if something
/// should be changed.
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
        let transport = client.stats().transport;
        findings.push(advise_build(env!("CARGO_PKG_VERSION"), transport.map(zklock::Transport::as_str)));
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
            findings.extend(lock(client, path).await?);
        } else {
            findings.push(Finding::note(
                "access control lists and clocks were not looked at",
                "give the path of a lock that may be taken, such as /locks/doctor",
            ));
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
    let servers: Vec<_> = hosts.split('/').next().unwrap_or_default().split(',').collect();
    let timeout = client.session_timeout();
    let all = servers.iter().flat_map(|server| server_alone(server, servers.len() - 1, timeout));
    all.collect()
}

fn server_alone(server: &str, others: usize, timeout: Duration) -> Vec<Finding> {
    let srvr = match four_letter_words::ask(server, "srvr") {
        Answer::Text(text) => text,
        Answer::Silence => {
            return vec![Finding::note(
                &format!("{server} does not answer `srvr`: its version is unknown"),
                "allow it with 4lw.commands.whitelist=srvr,conf, if it speaks without TLS there",
            )];
        }
        Answer::Unreachable(why) => {
            return vec![Finding::change(
                format!("{server} cannot be reached: {why}"),
                "start it, open the way to it, or leave it out of --hosts",
            )];
        }
    };
    let mut found = vec![advise_version(server, &srvr)];
    found.extend(advise_mode(server, &srvr, others));
    if let Answer::Text(conf) = four_letter_words::ask(server, "conf") {
        found.extend(advise_tick(server, &conf, timeout));
        found.extend(advise_connections(server, &conf));
    }
    found
}

/// Takes and releases a lock. Its node has a time by the servers' clock.
async fn lock(client: &Client, path: &str) -> Result<Vec<Finding>, Failure> {
    let lock = Mutex::new(client, path)?;
    let (began, before) = (Instant::now(), clock::now());
    let lease = match lock.acquire_as(Owner::new(), client.session_timeout()).await {
        Ok(lease) => lease,
        Err(error) => return Ok(vec![advise_refusal(path, &error)]),
    };
    let after = clock::now();
    let token = lease.fencing_token();
    let node = look(client, &lease.node()).await;
    lease.release().await?;
    let (path, took) = (Escaped(path), shown(began.elapsed()));
    let mut found =
        vec![Finding::good(format!("took and released {path} in {took}, with fencing token {token}"))];
    if let Ok(Some(node)) = node {
        found.push(clock::advise(Offset::new(before, node.created, after)));
    }
    Ok(found)
}

/// To the hundredth of a millisecond.
fn shown(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}
