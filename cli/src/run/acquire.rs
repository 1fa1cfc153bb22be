//! Acquires the lock that the options describe.

use std::time::{Duration, Instant};

use zklock::internal::{FullQueue, first_contender, full_queue};
use zklock::{AnyLock, Client, Contender, ErrorKind, Mutex, ReadWriteLock, Semaphore, Timeout};

use crate::failure::{CONFLICT, Failure};
use crate::queue::{self, Place, Role, age};
use crate::run::once::Held;
use crate::run::options::Options;
use crate::run::report::Reporter;

/// Creates the lock object for the options.
fn wanted(client: &Client, options: &Options) -> zklock::Result<AnyLock> {
    let (path, lock) = (&options.path, options.lock());
    Ok(match options.slots {
        Some(slots) => Semaphore::with_options(client, path, slots, lock)?.into(),
        None if options.shared => ReadWriteLock::with_options(client, path, lock)?.read_lock.into(),
        // Use a write lock for `--exclusive`: a mutex would not exclude Curator's readers, which
        // ignore its nodes.
        None if options.exclusive => ReadWriteLock::with_options(client, path, lock)?.write_lock.into(),
        None => Mutex::with_options(client, path, lock)?.into(),
    })
}

/// Connects and waits for the lock. Dropping the future leaves the queue.
pub(crate) async fn acquire(
    client: &Client,
    options: &Options,
    reporter: &Reporter,
) -> Result<Held, Failure> {
    let began = Instant::now();
    let slot = options.once.slot()?;
    let lock = wanted(client, options)?;
    // Read the requested timeout now: once there is a session, the client returns the granted one.
    let asked = client.session_timeout();
    client.ready().await?;
    reporter.session_timeout(asked, client.session_timeout());
    check_kill_after(options.kill_after, client.session_timeout())?;
    let timeout = match options.wait {
        _ if options.nonblock => Timeout::Try,
        Some(Duration::ZERO) => Timeout::Try,
        Some(time) => Timeout::For(time.saturating_sub(began.elapsed())),
        None => Timeout::Forever,
    };
    match options.once.acquire(&lock, slot.as_ref(), timeout).await {
        Ok(Some(held)) => Ok(held),
        Ok(None) => {
            reporter.report("skipped", options.once.skipped(&options.path));
            Err(Failure { code: 0, message: None })
        }
        Err(error) => Err(failure(client, options, error).await),
    }
}

/// Returns the exit status and message of a run that did not get the lock.
async fn failure(client: &Client, options: &Options, error: zklock::Error) -> Failure {
    let timed_out = error.kind() == ErrorKind::LockTimeout;
    let blockers = error.blockers().to_vec();
    let full = full_queue(&error).map(in_options);
    // Arguments of the lock correspond to options of the command.
    let failure = Failure::from(match error.argument() {
        Some("grace") => error.with_argument("--grace"),
        _ => error,
    });
    if !timed_out || failure.code != CONFLICT {
        return failure;
    }
    match options.conflict_exit_code {
        // With `-E 0`, a taken lock is no failure. A message would only make cron send mail.
        0 => Failure { code: 0, message: None },
        code if full.is_some() => Failure { code, message: full },
        code => {
            let by = taken_by(client, options, blockers).await;
            Failure { code, message: by.or(failure.message) }
        }
    }
}

/// Describes a full queue, with the option that limits it and the command that lists it.
fn in_options(queue: &FullQueue) -> String {
    format!("{queue} (--max-waiters); run `zklock ls` to list the contenders")
}

/// Maximum time to find out who holds the lock.
const WHO: Duration = Duration::from_secs(2);

/// Describes the first holder of the lock and the number of other holders, if they are known.
async fn taken_by(client: &Client, options: &Options, blockers: Vec<Contender>) -> Option<String> {
    let path = &options.path;
    let mut holders: Vec<_> =
        blockers.into_iter().map(|contender| Place { role: Role::Holds, contender }).collect();
    if holders.is_empty() {
        // With `--nonblock`, the acquire has listed the nodes but not read them, so read the
        // holders here.
        holders = tokio::time::timeout(WHO, read_holders(client, options)).await.ok()?.ok()?;
    }
    let first = holders.first()?;
    // A node records when its contender joined the queue, but not when it was granted the lock.
    let queued =
        first.since().map_or_else(String::new, |since| format!(", in the queue for {}", age(Some(since))));
    let more = match holders.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    Some(format!("{path:?} is taken by {}{queued}{more}", first.who()))
}

/// Returns the holders of the lock. Reads all contenders only if several can hold the lock.
/// Otherwise a thousand jobs that find the lock taken would each read a long queue.
async fn read_holders(client: &Client, options: &Options) -> Result<Vec<Place>, Failure> {
    let path = &options.path;
    let lock = Mutex::new(client, path)?;
    if options.slots.is_none()
        && let Some(contender) = first_contender(&lock).await?
        && !contender.reader
        && contender.session_id != 0
    {
        return Ok(vec![Place { role: Role::Holds, contender }]);
    }
    let mut places = queue::read(client, path).await?;
    places.retain(|place| place.role == Role::Holds);
    Ok(places)
}

/// Rejects a `--kill-after` that is longer than a quarter of the session timeout. After each reply,
/// the lock is certain for half of the session timeout. Just before the next reply, it is certain
/// for only a third. So with a longer `--kill-after`, the command could be ended although the
/// servers answer every heartbeat.
fn check_kill_after(kill_after: Option<Duration>, session_timeout: Duration) -> Result<(), Failure> {
    let most = session_timeout / 4;
    match kill_after {
        Some(time) if time > most => Err(Failure::usage(format!(
            "--kill-after {} is more than a quarter of the session timeout, which is {}: use a longer \
             --session-timeout or a shorter --kill-after",
            humantime::format_duration(time),
            humantime::format_duration(session_timeout),
        ))),
        _ => Ok(()),
    }
}
