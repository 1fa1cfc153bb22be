//! Takes the lock that the options ask for.

use std::time::{Duration, Instant};

use zklock::{AnyLock, Client, Contender, ErrorKind, Lease, Mutex, Owner, ReadWriteLock, Semaphore, Timeout};

use crate::failure::{CONFLICT, Failure};
use crate::queue::{self, Place, Role, age};
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
    options.reporter.session_timeout(options.session_timeout, client.session_timeout());
    check_kill_after(options.kill_after, client.session_timeout())?;
    let timeout = match options.wait {
        _ if options.nonblock => Timeout::Try,
        Some(Duration::ZERO) => Timeout::Try,
        Some(time) => Timeout::For(time.saturating_sub(began.elapsed())),
        None => Timeout::Forever,
    };
    match lock.acquire_as(Owner::new(), timeout).await {
        Ok(lease) => Ok(lease),
        Err(error) => Err(failure(client, options, error).await),
    }
}

/// The end of a run that did not get the lock.
async fn failure(client: &Client, options: &Options, error: zklock::Error) -> Failure {
    let timed_out = error.kind() == ErrorKind::LockTimeout;
    let blockers = error.blockers().to_vec();
    let failure = Failure::from(error);
    if !timed_out || failure.code != CONFLICT {
        return failure;
    }
    match options.conflict_exit_code {
        // No failure, and cron would send what is said of it by mail.
        0 => Failure { code: 0, message: None },
        code => {
            let by = taken_by(client, &options.path, blockers).await;
            Failure { code, message: by.or(failure.message) }
        }
    }
}

/// How long it may take to find out who has a lock.
const WHO: Duration = Duration::from_secs(2);

/// The holders of the lock, if they are known: the first, and how many more.
async fn taken_by(client: &Client, path: &str, blockers: Vec<Contender>) -> Option<String> {
    let mut holders: Vec<_> =
        blockers.into_iter().map(|contender| Place { role: Role::Holds, contender }).collect();
    if holders.is_empty() {
        // One that only tries sees nodes and does not read them.
        holders = tokio::time::timeout(WHO, queue::read(client, path)).await.ok()?.ok()?;
        holders.retain(|place| place.role == Role::Holds);
    }
    let first = holders.first()?;
    let held = first.since().map_or_else(String::new, |since| format!(", for {}", age(Some(since))));
    let more = match holders.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    Some(format!("{path:?} is taken by {}{held}{more}", first.who()))
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
