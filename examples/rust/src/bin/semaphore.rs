//! Limits the concurrent calls of a service to five. A caller can acquire one or several of the
//! five slots: `semaphore [HOSTS]`.

use std::time::Duration;

use zklock::{Client, ErrorKind, Semaphore};

#[tokio::main(flavor = "current_thread")]
async fn main() -> zklock::Result<()> {
    let hosts = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".into());
    let client = Client::connect(&hosts).await?;
    let slots = Semaphore::new(&client, "/examples/upstream", 5)?;

    let answer = slots.hold(|_permit| async { "an answer" }).await?;
    println!("one slot was enough for {answer}");

    let batch = slots.acquire_many(4, Duration::from_secs(10)).await?;
    println!("{} slots for a batch", batch.len());
    match slots.acquire_many(2, Duration::from_millis(200)).await {
        Err(error) if error.kind() == ErrorKind::LockTimeout => println!("two more are not free: {error}"),
        other => drop(other?),
    }
    batch.release().await?;
    client.close().await
}
