//! `zklock.Mutex`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use zklock::ErrorKind;

use crate::arguments::{Owner, Patience, Source, mutex_options, patience, this_thread};
use crate::errors::Failure;
use crate::hold::Hold;
use crate::lease::Lease;
use crate::leases::Leases;
use crate::pending::Pending;
use crate::wait::block_on;

/// A fair, reentrant, exclusive lock.
#[pyclass(frozen, weakref, module = "zklock")]
pub(crate) struct Mutex {
    // Shared with the acquires of asyncio, which outlive the call that starts them.
    inner: Arc<zklock::Mutex>,
    /// What `release()` undoes.
    levels: Leases,
    /// What the ends of `with` blocks undo.
    scopes: Leases,
}

impl Mutex {
    /// Acquires a level for the calling thread.
    fn take(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<Lease>, Failure> {
        let inner = block_on(py, self.inner.acquire_as(this_thread(), patience))??;
        let lease = Py::new(py, Lease { inner })?;
        self.levels.push(lease.clone_ref(py));
        Ok(lease)
    }

    /// Begins a scope.
    pub(crate) fn enter(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<Lease>, Failure> {
        let lease = self.take(py, patience)?;
        self.scopes.push(lease.clone_ref(py));
        Ok(lease)
    }

    /// Ends a scope: the newest of the calling thread.
    pub(crate) fn exit(&self, py: Python<'_>) -> PyResult<()> {
        let Some(lease) = self.scopes.pop(this_thread()) else { return Ok(()) };
        self.levels.remove(&lease);
        lease.get().release_quietly(py)
    }
}

#[pymethods]
impl Mutex {
    #[new]
    #[pyo3(
        signature = (client, path, *, label=None, naming="curator"),
        text_signature = "(client, path, *, label=None, naming='curator')"
    )]
    fn new(client: Source, path: &str, label: Option<String>, naming: &str) -> Result<Self, Failure> {
        let inner = zklock::Mutex::with_options(client.0, path, mutex_options(label, naming)?)?;
        Ok(Self { inner: Arc::new(inner), levels: Leases::default(), scopes: Leases::default() })
    }

    /// The lock path.
    #[getter]
    fn path(&self) -> &str {
        self.inner.path()
    }

    /// The calling thread's newest lease of this object, or None.
    #[getter]
    fn lease(&self, py: Python<'_>) -> Option<Py<Lease>> {
        self.levels.newest(py, this_thread())
    }

    /// Acquire the lock; False if it was not acquired in time.
    #[pyo3(
        signature = (blocking=true, timeout=-1.0),
        text_signature = "($self, blocking=True, timeout=-1)"
    )]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> Result<bool, Failure> {
        match self.take(py, patience(blocking, timeout)?) {
            Ok(_) => Ok(true),
            Err(Failure::Zklock(ErrorKind::LockTimeout, _)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Undo the calling thread's newest acquire.
    #[pyo3(signature = (wait=true), text_signature = "($self, wait=True)")]
    fn release(&self, py: Python<'_>, wait: bool) -> Result<(), Failure> {
        let owner = this_thread();
        if let Some(lease) = self.levels.newest(py, owner) {
            self.levels.remove(&lease);
            return lease.get().release(py, wait);
        }
        // In a forked child it is not the caller who is wrong.
        self.inner.owned_by(owner)?;
        let message = format!("this thread has not acquired {} through this object", self.inner.path());
        Err(Failure::Zklock(ErrorKind::NotHeld, message))
    }

    /// Whether the calling thread holds the lock. Sends nothing.
    #[pyo3(text_signature = "($self)")]
    fn owned(&self) -> Result<bool, Failure> {
        Ok(self.inner.owned_by(this_thread())?)
    }

    /// A context manager that acquires within a time-out, or raises `LockTimeout`.
    #[pyo3(signature = (timeout=-1.0), text_signature = "($self, timeout=-1)")]
    fn hold(slf: Py<Self>, timeout: Option<f64>) -> Result<Hold, Failure> {
        Ok(Hold::new(slf, patience(true, timeout)?))
    }

    fn __enter__(&self, py: Python<'_>) -> Result<Py<Lease>, Failure> {
        self.enter(py, zklock::Patience::Forever)
    }

    #[pyo3(signature = (*_exception), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.exit(py)
    }

    fn __repr__(&self) -> String {
        format!("<zklock.Mutex {}>", self.inner.path())
    }
}

/// Begin to acquire for `owner`.
#[pyfunction]
pub(crate) fn start_acquire(
    py: Python<'_>,
    mutex: &Bound<'_, Mutex>,
    owner: &Bound<'_, Owner>,
    patience: &Bound<'_, Patience>,
) -> Result<Pending, Failure> {
    let mutex = Arc::clone(&mutex.get().inner);
    let (owner, patience) = (owner.get().0, patience.get().0);
    Pending::start(py, async move { mutex.acquire_as(owner, patience).await.map(Some) })
}

/// Whether `owner` holds the lock.
#[pyfunction]
pub(crate) fn owned_by(mutex: &Bound<'_, Mutex>, owner: &Bound<'_, Owner>) -> Result<bool, Failure> {
    Ok(mutex.get().inner.owned_by(owner.get().0)?)
}
