//! Takes a lock in each way that a small service would.

use std::time::Duration;

use zklock::{Client, ErrorKind, LockOptions, Mutex};

#[tokio::main(flavor = "current_thread")]
async fn main() -> zklock::Result<()> {
    let client = Client::connect("127.0.0.1:2181").await?;
    let lock = Mutex::with_options(&client, "/locks/minimal", LockOptions::default().label("minimal"))?;
    match lock.acquire_within(Duration::from_secs(5)).await {
        Ok(lease) => lease.release().await?,
        Err(error) if error.kind() == ErrorKind::LockTimeout => {}
        Err(error) => return Err(error),
    }
    client.close().await
}
