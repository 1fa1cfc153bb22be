//! One conversion from the core's errors to the exception classes of `zklock._errors`.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use zklock::ErrorKind;

use crate::contender::Contender;
use crate::modules::attribute;
use crate::server_report::ServerReport;

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
            Failure::Zklock(error) => {
                Python::attach(|py| exception(py, &error).unwrap_or_else(|error| error))
            }
            Failure::Python(error) => error,
        }
    }
}

/// The exception, with what a program may act upon.
fn exception(py: Python<'_>, error: &zklock::Error) -> PyResult<PyErr> {
    let class = class(py, error.kind())?;
    let Some((name, detail)) = detail(py, error)? else {
        return Ok(PyErr::from_type(class, error.to_string()));
    };
    let exception = class.call1((error.to_string(),))?;
    exception.setattr(name, &detail)?;
    if name == "_servers" {
        let cause = py.import("zklock._errors")?.call_method1("cause", (detail,))?;
        exception.setattr("__cause__", cause)?;
    }
    Ok(PyErr::from_value(exception))
}

/// The attribute that an error has beside its message, if it has one.
fn detail<'py>(
    py: Python<'py>,
    error: &zklock::Error,
) -> PyResult<Option<(&'static str, Bound<'py, PyAny>)>> {
    Ok(if !error.servers().is_empty() {
        let servers = error.servers().iter().map(ServerReport::from).collect::<Vec<_>>();
        Some(("_servers", PyTuple::new(py, servers)?.into_any()))
    } else if !error.blockers().is_empty() {
        let blockers = error.blockers().iter().cloned().map(Contender::from).collect::<Vec<_>>();
        Some(("_blockers", PyTuple::new(py, blockers)?.into_any()))
    } else if let Some(reason) = error.loss_reason() {
        Some(("_reason", reason.as_str().into_bound_py_any(py)?))
    } else {
        None
    })
}

/// The exception class of a kind. They are defined in Python, where a class can have two bases.
pub(crate) fn class(py: Python<'_>, kind: ErrorKind) -> PyResult<Bound<'_, PyType>> {
    static BY_CODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let by_code = attribute(&BY_CODE, py, "zklock._errors", "BY_CODE")?;
    Ok(by_code.get_item(kind.code())?.cast_into()?)
}
