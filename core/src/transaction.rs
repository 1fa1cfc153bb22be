//! Writes to ZooKeeper that succeed only while a lock is held.

use std::fmt;

use crate::error::Result;
use crate::lease::Guard;
use crate::path::check_path;

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create { path: String, data: Vec<u8> },
    SetData { path: String, data: Vec<u8>, version: Option<i32> },
    Delete { path: String, version: Option<i32> },
    Check { path: String, version: i32 },
}

impl Operation {
    /// What it writes to.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::SetData { path, .. }
            | Self::Delete { path, .. }
            | Self::Check { path, .. } => path,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Create { .. } => "create",
            Self::SetData { .. } => "set_data",
            Self::Delete { .. } => "delete",
            Self::Check { .. } => "check",
        };
        write!(f, "{verb} {}", self.path())
    }
}

/// Writes to ZooKeeper that are carried out together, and only if the lock's node stands at that moment. So they need no
/// fencing token: a holder that was paused, and whose lock went to somebody else, changes nothing.
///
/// Paths are absolute, below the client's chroot. Nodes are created persistent, with the client's access control list.
#[derive(Debug)]
#[must_use = "nothing is written before `commit`"]
pub struct Transaction {
    guard: Guard,
    operations: Vec<Operation>,
}

impl Transaction {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard, operations: Vec::new() }
    }

    /// Creates a node.
    pub fn create(self, path: &str, data: &[u8]) -> Self {
        self.with(Operation::Create { path: path.to_owned(), data: data.to_owned() })
    }

    /// Writes a node's data, if it is of this version; of any, without.
    pub fn set_data(self, path: &str, data: &[u8], version: Option<i32>) -> Self {
        self.with(Operation::SetData { path: path.to_owned(), data: data.to_owned(), version })
    }

    /// Deletes a node, if it is of this version; of any, without.
    pub fn delete(self, path: &str, version: Option<i32>) -> Self {
        self.with(Operation::Delete { path: path.to_owned(), version })
    }

    /// Has the whole transaction fail unless a node is of this version.
    pub fn check(self, path: &str, version: i32) -> Self {
        self.with(Operation::Check { path: path.to_owned(), version })
    }

    fn with(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Carries all out, or none. Waits for the server's answer for up to the client's connect time-out.
    ///
    /// Not cancel safe: a transaction whose future is dropped may have been carried out or not.
    ///
    /// # Errors
    /// [`LockLost`](crate::ErrorKind::LockLost) if the lock is not held any more: nothing was written.
    /// [`TransactionFailed`](crate::ErrorKind::TransactionFailed) if one of the operations cannot be carried out, as the
    /// message says: nothing was written.
    /// [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if no answer came: nobody knows whether it was written.
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, and those of
    /// [`Lease::check`](crate::Lease::check).
    pub async fn commit(self) -> Result<()> {
        for operation in &self.operations {
            check_path("path", operation.path())?;
        }
        self.guard.transact(self.operations).await
    }
}
