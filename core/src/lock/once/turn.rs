//! Defines [`Turn`], which runs a body for `Mutex::once`. A `Turn` holds the lock, and exists only
//! if the slot was not yet recorded.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::Record;
use super::Slot;
use super::once_slot::CurrentSlot;
use super::record::{OnceRecord, RecordedBy, VersionedRecord, read_node, record_node};
use crate::client::Client;
use crate::config::lock_path::LockPath;
use crate::config::timeout::Timeout;
use crate::driver::mailbox::Query;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lease::owner::{Owner, OwnerId};
use crate::lock::Lock;
use crate::runtime;

/// Pause before a request that was not answered is sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// The session id in the Stat of a container node.
const CONTAINER: i64 = i64::MIN;

/// One run of a body while the lock is held. Dropping it releases the lock without recording the
/// slot.
#[derive(Debug)]
#[must_use = "dropping a turn releases the lock and records nothing"]
pub struct Turn {
    lease: Arc<Lease>,
    client: Client,
    /// Path of the node with the record.
    node: String,
    slot: CurrentSlot,
    /// Version of the record that was read, or `None` if there was no record.
    version: Option<i32>,
    by: Option<RecordedBy>,
    /// True if the slot was recorded before the body.
    recorded: bool,
}

/// Acquires the lock and reads its record. With [`Record::Start`], also records the slot.
///
/// If the slot was already recorded, releases the lock and returns `None`. `owner` contains the
/// owner's id, and the owner to show in messages and to other contenders.
pub(crate) async fn begin(
    lock: &Lock,
    owner: (OwnerId, &Owner),
    slot: &Slot,
    timeout: Timeout,
    record: Record,
) -> Result<Option<Turn>> {
    // Disable `linger`. If the node were kept, a late transaction of this run could succeed while
    // the next holder has the lock.
    let lock = lock.without_linger();
    let lease = Arc::new(lock.acquire_for(owner, timeout).await?);
    let client = lock.resolve()?.client.clone();
    let options = client.options();
    let by = options.identify.then(|| RecordedBy::this_process(lock.label(options)));
    let node = record_node(lock.path());
    // Use the current period, not the period in which the caller began to wait for the lock.
    let mut turn = Turn { lease, client, node, slot: slot.now(), version: None, by, recorded: false };
    let found = turn.read_once_held().await?;
    if found.as_ref().is_some_and(|found| found.record.covers(&turn.slot)) {
        turn.lease.release().await.ok();
        return Ok(None);
    }
    if found.is_none() {
        turn.check_parent().await?;
    }
    turn.version = found.map(|found| found.version);
    if record == Record::Start {
        turn.write().await?;
        turn.recorded = true;
    }
    Ok(Some(turn))
}

impl Turn {
    /// Returns the lease that is held while the body runs. Only this `Turn` may release it.
    #[must_use]
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Returns the slot's key, or the number of the period.
    #[must_use]
    pub fn slot(&self) -> &str {
        &self.slot.name
    }

    /// Records the slot unless it is already recorded, and releases the lock.
    ///
    /// Not cancel safe: if the future is dropped, the slot might or might not be recorded. The lock
    /// is released in any case.
    ///
    /// # Errors
    /// Same as [`Mutex::once_as`](crate::Mutex::once_as). The lock is released in any case.
    pub async fn record(self) -> Result<()> {
        if !self.recorded {
            let written = self.write().await;
            self.lease.release().await.ok();
            return written;
        }
        // Return an error if the lock was lost in the meantime. Also check after the release,
        // because only the release reveals some losses.
        let lost = || self.lease.check().err().filter(|error| error.kind() == ErrorKind::LockLost);
        let before = lost();
        self.lease.release().await.ok();
        before.or_else(lost).map_or(Ok(()), Err)
    }

    /// Releases the lock and records nothing.
    ///
    /// Cancel safe: if the future is dropped, the release continues in the background.
    ///
    /// # Errors
    /// The same as for [`Lease::release`].
    pub async fn abandon(self) -> Result<()> {
        self.lease.release().await
    }

    /// Runs the body, and records the slot if the body succeeds. If the lock is lost, the body is
    /// dropped.
    pub(super) async fn run<T, E, F>(self, body: impl FnOnce(Arc<Lease>) -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let lost = self.lease.lost();
        let outcome = tokio::select! {
            biased;
            _ = lost => return Err(self.loss().into()),
            outcome = body(Arc::clone(&self.lease)) => outcome,
        };
        match outcome {
            Ok(value) => self.record().await.map(|()| value).map_err(E::from),
            Err(error) => {
                self.abandon().await.ok();
                Err(error)
            }
        }
    }

    /// Returns the error that says why the lock is no longer held.
    fn loss(&self) -> Error {
        self.lease.check().err().unwrap_or_else(Error::released)
    }

    /// Reads the record after the grant.
    ///
    /// A read alone might reach a server that lags behind the leader. So a check of the lock's node
    /// is sent before the read. ZooKeeper treats the check as a write, so a majority of the servers
    /// must accept it, after all writes of earlier holders. The server answers the read after the
    /// check, so the answer includes those writes.
    async fn read_once_held(&self) -> Result<Option<VersionedRecord>> {
        let read = async || {
            // Send both requests together, in this order.
            let (held, found) = tokio::join!(
                biased;
                self.lease.transaction().commit(),
                read_node(&self.client, &self.node)
            );
            held.and(found)
        };
        self.while_held(read).await
    }

