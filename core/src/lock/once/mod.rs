//! A body that runs once per slot, among all processes.

pub(crate) mod record;
pub(crate) mod slot;
pub(crate) mod turn;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use self::slot::Slot;
use crate::config::timeout::Timeout;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lease::owner::Owner;
use crate::lock::mutex::Mutex;

/// When a slot is recorded, for [`Mutex::once_as`].
///
/// ```
/// assert_eq!(zklock::Record::default(), zklock::Record::AfterBody);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// After the body has succeeded: a body that crashes may run again.
    #[default]
    AfterBody,
    /// Before the body begins, so that it runs at most once: a body that crashes or fails does not run again.
    Start,
}

impl Mutex {
    /// Runs `body` under the lock, unless this slot is recorded; then records the slot, and releases the lock. The outcome
    /// is what the body returns, and `None` if the slot was recorded already.
    ///
    /// A slot is recorded once; a body that crashes before the record may run again. Keys are slots, not idempotency keys
    /// (A, B, A runs A twice); [`once_per`](Self::once_per) refuses to go back.
    ///
    /// The lock has one record, of its last slot: a node beside the lock directory, with `.once` appended to its path. It
    /// is written in one transaction with a check of the lock's node, so that nobody records a slot who has lost the lock.
    /// A body that fails records nothing. If the lock is lost meanwhile, the body is dropped where it awaits something,
    /// nothing is recorded, and the outcome is [`LockLost`](crate::ErrorKind::LockLost). The body must not release the
    /// lease.
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// let lock = zklock::Mutex::new(client, "/jobs/report")?;
    /// let rows = lock.once("2026-11-26", |lease| async move { write_report(lease.fencing_token()).await }).await?;
    /// match rows {
    ///     Some(rows) => println!("{rows} rows"),
    ///     None => println!("done already"),
    /// }
    /// # Ok(())
    /// # }
    /// # async fn write_report(_: i64) -> zklock::Result<u32> { Ok(1) }
    /// ```
    ///
    /// Dropping the future drops the body, leaves the queue or releases the lock, and leaves no node of the queue. Cancel
    /// safe but for one moment: if the future is dropped after the body, while the slot is being recorded, the slot may or
    /// may not be recorded.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) naming `key`, if it is empty, longer than 256 bytes, or contains a
    /// control character; naming `path`, if the lock is in the directory of another lock, or if the record was not written
    /// by this library: the body has not run then.
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) if the record may not be read, before the body runs; or if it may not be
    /// written, after it. [`LockLost`](crate::ErrorKind::LockLost) if the lock is lost before the slot is recorded. Those of
    /// [`acquire`](crate::Lock::acquire), and those of the body.
    pub async fn once<T, E, F>(
        &self,
        key: impl AsRef<str>,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let slot = Slot::key(key.as_ref())?;
        self.once_as(&Owner::new(), &slot, Timeout::Forever, Record::default(), body).await
    }

    /// Like [`once`](Self::once), but waits no longer than `time` for the lock.
    ///
    /// Cancel safe as [`once`](Self::once).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout), and those of [`once`](Self::once).
    pub async fn once_within<T, E, F>(
        &self,
        key: impl AsRef<str>,
        time: Duration,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let slot = Slot::key(key.as_ref())?;
        self.once_as(&Owner::new(), &slot, time, Record::default(), body).await
    }

    /// Like [`once`](Self::once), where the slot is the current period: the body runs at most once in each period of this
    /// length. Periods are counted from the beginning of 1970 by the local clock, so one of a day begins at midnight UTC; the
    /// period that counts is the one in which the lock is acquired.
    ///
    /// Where a clock is behind, it refuses to go back: the body runs only if the current period is later than the recorded
    /// one. A lock has one record: give each period a lock of its own.
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// use std::time::Duration;
    ///
    /// let lock = zklock::Mutex::new(client, "/jobs/clean-up")?;
    /// lock.once_per(Duration::from_secs(3600), |_| clean_up()).await?;
    /// # Ok(())
    /// # }
    /// # async fn clean_up() -> zklock::Result<()> { Ok(()) }
    /// ```
    ///
    /// Cancel safe as [`once`](Self::once).
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument), naming `period`, if it is shorter than a second; those of
    /// [`once`](Self::once).
    pub async fn once_per<T, E, F>(
        &self,
        period: Duration,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let slot = Slot::per(period)?;
        self.once_as(&Owner::new(), &slot, Timeout::Forever, Record::default(), body).await
    }

    /// Like [`once`](Self::once), for `owner`, which may hold the lock already; with a time-out, and a choice of when the
    /// slot is recorded. With [`Timeout::Try`] a lock that is taken is a [`LockTimeout`](crate::ErrorKind::LockTimeout).
    ///
    /// Cancel safe as [`once`](Self::once); with [`Record::Start`] the slot is recorded before the body.
    ///
    /// # Errors
    /// As [`once_within`](Self::once_within). With [`Record::Start`] the slot may be recorded although the outcome is an
    /// error.
    pub async fn once_as<T, E, F>(
        &self,
        owner: &Owner,
        slot: &Slot,
        timeout: impl Into<Timeout>,
        record: Record,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        match turn::begin(self, (owner.id(), owner), slot, timeout.into(), record).await? {
            Some(turn) => turn.run(body).await.map(Some),
            None => Ok(None),
        }
    }
}
