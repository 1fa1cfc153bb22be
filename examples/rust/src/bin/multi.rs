//! Acquires the locks of two accounts, both or none, without a deadlock: `multi [HOSTS]`.

use std::time::Duration;

use zklock::{Client, MultiLock, Mutex};

#[tokio::main(flavor = "current_thread")]
async fn main() -> zklock::Result<()> {
    let hosts = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".into());
    let client = Client::connect(&hosts).await?;
    let (from, to) =
        (Mutex::new(&client, "/examples/accounts/2")?, Mutex::new(&client, "/examples/accounts/1")?);

    // The order of this list does not matter, because `MultiLock` acquires its locks in the same
    // order in all programs.
    let both = MultiLock::new([(&from).into(), (&to).into()])?;
    let outcome = both.hold_within(Duration::from_secs(10), |leases| async move {
        leases.check()?;
        Ok::<_, zklock::Error>("moved")
    });
    println!("{}", outcome.await??);

    // Each can also be acquired alone.
    from.acquire().await?.release().await?;
    client.close().await
}
