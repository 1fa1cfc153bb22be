//! Takes the lock that the options ask for.

use std::time::{Duration, Instant};

use zklock::{AnyLock, Client, ErrorKind, Lease, Mutex, Owner, ReadWriteLock, Semaphore, Timeout};

use crate::failure::{CONFLICT, Failure};
use crate::run::options::Options;

/// The lock that the options ask for.
fn wanted(client: &Client, options: &Options) -> zklock::Result<AnyLock> {
    let path = &options.path;
    Ok(match options.slots {
        Some(slots) => Semaphore::new(client, path, slots)?.into(),
        None if options.shared => ReadWriteLock::new(client, path)?.read_lock.into(),
        // Curator's readers see no other node.
        None if options.exclusive => ReadWriteLock::new(client, path)?.write_lock.into(),
        None => Mutex::new(client, path)?.into(),
    })
}

/// Connects, and waits for the lock. Dropping the future leaves the queue.
pub(crate) async fn acquire(client: &Client, options: &Options) -> Result<Lease, Failure> {
    let began = Instant::now();
    let lock = wanted(client, options)?;
    client.ready().await?;
    check_kill_after(options.kill_after, client.session_timeout())?;
    let timeout = match options.wait {
        _ if options.nonblock => Timeout::Try,
        Some(Duration::ZERO) => Timeout::Try,
        Some(time) => Timeout::For(time.saturating_sub(began.elapsed())),
        None => Timeout::Forever,
    };
    lock.acquire_as(Owner::new(), timeout).await.map_err(|error| {
        let timed_out = error.kind() == ErrorKind::LockTimeout;
        let failure = Failure::from(error);
        if timed_out && failure.code == CONFLICT {
            let code = options.conflict_exit_code;
            // No failure, and cron would send what is said of it by mail.
            return if code == 0 { Failure { code, message: None } } else { Failure { code, ..failure } };
        }
        failure
    })
}

/// Between two heartbeats the term shrinks from a half of the session time-out to a third. A command that is ended with
/// more left would be ended at any time.
fn check_kill_after(kill_after: Option<Duration>, session_timeout: Duration) -> Result<(), Failure> {
    let most = session_timeout / 4;
    match kill_after {
        Some(time) if time > most => Err(Failure::usage(format!(
            "--kill-after {} is more than a quarter of the session time-out, which is {}: ask for a longer \
             --session-timeout, or a shorter --kill-after",
            humantime::format_duration(time),
            humantime::format_duration(session_timeout),
        ))),
        _ => Ok(()),
    }
}
