//! Writes to ZooKeeper that succeed only while a lock is held.

use std::fmt;
use std::sync::Weak;

use tokio::sync::oneshot;

use crate::config::lock_path::check_path;
use crate::config::size_limits;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::hold::{Hold, Notice};

/// No node has this version. The server would take -1 for any, which is what a caller without a version leaves out.
pub(crate) fn bad_version(version: impl fmt::Display) -> Error {
    let problem = format!(
        "must be a whole number from 0 to {}, but is {version}; a write or a delete without one takes any version",
        i32::MAX
    );
    Error::bad_argument("version", problem)
}

/// Writes to ZooKeeper that are carried out together, and only if the lock's node exists at that moment. So they need
/// no fencing token: a holder that was paused, and whose lock went to another client, changes nothing.
///
/// Paths are absolute, below the client's chroot. Nodes are created persistent, with the client's access control list.
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
    /// Without operations yet. It does not keep the hold.
    pub(crate) fn new(hold: Weak<Hold>) -> Self {
        Self { hold, operations: Vec::new() }
    }

    /// Creates a node.
    pub fn create(self, path: &str, data: &[u8]) -> Self {
        self.with(WriteOperation::Create { path: path.to_owned(), data: data.to_owned() })
    }

    /// Writes a node's data if its version matches; `None` matches any, and versions begin at 0.
    pub fn set_data(self, path: &str, data: &[u8], version: Option<i32>) -> Self {
        self.with(WriteOperation::SetData { path: path.to_owned(), data: data.to_owned(), version })
    }

    /// Deletes a node if its version matches; `None` matches any.
    pub fn delete(self, path: &str, version: Option<i32>) -> Self {
        self.with(WriteOperation::Delete { path: path.to_owned(), version })
    }

    /// Fails the whole transaction unless a node's version matches.
    pub fn check(self, path: &str, version: i32) -> Self {
        self.with(WriteOperation::Check { path: path.to_owned(), version })
    }

    fn with(mut self, operation: WriteOperation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Carries out all operations, or none. Waits for the server's answer for up to the client's connect time-out.
    ///
    /// Not cancel safe: a transaction whose future is dropped may or may not have been applied.
    ///
    /// # Errors
    /// [`LockLost`](crate::ErrorKind::LockLost) if the lock is no longer held: nothing was written.
    /// [`TransactionFailed`](crate::ErrorKind::TransactionFailed) if one of the operations cannot be carried out, as
    /// the message says: nothing was written. [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if no answer
    /// came: the transaction may or may not have been applied. [`BadArgument`](crate::ErrorKind::BadArgument) for a
    /// malformed path or a negative version, and if all together is more than a server takes, which is a mebibyte; and those of [`Lease::check`](crate::Lease::check).
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
        // After it began: now the node is not handed to another holder.
        hold.check(hold.state())?;
        let (reply, done) = oneshot::channel();
        hold.report(|hold| Notice::Transact { node: hold.node, operations: self.operations, reply })?;
        match done.await {
            Ok(outcome) => {
                // Otherwise it may still be carried out.
                if outcome.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::ConnectionFailed) {
                    hold.end_transaction();
                }
                outcome
            }
            Err(_) => Err(hold.no_answer()),
        }
    }
}

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteOperation {
    Create { path: String, data: Vec<u8> },
    SetData { path: String, data: Vec<u8>, version: Option<i32> },
    Delete { path: String, version: Option<i32> },
    Check { path: String, version: i32 },
}

impl WriteOperation {
    /// The node that it writes.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::SetData { path, .. }
            | Self::Delete { path, .. }
            | Self::Check { path, .. } => path,
        }
    }

    /// The version that it asks for.
    pub(crate) fn version(&self) -> Option<i32> {
        match self {
            Self::Create { .. } => None,
            Self::SetData { version, .. } | Self::Delete { version, .. } => *version,
            Self::Check { version, .. } => Some(*version),
        }
    }

    /// The data that it writes.
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
            // No name of a method: those differ from language to language.
            Self::SetData { .. } => "set the data of",
            Self::Delete { .. } => "delete",
            Self::Check { .. } => "check",
        };
        write!(f, "{verb} {:?}", self.path())
    }
}
