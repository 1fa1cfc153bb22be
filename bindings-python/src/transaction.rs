//! `zklock.Transaction`.

use pyo3::prelude::*;
use zklock::internal::{TransactionBuilder, parse_version};

use crate::args::checked::{Data, Integer};
use crate::args::names;
use crate::args::names::Path;
use crate::args::text::Text;
use crate::bridge::block_on::block_on;
use crate::bridge::pending::Pending;
use crate::errors::Result;

/// Writes to ZooKeeper. The servers execute all of them together, and only while the lock's node exists.
///
/// >>> with lock as lease:
/// ...     writes = lease.transaction().set_data("/state", b"done", version=0)
/// ...     writes.create("/report").commit()
///
/// Such writes need no fencing token: if a holder is paused and another client acquires the lock meanwhile,
/// the transaction of the first holder changes nothing. Paths are absolute, below the client's chroot. New
/// nodes are persistent, with the client's access control list. Every method except `commit` returns the
/// transaction.
#[pyclass(frozen, module = "zklock")]
pub(crate) struct Transaction {
    draft: TransactionBuilder,
}

impl Transaction {
    pub(crate) fn new(inner: zklock::Transaction) -> Self {
        Self { draft: TransactionBuilder::new(inner) }
    }

    fn add(
        slf: PyRef<'_, Self>,
        add: impl FnOnce(zklock::Transaction) -> zklock::Transaction,
    ) -> Result<PyRef<'_, Self>> {
        slf.draft.add(add)?;
        Ok(slf)
    }
}

#[pymethods]
impl Transaction {
    /// Create a node.
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().create("/report", b"draft").commit()
    #[pyo3(signature = (path, data=Data(&[])), text_signature = "($self, path, data=b'')")]
    fn create<'py>(slf: PyRef<'py, Self>, path: Text<Path>, data: Data<'_>) -> Result<PyRef<'py, Self>> {
        Self::add(slf, |transaction| transaction.create(&path, data.0))
    }

    /// Write a node's data if its version matches. None matches any version.
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().set_data("/state", b"done", version=0).commit()
    #[pyo3(signature = (path, data, version=None))]
    fn set_data<'py>(
        slf: PyRef<'py, Self>,
        path: Text<Path>,
        data: Data<'_>,
        version: Option<Integer<names::Version>>,
    ) -> Result<PyRef<'py, Self>> {
        let version = version.map(|version| parse_version(version.0)).transpose()?;
        Self::add(slf, |transaction| transaction.set_data(&path, data.0, version))
    }

    /// Delete a node if its version matches. None matches any version.
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().delete("/state").commit()
    #[pyo3(signature = (path, version=None))]
    fn delete(
        slf: PyRef<'_, Self>,
        path: Text<Path>,
        version: Option<Integer<names::Version>>,
    ) -> Result<PyRef<'_, Self>> {
        let version = version.map(|version| parse_version(version.0)).transpose()?;
        Self::add(slf, |transaction| transaction.delete(&path, version))
    }

    /// Make the whole transaction fail unless a node has this version.
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().check("/state", 0).create("/report").commit()
    fn check(
        slf: PyRef<'_, Self>,
        path: Text<Path>,
        version: Integer<names::Version>,
    ) -> Result<PyRef<'_, Self>> {
        let version = parse_version(version.0)?;
        Self::add(slf, |transaction| transaction.check(&path, version))
    }

    /// Execute all operations, or none. Wait for the answer for up to the client's `connect_timeout`.
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().create("/report", b"draft").commit()
    ///
    /// Raise `LockLost` if the lock is no longer held, or `TransactionFailed` if one of the operations cannot
    /// be executed. In both cases nothing was written, and the message gives the reason. Raise
    /// `ConnectionFailed` if no answer arrived. In that case, and if the wait is interrupted, the operations
    /// might or might not have been executed. Raise `NotHeld` after a release, and `BadArgument` for a
    /// malformed path or a second commit.
    fn commit(&self, py: Python<'_>) -> Result<()> {
        Ok(block_on(py, self.draft.take()?.commit())??)
    }
}

/// Start to execute a transaction.
#[pyfunction]
pub(crate) fn start_commit(py: Python<'_>, transaction: &Transaction) -> Result<Pending> {
    Pending::start(py, transaction.draft.take()?.commit())
}
