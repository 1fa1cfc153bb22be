//! A body that runs once per slot among all processes.

pub(crate) mod once_slot;
pub(crate) mod record;
pub(crate) mod turn;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use self::once_slot::OnceSlot as Slot;
use crate::config::timeout::Timeout;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lease::owner::Owner;
use crate::lock::mutex::Mutex;

/// The moment at which [`Mutex::once_as`] records the run of a body.
///
/// ```
/// assert_eq!(zklock::Record::default(), zklock::Record::AfterBody);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// After the body succeeds. If a body crashes, it can run again.
    #[default]
    AfterBody,
    /// Before the body begins. The body runs at most once, even if it crashes or fails.
    Start,
}

impl Mutex {
    /// Runs `body` under the lock, unless a run with this `key` is already recorded.
    ///
    /// After the body, the run is recorded under its key (the *slot*), and the lock is released.
    /// Returns the value of the body, or `None` if the slot was already recorded.
    ///
    /// A body that crashes before its slot is recorded can run again. The record contains only the
    /// last slot, so the body runs three times for the keys A, B, A. Therefore, do not use keys as
    /// idempotency keys. [`once_per`](Self::once_per) is stricter: it also rejects all earlier
    /// slots.
    ///
    /// The record of the last slot is a node next to the lock directory, with `.once` appended to
    /// the lock's path. One transaction writes the record and checks the lock's node, so a holder
    /// that has lost the lock cannot record a slot. If the body fails, nothing is recorded. If the
    /// lock is lost while the body runs, the body is dropped at its next await point, nothing is
    /// recorded, and the call fails with [`LockLost`](crate::ErrorKind::LockLost). The body must
    /// not release the lease.
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
    /// Cancel safe, except after the body has completed. Dropping the future drops the body, and
    /// leaves the queue or releases the lock. No node remains in the queue. If the future is
    /// dropped after the body has completed, the slot might or might not be recorded.
    ///
    /// # Errors
    /// * [`BadArgument`](crate::ErrorKind::BadArgument) with the argument `key` if the key is
    ///   empty, longer than 256 bytes, or contains a control character.
    /// * [`BadArgument`](crate::ErrorKind::BadArgument) with the argument `path` if the lock is in
    ///   the directory of another lock, or if the record was not written by this library. The body
    ///   has not run.
    /// * [`AuthFailed`](crate::ErrorKind::AuthFailed) before the body runs if the client has no
    ///   permission to read the record, or after the body if it has no permission to write the
    ///   record.
    /// * [`LockLost`](crate::ErrorKind::LockLost) if the lock is lost before the slot is recorded.
    /// * The errors of [`acquire`](crate::Lock::acquire), and those of the body.
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

    /// Runs `body` like [`once`](Self::once), but waits for the lock for at most `time`.
    ///
    /// Cancel safe like [`once`](Self::once).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout) after `time`, and the errors of
    /// [`once`](Self::once).
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

    /// Runs `body` like [`once`](Self::once), with the current period as the slot. Each period is
    /// recorded only once.
    ///
    /// Periods of length `period` are counted from the beginning of 1970 by the local clock. For
    /// example, a period of one day begins at midnight UTC. The slot is the period in which the
    /// lock is acquired.
    ///
    /// The body runs only if the current period is later than the recorded one, so a machine whose
    /// clock is behind does not cause a second run. A lock has one record, so use a separate lock
    /// for each length of period.
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
    /// Cancel safe like [`once`](Self::once).
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) with the argument `period` if it is shorter
    /// than a second, and the errors of [`once`](Self::once).
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

    /// Runs `body` like [`once`](Self::once), but with an owner, a timeout, and a choice of when
    /// the slot is recorded.
    ///
    /// The owner can already hold the lock. With [`Timeout::Try`], the call fails with
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout) if the lock is taken.
    ///
    /// Cancel safe like [`once`](Self::once). With [`Record::Start`], the slot is recorded before
    /// the body begins, so the slot can be recorded even if the future is dropped.
    ///
    /// # Errors
    /// The same as for [`once_within`](Self::once_within). With [`Record::Start`], the slot can be
    /// recorded even if the call returns an error.
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
