//! `zklock.Leases`.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};
use zklock::ErrorKind;
use zklock::binding::error;

use crate::errors::Failure;
use crate::lease::{Lease, after_scope};
use crate::levels::Level;
use crate::pending::IntoPython;
use crate::wait::block_on;

/// The leases of one acquire of several locks or permits, in the order in which they were taken.
///
/// >>> with semaphore.acquire_many(3) as leases:
/// ...     len(leases)
/// 3
///
/// Each may be released on its own. The end of a `with` block releases those that were not, and raises
/// `LockLost` if one was lost. Leases that nothing refers to any more are released.
#[pyclass(frozen, sequence, weakref, module = "zklock")]
pub(crate) struct Leases(Vec<Py<Lease>>);

impl IntoPython for zklock::Leases {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Leases::new(py, self)?.into_py_any(py)
    }
}

impl Leases {
    pub(crate) fn new(py: Python<'_>, leases: zklock::Leases) -> PyResult<Self> {
        leases.into_iter().map(|inner| Py::new(py, Lease { inner })).collect::<PyResult<_>>().map(Self)
    }

    /// Ends a scope: releases all, and then raises the first loss as the scope of a single lease does.
    pub(crate) fn leave_scope(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let loss = self.0.iter().find_map(|lease| lease.get().loss());
        match self.release(py, true) {
            Ok(()) | Err(Failure::Zklock(_)) => {}
            Err(Failure::Python(error)) => return Err(error),
        }
        after_scope(py, loss, raised)
    }
}

impl Level for Leases {
    fn is_open(&self) -> bool {
        self.0.iter().any(|lease| lease.get().is_open())
    }

    fn is_held(&self) -> bool {
        self.0.iter().all(|lease| lease.get().is_held())
    }
}

#[pymethods]
impl Leases {
    /// Return if all locks are held. Sends nothing.
    ///
    /// >>> with semaphore.acquire_many(3) as leases:
    /// ...     leases.check()
    ///
    /// Raises `LockLost`, or `NotHeld` after the release of one.
    fn check(&self) -> Result<(), Failure> {
        self.0.iter().try_for_each(|lease| Ok(lease.get().inner.check()?))
    }

    /// Release those that were not yet released, the last one first, from any thread.
    ///
    /// >>> leases = semaphore.acquire_many(3)
    /// >>> leases.release()
    ///
    /// See `Lease.release`. Raises `NotHeld` if all were released already.
    #[pyo3(signature = (wait=true))]
    pub(crate) fn release(&self, py: Python<'_>, wait: bool) -> Result<(), Failure> {
        // All are on their way before the first is waited for.
        let mut released = Vec::new();
        let open = self.0.iter().rev().map(Py::get).filter(|lease| lease.is_open());
        for lease in open {
            released.push(lease.inner.release());
        }
        if released.is_empty() {
            // In a forked child it is not the caller who is wrong.
            self.check()?;
            return Err(error(ErrorKind::NotHeld, "these leases have been released already").into());
        }
        for released in released.into_iter().take_while(|_| wait) {
            block_on(py, released)??;
        }
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<Lease>> {
        let from_end = if index < 0 { self.0.len() } else { 0 };
        let lease = from_end.checked_add_signed(index).and_then(|at| self.0.get(at));
        lease.map(|lease| lease.clone_ref(py)).ok_or_else(|| PyIndexError::new_err("no such lease"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyTuple::new(py, self.0.iter())?.try_iter()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (_kind=None, value=None, _trace=None), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.leave_scope(py, value)
    }

    fn __repr__(&self) -> String {
        let paths: Vec<_> = self.0.iter().map(|lease| lease.get().inner.path()).collect();
        format!("<zklock.Leases {}>", paths.join(", "))
    }
}
