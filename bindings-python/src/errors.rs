//! One conversion from the core's errors to the exception classes of `zklock._errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use zklock::ErrorKind;

/// The error of a method of the binding, so that `?` accepts both the core's errors and Python's exceptions.
#[derive(Debug)]
pub(crate) enum Failure {
    /// One of zklock's own exceptions.
    Zklock(zklock::Error),
    /// An exception of Python itself, as from a signal handler.
    Python(PyErr),
}

/// The result of what Python calls.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<zklock::Error> for Failure {
    fn from(error: zklock::Error) -> Self {
        Self::Zklock(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Zklock(error) => Python::attach(|py| match class(py, error.kind()) {
                Ok(class) => Self::from_type(class, error.to_string()),
                Err(error) => error,
            }),
            Failure::Python(error) => error,
        }
    }
}

/// The exception class of a kind. They are defined in Python, where a class can have two bases.
pub(crate) fn class(py: Python<'_>, kind: ErrorKind) -> PyResult<Bound<'_, PyType>> {
    static BY_CODE: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let by_code = BY_CODE.import(py, "zklock._errors", "BY_CODE")?;
    Ok(by_code.as_any().get_item(kind.code())?.cast_into()?)
}
