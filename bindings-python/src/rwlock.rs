//! `zklock.ReadWriteLock`.

use pyo3::prelude::*;

use crate::arguments::lock_options;
use crate::errors::Failure;
use crate::lock::Lock;
use crate::source::Source;

/// A fair, reentrant read/write lock.
///
///     lock = zklock.ReadWriteLock(client, "/locks/catalogue")
///     with lock.read_lock: ...
///     with lock.write_lock: ...
#[pyclass(frozen, weakref, module = "zklock")]
pub(crate) struct ReadWriteLock {
    read_lock: Py<Lock>,
    write_lock: Py<Lock>,
}

#[pymethods]
impl ReadWriteLock {
    #[new]
    #[pyo3(
        signature = (client, path, *, label=None, naming="curator")
    )]
    fn new(
        py: Python<'_>,
        client: Source,
        path: &str,
        label: Option<String>,
        naming: &str,
    ) -> Result<Self, Failure> {
        let inner = zklock::ReadWriteLock::with_options(client.0, path, lock_options(label, naming)?)?;
        let read_lock = Py::new(py, Lock::new(inner.read_lock, "ReadWriteLock.read_lock"))?;
        Ok(Self {
            read_lock,
            write_lock: Py::new(py, Lock::new(inner.write_lock, "ReadWriteLock.write_lock"))?,
        })
    }

    /// The lock path.
    #[getter]
    fn path(&self) -> &str {
        self.read_lock.get().path()
    }

    /// The half that is held together with other readers.
    #[getter]
    fn read_lock(&self, py: Python<'_>) -> Py<Lock> {
        self.read_lock.clone_ref(py)
    }

    /// The half that is held alone.
    #[getter]
    fn write_lock(&self, py: Python<'_>) -> Py<Lock> {
        self.write_lock.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("<zklock.ReadWriteLock {}>", self.read_lock.get().path())
    }
}
