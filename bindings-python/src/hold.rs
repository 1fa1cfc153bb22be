//! What the locks' `hold()` returns.

use pyo3::prelude::*;

use crate::errors::Failure;

/// What can be held for the length of a `with` block.
pub(crate) trait Scope: Send + Sync {
    /// Acquires it; returns the lease, or the leases.
    fn enter(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<PyAny>, Failure>;

    /// Releases the calling thread's newest.
    fn exit(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()>;
}

/// What the locks' `hold()` returns. May be entered again.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Hold {
    lock: Box<dyn Scope>,
    patience: zklock::Patience,
}

impl Hold {
    pub(crate) fn new(lock: impl Scope + 'static, patience: zklock::Patience) -> Self {
        Self { lock: Box::new(lock), patience }
    }
}

#[pymethods]
impl Hold {
    fn __enter__(&self, py: Python<'_>) -> Result<Py<PyAny>, Failure> {
        self.lock.enter(py, self.patience)
    }

    #[pyo3(signature = (_kind=None, value=None, _trace=None), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.lock.exit(py, value)
    }
}
