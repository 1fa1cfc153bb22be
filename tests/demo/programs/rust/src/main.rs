//! A job that only one process at a time runs, in Rust: `zklock-demo-job PATH ROUNDS`. `ZKLOCK_HOSTS` names the
//! servers.
#![expect(clippy::print_stdout, reason = "the demo draws its picture from what is printed")]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use zklock::{Client, ClientOptions, Mutex};

/// Returns the time in nanoseconds, on the clock that all processes of this machine share.
fn now() -> i128 {
    let time = clock_gettime(ClockId::Monotonic);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("a path is missing")?;
    let rounds: u32 = arguments.next().ok_or("a number of rounds is missing")?.parse()?;

    let options = ClientOptions::new(None)?.session_timeout(Duration::from_secs(2))?;
    let client = Client::connect_with(options).await?;
    let lock = Mutex::new(&client, path)?;
    for _ in 0..rounds {
        println!("{} waits", now());
        lock.hold(|lease| async move {
            println!("{} holds {} {}", now(), lease.node(), lease.fencing_token());
            tokio::time::sleep(Duration::from_millis(fastrand::u64(250..500))).await; // the work
            println!("{} releases", now());
        })
        .await?;
    }
    client.close().await?;
    Ok(())
}
