//! Conversion from the core's errors to the exception classes of `zklock._errors`, and the warning about
//! forgotten locks.

use std::ffi::CString;

use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use zklock::ErrorKind;
use zklock::internal::Forgotten;

use crate::contender::Contender;
use crate::deadlock::Deadlock;
use crate::exit;
use crate::modules::attribute;
use crate::server_report::ServerReport;

/// The error type of the binding's functions. The operator `?` converts the core's errors and Python
/// exceptions into it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of zklock.
    Zklock(zklock::Error),
    /// A Python exception, for example from a signal handler.
    Python(PyErr),
}

/// The result of a function that Python calls.
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

/// Returns the exception with its attributes, such as `blockers`.
fn exception(py: Python<'_>, error: &zklock::Error) -> PyResult<PyErr> {
    let class = class(py, error.kind())?;
    let exception = class.call1((error.to_string(),))?;
    if !error.servers().is_empty() {
        let servers = error.servers().iter().map(ServerReport::from).collect::<Vec<_>>();
        let servers = PyTuple::new(py, servers)?;
        exception.setattr("_servers", &servers)?;
        let cause = py.import("zklock._errors")?.call_method1("cause", (servers,))?;
        exception.setattr("__cause__", cause)?;
    }
    if !error.blockers().is_empty() {
        let blockers = error.blockers().iter().cloned().map(Contender::from).collect::<Vec<_>>();
        exception.setattr("_blockers", PyTuple::new(py, blockers)?)?;
    }
    if let Some(deadlock) = error.deadlock() {
        exception.setattr("_deadlock", Deadlock::from(deadlock))?;
    }
    if let Some(failed) = error.failed_operation() {
        exception.setattr("_index", failed.index)?;
        exception.setattr("_path", &failed.path)?;
    }
    let lost = error.loss_reason().map(zklock::LossReason::as_str);
    if let Some(reason) = lost.or(error.timeout_reason().map(zklock::TimeoutReason::as_str)) {
        exception.setattr("_reason", reason)?;
    }
    Ok(PyErr::from_value(exception))
}

/// Returns the exception class of a kind. The classes are defined in Python, where a class can have two
/// bases.
pub(crate) fn class(py: Python<'_>, kind: ErrorKind) -> PyResult<Bound<'_, PyType>> {
    static BY_CODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let by_code = attribute(&BY_CODE, py, "zklock._errors", "BY_CODE")?;
    Ok(by_code.get_item(kind.code())?.cast_into()?)
}

/// Emits a `ResourceWarning` about a lock that the program did not release, as Python does for unclosed
/// files. The warning points to the line that dropped the last reference. There is no warning while the
/// process exits, because Python then drops all objects.
pub(crate) fn warn_forgotten(forgotten: &Forgotten) {
    if exit::is_ending() {
        return;
    }
    let Ok(text) = CString::new(forgotten.to_string()) else { return };
    Python::try_attach(|py| {
        // Keep the current exception, because the object might be dropped while an exception propagates.
        let raised = PyErr::take(py);
        if let Err(error) = PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &text, 1) {
            error.write_unraisable(py, None);
        }
        if let Some(raised) = raised {
            raised.restore(py);
        }
    });
}
