//! Transactions: writes to ZooKeeper that succeed only if a lock is still held.

use std::fmt;
use std::sync::Weak;

use tokio::sync::oneshot;

use crate::config::lock_path::check_path;
use crate::config::size_limits;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::hold::{Hold, Notice};

/// Returns the error for a negative version. The server accepts -1 as any version, but this library
/// requires `None`.
pub(crate) fn bad_version(version: impl fmt::Display) -> Error {
    let problem = format!(
        "must be a whole number from 0 to {}, but is {version}; omit it to write or delete any version",
        i32::MAX
    );
    Error::bad_argument("version", problem)
}

/// A transaction that the server applies only if the lock's node exists at that moment.
///
/// All writes are applied together. If the holder was paused and another client got the lock in the
/// meantime, the transaction changes nothing. So data in ZooKeeper needs no fencing token.
///
/// Paths are absolute, relative to the client's chroot. New nodes are persistent and have the
/// client's access control list.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let lease = zklock::Mutex::new(client, "/locks/report")?.acquire().await?;
/// lease
///     .transaction()
///     .set_data("/reports/latest", b"2026-11", None)
///     .create("/reports/2026-11", b"done")
///     .commit()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is written before `commit`"]
pub struct Transaction {
    hold: Weak<Hold>,
    operations: Vec<WriteOperation>,
}

impl Transaction {
    /// Creates a transaction without operations. The reference is weak, so the lock can be released
    /// in the meantime.
    pub(crate) fn new(hold: Weak<Hold>) -> Self {
        Self { hold, operations: Vec::new() }
    }

    /// Adds an operation that creates a node.
    pub fn create(self, path: &str, data: &[u8]) -> Self {
        self.with(WriteOperation::Create { path: path.to_owned(), data: data.to_owned() })
    }

    /// Adds an operation that writes a node's data, if the node has this version. `None` matches
    /// any version. Versions begin at 0.
    pub fn set_data(self, path: &str, data: &[u8], version: Option<i32>) -> Self {
        self.with(WriteOperation::SetData { path: path.to_owned(), data: data.to_owned(), version })
    }

    /// Adds an operation that deletes a node, if the node has this version. `None` matches any
    /// version.
    pub fn delete(self, path: &str, version: Option<i32>) -> Self {
        self.with(WriteOperation::Delete { path: path.to_owned(), version })
    }

    /// Adds an operation that makes the whole transaction fail unless a node has this version.
    pub fn check(self, path: &str, version: i32) -> Self {
        self.with(WriteOperation::Check { path: path.to_owned(), version })
    }

    fn with(mut self, operation: WriteOperation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Applies all operations, or none of them. Waits for the server's reply for at most the
    /// client's connect timeout.
    ///
    /// Not cancel safe: if the future is dropped, the transaction might or might not be applied.
    ///
    /// # Errors
    /// * [`LockLost`](crate::ErrorKind::LockLost) if the lock is no longer held. Nothing was
    ///   written.
    /// * [`TransactionFailed`](crate::ErrorKind::TransactionFailed) if one of the operations cannot
    ///   be applied. The message names that operation. Nothing was written.
    /// * [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if no reply arrived. The
    ///   transaction might or might not have been applied.
    /// * [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path or a negative version,
    ///   or for a transaction that exceeds the server's maximum request size of about 1 MiB.
    /// * The errors of [`Lease::check`](crate::Lease::check).
    pub async fn commit(self) -> Result<()> {
        for operation in &self.operations {
            check_path("path", operation.path())?;
            size_limits::check("data", operation.data().len(), size_limits::REQUEST)?;
            if let Some(version) = operation.version().filter(|version| *version < 0) {
                return Err(bad_version(version));
            }
        }
        let hold = self.hold.upgrade().ok_or_else(Error::released)?;
        hold.begin_transaction();
        // Check the hold after `begin_transaction`, which stops this client from handing the node
        // to another owner.
        hold.check(hold.state())?;
        let (reply, done) = oneshot::channel();
        hold.report(|hold| Notice::Transact { node: hold.node, operations: self.operations, reply })?;
        match done.await {
            Ok(outcome) => {
                // If the connection failed, the server might still apply the transaction. In this
                // case, the transaction stays counted, so the node is never handed to another
                // owner.
                if outcome.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::ConnectionFailed) {
                    hold.end_transaction();
                }
                outcome
            }
            Err(_) => Err(hold.no_answer()),
        }
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteOperation {
    Create { path: String, data: Vec<u8> },
    SetData { path: String, data: Vec<u8>, version: Option<i32> },
    Delete { path: String, version: Option<i32> },
    Check { path: String, version: i32 },
}

impl WriteOperation {
    /// Returns the path of the operation's node.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::SetData { path, .. }
            | Self::Delete { path, .. }
            | Self::Check { path, .. } => path,
        }
    }

    /// Returns the version that the operation requires.
    pub(crate) fn version(&self) -> Option<i32> {
        match self {
            Self::Create { .. } => None,
            Self::SetData { version, .. } | Self::Delete { version, .. } => *version,
            Self::Check { version, .. } => Some(*version),
        }
    }

    /// Returns the data that the operation writes.
    pub(crate) fn data(&self) -> &[u8] {
        match self {
            Self::Create { data, .. } | Self::SetData { data, .. } => data,
            Self::Delete { .. } | Self::Check { .. } => &[],
        }
    }
}

impl fmt::Display for WriteOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Create { .. } => "create",
            // The method's name differs between the language bindings, so do not print it.
            Self::SetData { .. } => "set the data of",
            Self::Delete { .. } => "delete",
            Self::Check { .. } => "check",
        };
        write!(f, "{verb} {:?}", self.path())
    }
}
