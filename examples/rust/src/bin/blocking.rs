//! A command that runs on at most one machine at a time, without an async runtime: `blocking
//! [HOSTS]`.

use std::time::Duration;

use zklock::ErrorKind;
use zklock::blocking::{Client, Mutex};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    zklock::close_on_signals()?;
    let hosts = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".into());
    let client = Client::connect(&hosts)?;
    let lock = Mutex::new(&client, "/examples/report")?;
    let lease = match lock.acquire_within(Duration::from_secs(5)) {
        Err(error) if error.kind() == ErrorKind::LockTimeout => {
            println!("somebody else does it: {error}");
            return Ok(());
        }
        lease => lease?,
    };
    println!("holding, with token {}", lease.fencing_token());
    lease.release()?;
    Ok(client.close()?)
}
