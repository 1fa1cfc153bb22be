//! Work that stops when the lock is lost: `loss [HOSTS]`.

use std::time::Duration;

use zklock::{Client, ErrorKind, Mutex};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without this call, the lock would stay taken after Ctrl-C until the session times out.
    zklock::close_on_signals()?;
    let hosts = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".into());
    let client = Client::connect(&hosts).await?;
    let lock = Mutex::new(&client, "/examples/loss")?;

    // A simulated operator breaks the lock, so that the example shows a loss.
    let operator = |node: String| {
        let client = client.clone();
        async move { client.break_lock(&node).await }
    };

    // The body is dropped at its next `.await` once the lock is lost.
    let outcome = lock
        .hold(|lease| async move {
            operator(lease.node()).await?;
            loop {
                println!("working, for {:?} at least", lease.remaining());
                tokio::time::sleep(Duration::from_millis(100)).await;
                // Check the lease immediately before an action that needs the lock, without an
                // `.await` in between.
                if lease.check().is_err() {
                    return Ok::<_, zklock::Error>(());
                }
            }
        })
        .await;
    match outcome {
        Err(error) if error.kind() == ErrorKind::LockLost => println!("stopped: {error}"),
        other => other??,
    }
    client.close().await?;
    Ok(())
}
