//! `zklock wait`: waits until a lock has no holder and no waiter.

use std::time::{Duration, Instant};

use clap::Args;
use zklock::internal::Escaped;

use crate::connection::Connection;
use crate::duration;
use crate::failure::{CONFLICT, Failure};
use crate::queue;
use crate::session::with_client;

/// Interval between two checks.
const PAUSE: Duration = Duration::from_millis(500);

/// Wait until a lock has no holder and no waiters
///
/// It does not join the queue, and checks twice a second. To do something under the lock, use
/// `zklock run`, because the lock can be taken again when this command ends.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  zklock wait -w 10m /locks/migration && echo over")]
pub(crate) struct Options {
    /// The lock's path
    path: String,
    /// Wait for at most this long, then exit with status 75: 30, 1.5, 500ms, 1m30s
    #[arg(short = 'w', long = "wait", value_name = "TIME", value_parser = duration::parse)]
    wait: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn wait(options: &Options) -> Result<u8, Failure> {
    let began = Instant::now();
    with_client(&options.connection, async |client| {
        loop {
            let places = queue::read(client, &options.path).await?;
            let Some(first) = places.first() else { return Ok(0) };
            let left = options.wait.map(|wait| wait.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                let (path, who) = (Escaped(&options.path), first.who());
                return Err(Failure::new(
                    CONFLICT,
                    format!("{path} is still taken: {who} {}", first.role.as_str()),
                ));
            }
            tokio::time::sleep(left.map_or(PAUSE, |left| left.min(PAUSE))).await;
        }
    })
}
