//! `zklock doctor`: examines an ensemble from a client's point of view, and recommends changes.

mod advice;
mod clock;
mod deadlock_findings;
mod deadlocks;
mod four_letter_words;

use std::time::{Duration, Instant};

use clap::Args;
use zklock::internal::{Escaped, look};
use zklock::{Client, Mutex, Owner};

use crate::connection::{Connection, with_session_timeout};
use crate::doctor::advice::{
    Finding, advise_build, advise_connections, advise_latency, advise_mode, advise_no_answer,
    advise_no_service, advise_no_session, advise_refusal, advise_session, advise_tick, advise_unknown_tick,
    advise_version, half_of,
};
use crate::doctor::clock::Offset;
use crate::doctor::four_letter_words::{Answer, addresses, ask};
use crate::duration;
use crate::failure::{Failure, USAGE};
use crate::session::{client_options, runtime, with_client};
use crate::terminal_output::print;

/// Timeout for a second session.
const LIMIT: Duration = Duration::from_secs(5);

/// Number of reads for the latency measurement.
const READS: u32 = 5;

/// Examine an ensemble from a client's point of view, and recommend changes
///
/// Connects and measures, and asks each server for its version and settings. With a PATH it also
/// acquires and releases a lock there. This shows whether access control lists allow it and whether
/// the clocks agree. Exits with 1 if something should be changed. Exits with 69 or 77 if there is
/// no session, and reports the reason for each server.
///
/// With --deadlocks it only searches for owners that wait for each other, and exits with 1 if it
/// finds any. It only reads the queues of the locks.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  zklock doctor -z zk1,zk2,zk3\n  zklock doctor --session-timeout 4s /locks/doctor\n  zklock doctor --json | jq '.[] | select(.verdict == \"change\")'\n  zklock doctor --deadlocks /locks"
)]
pub(crate) struct Options {
    /// Take and release a lock here
    path: Option<String>,
    /// Only search for deadlocks among the locks at and below this path
    #[arg(long, value_name = "PATH", conflicts_with_all = ["path", "session_timeout"])]
    deadlocks: Option<String>,
    /// The session timeout that your programs request [env: `ZKLOCK_SESSION_TIMEOUT`] [default:
    /// 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    session_timeout: Option<Duration>,
    /// Print the findings as JSON: a list of objects with `verdict` (ok, note or change), `finding` and `next`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn doctor(options: &Options) -> Result<u8, Failure> {
    if let Some(path) = &options.deadlocks {
        let findings = with_client(&options.connection, async |client| {
            let (search, missing) = deadlocks::search(client, path).await?;
            Ok(deadlock_findings::findings(path, &search, missing))
        })?;
        return print_findings(&findings, options.json);
    }
    let client_options = with_session_timeout(client_options(&options.connection)?, options.session_timeout)?;
    let mut findings = Vec::new();
    let runtime = runtime()?;
    let failure = runtime.block_on(async {
        let client = Client::new(client_options);
        let failure = examine(&client, options, &mut findings).await.err();
        client.close().await.ok();
        failure
    });
    // Do not wait for a resolver thread that hangs: the exit of the process ends it.
    runtime.shutdown_background();
    if let Some(failure) = &failure
        && failure.code == USAGE
    {
        return Err(Failure::new(USAGE, failure.message.clone().unwrap_or_default()));
    }
    let problem = print_findings(&findings, options.json)?;
    Ok(failure.map_or(problem, |failure| failure.code))
}

/// Prints the findings. Returns the exit status.
fn print_findings(findings: &[Finding], json: bool) -> Result<u8, Failure> {
    if json {
        let all: Vec<_> = findings.iter().map(Finding::to_json).collect();
        print(format_args!("{:#}\n", serde_json::Value::from(all)))?;
    } else {
        for finding in findings {
            print(format_args!("{finding}\n"))?;
        }
    }
    Ok(u8::from(findings.iter().any(Finding::is_a_problem)))
}

/// Examines the ensemble and adds the findings. If a request fails, the failure is the last
/// finding.
async fn examine(client: &Client, options: &Options, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let began = Instant::now();
    // Read the requested timeout now: once there is a session, the client returns the granted one.
    let asked = client.session_timeout();
    if let Err(error) = client.ready().await {
        findings.push(advise_no_session(&error));
        // The servers' own replies can explain the failure.
        findings.extend(servers(client, &options.connection, None).await?);
        return Err(error.into());
    }
    let connected = format!("connected to {} in {}", client.hosts(), shown(began.elapsed()));
    findings.push(Finding::good(connected));
    let examined = examine_session(client, options, asked, findings).await;
    if let Err(failure) = &examined
        && let Some(message) = &failure.message
    {
        let next = "check the servers' logs, and run `zklock doctor` again";
        findings.push(Finding::change(format!("the connection failed: {message}"), next));
    }
    examined
}

