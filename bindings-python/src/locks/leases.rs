//! `zklock.Leases`.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};
use zklock::internal::{Escaped, collectable_all};

use crate::bridge::pending::IntoPython;
use crate::locks::acquire::raised;
use crate::locks::acquired::Level;
use crate::locks::lease::Lease;

type Shared = zklock::Leases<Arc<zklock::Lease>>;

/// The leases that an acquire of several locks or permits returns, in the order of acquisition.
///
/// >>> with semaphore.acquire_many(3) as leases:
/// ...     len(leases)
/// 3
///
/// Each lease can be released separately. The end of a `with` block releases the remaining ones, and raises
/// `LockLost` if one was lost. Leases without references are released, with a `ResourceWarning`.
#[pyclass(frozen, sequence, weakref, extends = Level, module = "zklock")]
pub(crate) struct Leases {
    inner: Arc<Shared>,
    leases: Py<PyTuple>,
}

impl IntoPython for zklock::Leases {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let inner = Arc::new(collectable_all(self).into_arcs());
        let leases = inner.iter().map(|lease| Lease::new(py, Arc::clone(lease)));
        let leases = PyTuple::new(py, leases.collect::<PyResult<Vec<_>>>()?)?.unbind();
        let level = PyClassInitializer::from(Level(Arc::clone(&inner) as _));
        Py::new(py, level.add_subclass(Leases { inner, leases }))?.into_py_any(py)
    }
}

#[pymethods]
impl Leases {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.leases.bind(py).len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        self.leases.bind(py).as_any().get_item(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.leases.bind(py).try_iter()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*exception), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(slf: &Bound<'_, Self>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        slf.as_super().get().leave_scope(slf.py(), raised(exception).as_ref())
    }

    fn __repr__(&self) -> String {
        let paths: Vec<_> = self.inner.iter().map(|lease| Escaped(lease.path()).to_string()).collect();
        format!("<zklock.Leases {}>", paths.join(", "))
    }
}
