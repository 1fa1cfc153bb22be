//! `zklock.MultiLock`.

use std::sync::Arc;

use pyo3::prelude::*;
use zklock::ErrorKind;
use zklock::binding::error;

use crate::arguments::{Owner, Patience, patience, this_thread};
use crate::errors::Failure;
use crate::hold::{Hold, Scope};
use crate::leases::Leases;
use crate::levels::Levels;
use crate::lock::Lock;
use crate::pending::Pending;
use crate::wait::block_on;

/// Several locks as one: all are acquired, or none.
///
/// >>> with zklock.MultiLock([lock, catalogue.write_lock]) as leases:
/// ...     len(leases)
/// 2
///
/// Any kinds may be mixed. They are taken in one order that all zklock programs share: by ensemble,
/// then by path from the root; so two of them cannot wait for each other. A lock that is named twice is
/// taken once; of a read/write lock the write half is taken before the read half. The time-out is one
/// for all. If one cannot be acquired, those before it are released; if one is lost while another is
/// waited for, all are released and acquired anew.
///
/// The owner is the thread, as of its locks. Acquiring is refused with `BadArgument` for an owner that
/// holds one of the locks but not one that comes before it: taking that now would break the order.
///
/// Raises `BadArgument` for no locks; for one path through two clients, or as locks of two kinds; and
/// for a lock named twice that does not re-enter.
#[pyclass(frozen, weakref, module = "zklock")]
pub(crate) struct MultiLock {
    inner: Arc<zklock::MultiLock>,
    /// What `release()` undoes.
    levels: Levels<Leases>,
    /// What the ends of `with` blocks undo.
    scopes: Levels<Leases>,
}

impl MultiLock {
    /// Acquires a level for the calling thread.
    fn take(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<Leases>, Failure> {
        let owner = this_thread();
        let leases = block_on(py, self.inner.acquire_as(owner, patience))??;
        let leases = Py::new(py, Leases::new(py, leases)?)?;
        self.levels.push(owner, leases.clone_ref(py));
        Ok(leases)
    }

    fn enter(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<Leases>, Failure> {
        let leases = self.take(py, patience)?;
        self.scopes.push(this_thread(), leases.clone_ref(py));
        Ok(leases)
    }

    fn exit(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(leases) = self.scopes.pop(this_thread()) else { return Ok(()) };
        self.levels.remove(&leases);
        leases.get().leave_scope(py, raised)
    }
}

impl Scope for Py<MultiLock> {
    fn enter(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<PyAny>, Failure> {
        Ok(self.get().enter(py, patience)?.into_any())
    }

    fn exit(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.get().exit(py, raised)
    }
}

#[pymethods]
impl MultiLock {
    #[new]
    #[pyo3(signature = (locks))]
    fn new(locks: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let mut members = Vec::new();
        for lock in locks.try_iter()? {
            members.push(lock?.cast_into::<Lock>().map_err(PyErr::from)?.get().any());
        }
        let inner = Arc::new(zklock::MultiLock::new(members)?);
        Ok(Self { inner, levels: Levels::default(), scopes: Levels::default() })
    }

    /// The locks' paths, in the order in which they are taken.
    #[getter]
    fn paths(&self) -> Vec<&str> {
        self.inner.locks().iter().map(zklock::AnyLock::path).collect()
    }

    /// The calling thread's newest leases of this object that were not released, or None.
    #[getter]
    fn leases(&self, py: Python<'_>) -> Option<Py<Leases>> {
        self.levels.newest(py, Some(this_thread()))
    }

    /// Acquire all for the calling thread; False if not all were acquired in time. See `Lock.acquire`.
    ///
    /// >>> both = zklock.MultiLock([lock, catalogue.write_lock])
    /// >>> if both.acquire(timeout=5):
    /// ...     both.release()
    #[pyo3(
        signature = (blocking=true, timeout=-1.0),
        text_signature = "($self, blocking=True, timeout=-1)"
    )]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> Result<bool, Failure> {
        match self.take(py, patience(blocking, timeout)?) {
            Ok(_) => Ok(true),
            Err(Failure::Zklock(error)) if error.kind() == ErrorKind::LockTimeout => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Undo the calling thread's newest acquire of this object. See `Leases.release`.
    ///
    /// >>> both = zklock.MultiLock([lock, catalogue.write_lock])
    /// >>> if both.acquire(blocking=False):
    /// ...     both.release()
    ///
    /// Raises `NotHeld` if there is none.
    #[pyo3(signature = (wait=true))]
    fn release(&self, py: Python<'_>, wait: bool) -> Result<(), Failure> {
        let owner = this_thread();
        if let Some(leases) = self.levels.newest(py, Some(owner)) {
            self.levels.remove(&leases);
            return leases.get().release(py, wait);
        }
        // In a forked child it is not the caller who is wrong.
        for lock in self.inner.locks() {
            lock.owned_by(owner)?;
        }
        let message = "this thread has not acquired these locks through this object";
        Err(error(ErrorKind::NotHeld, message).into())
    }

    /// A context manager that acquires all within `timeout` seconds, or raises `LockTimeout`.
    ///
    /// >>> with zklock.MultiLock([lock, catalogue.write_lock]).hold(timeout=5) as leases:
    /// ...     len(leases)
    /// 2
    #[pyo3(signature = (timeout=-1.0), text_signature = "($self, timeout=-1)")]
    fn hold(slf: Py<Self>, timeout: Option<f64>) -> Result<Hold, Failure> {
        Ok(Hold::new(slf, patience(true, timeout)?))
    }

    fn __enter__(&self, py: Python<'_>) -> Result<Py<Leases>, Failure> {
        self.enter(py, zklock::Patience::Forever)
    }

    #[pyo3(signature = (_kind=None, value=None, _trace=None), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.exit(py, value)
    }

    fn __repr__(&self) -> String {
        format!("<zklock.MultiLock {}>", self.paths().join(", "))
    }
}

/// Begin to acquire all for `owner`.
#[pyfunction]
pub(crate) fn start_acquire_all(
    py: Python<'_>,
    lock: &Bound<'_, MultiLock>,
    owner: &Bound<'_, Owner>,
    patience: &Bound<'_, Patience>,
) -> Result<Pending, Failure> {
    let lock = Arc::clone(&lock.get().inner);
    let (owner, patience) = (owner.get().0, patience.get().0);
    Pending::start(py, async move { lock.acquire_as(owner, patience).await })
}
