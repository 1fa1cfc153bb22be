//! Example job for `zklock demo`, in Rust: `zklock-demo-job PATH ROUNDS`. Only one process at a time runs it.
//! `ZKLOCK_HOSTS` names the servers.

use std::time::Duration;

use zklock::{Client, ClientOptions, Mutex};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("a path is missing")?;
    let rounds: u32 = arguments.next().ok_or("a number of rounds is missing")?.parse()?;

    let options = ClientOptions::new(None)?.session_timeout(Duration::from_secs(2))?;
    let client = Client::connect_with(options).await?;
    let lock = Mutex::new(&client, path)?;
    for _ in 0..rounds {
        lock.hold(|_| async {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(250..500))).await; // the work
        })
        .await?;
    }
    client.close().await?;
    Ok(())
}