    /// Reads the record after the server has caught up with the leader. This is necessary if no
    /// reply to a write arrived.
    async fn read_behind_sync(&self) -> Result<Option<VersionedRecord>> {
        let node = self.client.full(&self.node)?;
        self.client.ask_again(&self.node, |reply| Query::Exists { node: Arc::clone(&node), reply }).await?;
        read_node(&self.client, &self.node).await
    }

    /// Repeats a request until a reply arrives. Stops if the lock is lost.
    async fn while_held<T, F>(&self, ask: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = async {
            loop {
                match ask().await {
                    Err(error) if error.kind() == ErrorKind::ConnectionFailed => {
                        runtime::sleep(PAUSE).await?;
                    }
                    answer => return answer,
                }
            }
        };
        tokio::select! {
            biased;
            _ = self.lease.lost() => Err(self.loss()),
            answer = answer => answer,
        }
    }

    /// Rejects a lock whose record would be stored in the directory of another lock. Some client
    /// libraries fail if such a directory has a child without a sequence number.
    async fn check_parent(&self) -> Result<()> {
        let Some((parent, _)) = self.lease.path().rsplit_once('/').filter(|(parent, _)| !parent.is_empty())
        else {
            return Ok(());
        };
        let place = LockPath::of_directory(&self.client.address().chroot, parent, "")?;
        let first = || {
            let place = || place.clone();
            self.client.ask_again(parent, move |reply| Query::First { place: place(), watch: false, reply })
        };
        let first = self.while_held(first).await?;
        match first.contender {
            // A node that is persistent or a container is not a contender, even if its name ends
            // with ten digits.
            Some(contender) if !matches!(contender.session_id, 0 | CONTAINER) => {
                let problem = format!(
                    "{path:?} is in the directory of another lock: the record {node:?} would be among the \
                     contenders for {parent:?}, where other clients might fail to parse it; use a path outside \
                     that directory",
                    path = self.lease.path(),
                    node = self.node,
                );
                Err(Error::bad_argument("path", problem))
            }
            _ => Ok(()),
        }
    }

    /// Records the slot. One transaction writes the record and checks that the lock's node exists,
    /// so a former holder cannot write the record.
    ///
    /// The transaction also checks the version of the record. If the reply to an earlier attempt
    /// was lost, this check prevents the server from applying that attempt later.
    async fn write(&self) -> Result<()> {
        let record = OnceRecord::new(&self.slot, self.by.clone(), self.lease.fencing_token());
        let data = record.encode();
        let (mut version, mut in_doubt) = (self.version, false);
        loop {
            let transaction = self.lease.transaction();
            let transaction = match version {
                None => transaction.create(&self.node, &data),
                version => transaction.set_data(&self.node, &data, version),
            };
            let Err(error) = transaction.commit().await else { return Ok(()) };
            match error.kind() {
                ErrorKind::ConnectionFailed => in_doubt = true,
                ErrorKind::TransactionFailed if error.is_denied() => return Err(self.not_permitted()),
                ErrorKind::TransactionFailed => {}
                // An earlier attempt might have succeeded, although its reply was lost.
                _ if in_doubt => {
                    let found = self.read_behind_sync().await;
                    let ours =
                        found.is_ok_and(|found| found.is_some_and(|found| self.is_ours(&found.record)));
                    return if ours { Ok(()) } else { Err(error) };
                }
                _ => return Err(error),
            }
            match self.read_behind_sync().await {
                Ok(Some(found)) if self.is_ours(&found.record) => return Ok(()),
                Ok(Some(found)) if found.record.covers(&self.slot) => {
                    return Err(self.overtaken(&found.record));
                }
                Ok(found) => {
                    let found = found.map(|found| found.version);
                    if error.kind() == ErrorKind::TransactionFailed && found == version {
                        return Err(error);
                    }
                    version = found;
                }
                Err(error) if error.kind() == ErrorKind::ConnectionFailed => runtime::sleep(PAUSE).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns `true` if this run wrote the record. The fencing token shows this, because no other
    /// node has the same token.
    fn is_ours(&self, record: &OnceRecord) -> bool {
        record.fencing_token == self.lease.fencing_token()
            && (&record.slot, record.period) == (&self.slot.name, self.slot.period)
    }

    fn not_permitted(&self) -> Error {
        let message = format!(
            "not permitted to write the record {:?}; check the access control lists and the client's credentials",
            self.node
        );
        Error::new(ErrorKind::AuthFailed, message)
    }

    /// Returns the error for a slot that another holder recorded in the meantime. Its record shows
    /// that this run had already lost the lock.
    fn overtaken(&self, record: &OnceRecord) -> Error {
        self.lease.check().err().unwrap_or_else(|| {
            let message = format!(
                "another holder recorded slot {:?} in {:?} at {}, so the lock was lost; nothing was written",
                record.slot, self.node, record.at
            );
            Error::lost(LossReason::NodeDeleted, message)
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Release explicitly, because the body can have passed the lease to a task that still runs.
        self.lease.release_in_background().ok();
    }
}
