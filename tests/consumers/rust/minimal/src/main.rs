//! Acquires and releases a lock, and prints the transport that the client uses. `ZKLOCK_HOSTS`
//! names the servers.

use std::time::Duration;

use zklock::{Client, ClientOptions, ErrorKind, LockOptions, Mutex};

#[tokio::main(flavor = "current_thread")]
async fn main() -> zklock::Result<()> {
    let client = Client::connect_with(ClientOptions::new(None)?).await?;
    let lock = Mutex::with_options(&client, "/locks/minimal", LockOptions::default().label("minimal"))?;
    match lock.acquire_within(Duration::from_secs(5)).await {
        Ok(lease) => lease.release().await?,
        Err(error) if error.kind() == ErrorKind::LockTimeout => {}
        Err(error) => return Err(error),
    }
    println!("{}", client.stats().transport.map_or("none", zklock::Transport::as_str));
    client.close().await
}
