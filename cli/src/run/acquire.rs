//! Takes the lock that the options ask for.

use std::time::{Duration, Instant};

use zklock::{AnyLock, Client, ErrorKind, Lease, Mutex, Owner, Patience, ReadWriteLock, Semaphore};

use crate::failure::{CONFLICT, Failure};
use crate::run::options::Options;

/// What kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A mutex.
    Alone,
    /// The write half of a read/write lock: Curator's readers see no other node.
    Write,
    Read,
    Permit(u32),
}

impl Wish {
    pub(crate) fn of(options: &Options) -> Self {
        match options.slots {
            Some(slots) => Self::Permit(slots),
            None if options.shared => Self::Read,
            None if options.exclusive => Self::Write,
            None => Self::Alone,
        }
    }

    /// As the command is told it.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::Alone | Self::Write => "exclusive",
            Self::Read => "shared",
            Self::Permit(_) => "slots",
        }
    }

    fn lock(self, client: &Client, path: &str) -> zklock::Result<AnyLock> {
        Ok(match self {
            Self::Alone => Mutex::new(client, path)?.into(),
            Self::Write => ReadWriteLock::new(client, path)?.write_lock.into(),
            Self::Read => ReadWriteLock::new(client, path)?.read_lock.into(),
            Self::Permit(slots) => Semaphore::new(client, path, slots)?.into(),
        })
    }
}

/// Connects, and waits for the lock. Dropping the future leaves the queue.
pub(crate) async fn acquire(client: &Client, options: &Options) -> Result<Lease, Failure> {
    let began = Instant::now();
    let lock = Wish::of(options).lock(client, &options.path)?;
    client.ready().await?;
    check_kill_after(options.kill_after, client.session_timeout())?;
    let patience = match options.wait {
        _ if options.nonblock => Patience::Try,
        Some(Duration::ZERO) => Patience::Try,
        Some(time) => Patience::For(time.saturating_sub(began.elapsed())),
        None => Patience::Forever,
    };
    lock.acquire_as(Owner::new(), patience).await.map_err(|error| {
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