async fn examine_session(
    client: &Client,
    options: &Options,
    asked: Duration,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let granted = client.session_timeout();
    let transport = client.stats().transport;
    findings.push(advise_build(env!("CARGO_PKG_VERSION"), transport.map(zklock::Transport::as_str)));
    findings.push(advise_session(asked, granted));
    findings.push(advise_latency(read_latency(client).await?, granted));
    findings.extend(servers(client, &options.connection, Some(granted)).await?);
    if !options.connection.restricts_access() {
        findings.push(Finding::note(
            "nodes are created with an open access control list: every client that can reach the servers can break \
             locks",
            "pass --auth-file and --acl creator, unless the network restricts access to the servers",
        ));
    }
    if let Some(path) = &options.path {
        findings.extend(lock(client, path).await?);
    } else {
        findings.push(Finding::note(
            "access control lists and clocks were not checked",
            "pass the path of a lock that can be acquired for this check, such as /locks/doctor",
        ));
    }
    Ok(())
}

async fn read_latency(client: &Client) -> Result<Duration, Failure> {
    let began = Instant::now();
    for _ in 0..READS {
        // The node need not exist.
        client.get("/zookeeper").await?;
    }
    Ok(began.elapsed() / READS)
}

/// Asks each server about itself, and returns the findings. `session_timeout` is `None` without a
/// session.
async fn servers(
    client: &Client,
    connection: &Connection,
    session_timeout: Option<Duration>,
) -> Result<Vec<Finding>, Failure> {
    let (options, hosts) = (connection.options(None)?, client.hosts());
    let servers: Vec<_> = hosts.split('/').next().unwrap_or_default().split(',').collect();
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for server in &servers {
        let addresses = match addresses(server).await {
            Ok(addresses) => addresses,
            Err(answer) => {
                found.push(advise_no_answer(server, &answer, connection.is_encrypted()));
                continue;
            }
        };
        let srvr = match ask(&options, server, &addresses, "srvr").await {
            Answer::Text(text) => text,
            answer => {
                found.push(advise_no_answer(server, &answer, connection.is_encrypted()));
                if matches!(answer, Answer::NotAllowed | Answer::Closed) {
                    silent.push(*server);
                }
                continue;
            }
        };
        if let Some(finding) = advise_no_service(server, &srvr) {
            found.push(finding);
            continue;
        }
        found.push(advise_version(server, &srvr));
        found.extend(advise_mode(server, &srvr, servers.len() - 1));
        match ask(&options, server, &addresses, "conf").await {
            Answer::Text(conf) => {
                found.extend(session_timeout.and_then(|granted| advise_tick(server, &conf, granted)));
                found.extend(advise_connections(server, &conf));
            }
            _ => silent.push(*server),
        }
    }
    if let Some(granted) = session_timeout
        && !silent.is_empty()
    {
        let half = half_session(connection, granted).await?;
        found.push(advise_unknown_tick(&silent.join(", "), half, granted));
    }
    Ok(found)
}

/// Requests half of `granted` as the session timeout, and returns the timeout that the servers
/// grant. It does not request a much shorter timeout, because a client on a slow network might then
/// not have enough time to connect.
async fn half_session(connection: &Connection, granted: Duration) -> Result<Option<Duration>, Failure> {
    let options = connection.options(Some(LIMIT))?.session_timeout(half_of(granted))?;
    let client = Client::new(options);
    let connected = client.ready().await;
    let granted = client.session_timeout();
    client.close().await.ok();
    Ok(connected.ok().map(|()| granted))
}

/// Acquires and releases a lock. The creation time of its node shows the servers' clock.
async fn lock(client: &Client, path: &str) -> Result<Vec<Finding>, Failure> {
    let lock = Mutex::new(client, path)?;
    let (began, before) = (Instant::now(), clock::now());
    let lease = match lock.acquire_as(&Owner::new(), client.session_timeout()).await {
        Ok(lease) => lease,
        Err(error) => return Ok(vec![advise_refusal(path, &error)]),
    };
    let after = clock::now();
    let token = lease.fencing_token();
    let node = look(client, &lease.node()).await;
    lease.release().await?;
    let (path, took) = (Escaped(path), shown(began.elapsed()));
    let mut found =
        vec![Finding::good(format!("acquired and released {path} in {took}, with fencing token {token}"))];
    if let Ok(Some(node)) = node {
        found.push(clock::advise(Offset::new(before, node.created, after)));
    }
    Ok(found)
}

/// Formats a time to a hundredth of a millisecond.
fn shown(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}
