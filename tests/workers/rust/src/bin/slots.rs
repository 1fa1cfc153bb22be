//! A small program that runs code once per slot. It runs one slot after another, until a given number of slots is
//! recorded. Other processes run the same slots at the same time, and a test can kill this process at any time.
//!
//! It prints `runs SLOT NODE TOKEN TIME` when the code of a slot (its body) begins, and `ends SLOT TIME` when the body
//! ends. `TIME` is `CLOCK_MONOTONIC` in nanoseconds. It prints `recorded SLOT` when the record is acknowledged,
//! `lost: WHY` after a loss, and `done` at the end. With a fourth argument, some bodies are long.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use zklock::internal::once::read;
use zklock::{Client, ClientOptions, Error, ErrorKind, Lease, Mutex, Owner, Record, Slot, Timeout};

/// Maximum duration in milliseconds of a normal body, and of the pause between two slots.
const JITTER: u64 = 30;

/// The long bodies, for a test that disconnects holders. Each pair contains the slot's number
/// modulo `EVERY`, and the duration of the body in milliseconds. The body of `TIME_FOR_A_TRAP`
/// gives the test time to block the write of the record.
const EVERY: u64 = 40;
const LONGER_THAN_THE_TERM: (u64, u64) = (7, 1_500);
const TIME_FOR_A_TRAP: (u64, u64) = (27, 400);

/// Session timeout. It is short, because the lock of a killed process becomes free only when its session expires.
const SESSION: Duration = Duration::from_secs(2);

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush()).expect("the test reads this");
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
fn now() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..=JITTER))).await;
}

/// The number of slots to run, and whether some have long bodies.
#[derive(Clone, Copy)]
struct Slots {
    count: u64,
    some_are_long: bool,
}

/// Runs the body of a slot: it only sleeps.
async fn body_of(slot: u64, slots: Slots) {
    let long = [LONGER_THAN_THE_TERM, TIME_FOR_A_TRAP];
    match long.iter().find(|(place, _)| slots.some_are_long && slot % EVERY == *place) {
        Some((_, millis)) => tokio::time::sleep(Duration::from_millis(*millis)).await,
        None => pause().await,
    }
}

/// Runs the slot after the last recorded one. Returns `false` if no slot is left. The lock is held during the whole
/// call, because otherwise another process could record a later slot first.
async fn run_next(client: &Client, lock: &Mutex, slots: Slots) -> zklock::Result<bool> {
    let owner = Owner::new();
    let lease = lock.acquire_as(&owner, Timeout::Forever).await?;
    let last = read(client, lock.path()).await?.and_then(|record| record.slot.parse().ok()).unwrap_or(0);
    if last < slots.count {
        let next = last + 1;
        let record = if next.is_multiple_of(5) { Record::Start } else { Record::AfterBody };
        let body = |lease: Arc<Lease>| async move {
            say(&format!("runs {next} {} {} {}", lease.node(), lease.fencing_token(), now()));
            body_of(next, slots).await;
            say(&format!("ends {next} {}", now()));
            Ok::<_, Error>(())
        };
        let slot = Slot::key(next.to_string())?;
        let ran = lock.once_as(&owner, &slot, Timeout::Forever, record, body).await?;
        say(&format!("{} {next}", if ran.is_some() { "recorded" } else { "skipped" }));
    }
    lease.release().await?;
    Ok(last < slots.count)
}

async fn run_all(hosts: &str, path: &str, slots: Slots) -> zklock::Result<()> {
    let options = ClientOptions::new(Some(hosts))?.session_timeout(SESSION)?;
    let client = Client::connect_with(options).await?;
    let lock = Mutex::new(&client, path)?;
    loop {
        match run_next(&client, &lock, slots).await {
            Ok(true) => {}
            Ok(false) => return client.close().await,
            // The lock is lost, so another process continues with the slots. This process queues again.
            Err(error) if matches!(error.kind(), ErrorKind::LockLost | ErrorKind::ConnectionFailed) => {
                say(&format!("lost: {error}"));
            }
            Err(error) => return Err(error),
        }
        pause().await;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(hosts), Some(path), Some(count)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: slots HOSTS PATH SLOTS [long]".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let slots = Slots { count: count.parse()?, some_are_long: arguments.next().is_some() };
    runtime.block_on(run_all(&hosts, &path, slots))?;
    say("done");
    Ok(())
}
