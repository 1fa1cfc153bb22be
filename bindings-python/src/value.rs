//! What an operation of the core comes to, on its way into Python.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::contender::Contender;
use crate::lease::Lease;
use crate::leases::Leases;

/// What an operation comes to.
pub(crate) enum Value {
    Nothing,
    Flag(bool),
    Lease(zklock::Lease),
    Leases(Vec<zklock::Lease>),
    Contenders(Vec<zklock::Contender>),
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Self::Nothing
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<zklock::Lease> for Value {
    fn from(lease: zklock::Lease) -> Self {
        Self::Lease(lease)
    }
}

impl From<Vec<zklock::Lease>> for Value {
    fn from(leases: Vec<zklock::Lease>) -> Self {
        Self::Leases(leases)
    }
}

impl From<Vec<zklock::Contender>> for Value {
    fn from(contenders: Vec<zklock::Contender>) -> Self {
        Self::Contenders(contenders)
    }
}

impl Value {
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Nothing => Ok(py.None()),
            Self::Flag(flag) => flag.into_py_any(py),
            Self::Lease(inner) => Lease { inner }.into_py_any(py),
            Self::Leases(leases) => Leases::new(py, leases)?.into_py_any(py),
            Self::Contenders(contenders) => {
                contenders.into_iter().map(Contender::from).collect::<Vec<_>>().into_py_any(py)
            }
        }
    }
}
