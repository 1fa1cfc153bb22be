//! What `Lock.hold()` returns.

use pyo3::prelude::*;

use crate::errors::Failure;
use crate::lease::Lease;
use crate::lock::Lock;

/// A context manager that acquires on entry and releases on exit. May be entered again.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Hold {
    lock: Py<Lock>,
    patience: zklock::Patience,
}

impl Hold {
    pub(crate) fn new(lock: Py<Lock>, patience: zklock::Patience) -> Self {
        Self { lock, patience }
    }
}

#[pymethods]
impl Hold {
    fn __enter__(&self, py: Python<'_>) -> Result<Py<Lease>, Failure> {
        self.lock.get().enter(py, self.patience)
    }

    #[pyo3(signature = (_kind=None, value=None, _trace=None), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.lock.get().exit(py, value)
    }
}
