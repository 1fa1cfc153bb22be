//! `zklock.Transaction`.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::errors::Failure;
use crate::pending::Pending;
use crate::wait::block_on;

/// Writes to ZooKeeper that are carried out together, and only while a lock is held.
#[pyclass(frozen, module = "zklock")]
pub(crate) struct Transaction {
    /// None once it was committed.
    inner: Mutex<Option<zklock::Transaction>>,
}

impl Transaction {
    pub(crate) fn new(inner: zklock::Transaction) -> Self {
        Self { inner: Mutex::new(Some(inner)) }
    }

    fn take(&self) -> Result<zklock::Transaction, Failure> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        inner.ok_or_else(|| Failure::bad_argument("transaction: was committed already; begin another"))
    }

    fn with(
        slf: PyRef<'_, Self>,
        add: impl FnOnce(zklock::Transaction) -> zklock::Transaction,
    ) -> Result<PyRef<'_, Self>, Failure> {
        let inner = add(slf.take()?);
        *slf.inner.lock().unwrap_or_else(PoisonError::into_inner) = Some(inner);
        Ok(slf)
    }
}

#[pymethods]
impl Transaction {
    /// Create a node.
    #[pyo3(signature = (path, data=&[] as &[u8]), text_signature = "($self, path, data=b'')")]
    fn create<'py>(slf: PyRef<'py, Self>, path: &str, data: &[u8]) -> Result<PyRef<'py, Self>, Failure> {
        Self::with(slf, |transaction| transaction.create(path, data))
    }

    /// Write a node's data.
    #[pyo3(signature = (path, data, version=None))]
    fn set_data<'py>(
        slf: PyRef<'py, Self>,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> Result<PyRef<'py, Self>, Failure> {
        Self::with(slf, |transaction| transaction.set_data(path, data, version))
    }

    /// Delete a node.
    #[pyo3(signature = (path, version=None))]
    fn delete<'py>(
        slf: PyRef<'py, Self>,
        path: &str,
        version: Option<i32>,
    ) -> Result<PyRef<'py, Self>, Failure> {
        Self::with(slf, |transaction| transaction.delete(path, version))
    }

    /// Have all fail unless a node is of this version.
    fn check<'py>(slf: PyRef<'py, Self>, path: &str, version: i32) -> Result<PyRef<'py, Self>, Failure> {
        Self::with(slf, |transaction| transaction.check(path, version))
    }

    /// Carry all out, or none.
    fn commit(&self, py: Python<'_>) -> Result<(), Failure> {
        Ok(block_on(py, self.take()?.commit())??)
    }
}

/// Begin to carry a transaction out.
#[pyfunction]
pub(crate) fn start_commit(py: Python<'_>, transaction: &Bound<'_, Transaction>) -> Result<Pending, Failure> {
    Pending::start(py, transaction.get().take()?.commit())
}
