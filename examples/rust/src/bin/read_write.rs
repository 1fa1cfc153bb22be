//! Several readers together, one writer alone, and a writer that becomes a reader: `read_write
//! [HOSTS]`.

use zklock::{Client, Owner, ReadWriteLock, Timeout};

#[tokio::main(flavor = "current_thread")]
async fn main() -> zklock::Result<()> {
    let hosts = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".into());
    let client = Client::connect(&hosts).await?;
    let catalogue = ReadWriteLock::new(&client, "/examples/catalogue")?;

    let (one, other) = (catalogue.read_lock.acquire().await?, catalogue.read_lock.acquire().await?);
    println!("two read: {} and {}", one.node(), other.node());
    println!("a writer has to wait: {}", catalogue.write_lock.try_acquire().await?.is_none());
    one.release().await?;
    other.release().await?;

    // One owner can hold both locks. When it releases the write lock, it still holds the read lock,
    // so no other writer can change the data in between.
    let owner = Owner::new();
    let writing = catalogue.write_lock.acquire_as(&owner, Timeout::Forever).await?;
    let reading = catalogue.read_lock.acquire_as(&owner, Timeout::Forever).await?;
    writing.release().await?;
    println!("reads what it wrote: {}", reading.state());
    reading.release().await?;
    client.close().await
}
