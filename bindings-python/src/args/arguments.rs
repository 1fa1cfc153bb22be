//! Checks of Python arguments. They run before the client sends anything.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use zklock::internal::{self, Language, Spelling, unless_minus_one};

use crate::args::checked::{Flag, Number};
use crate::args::names;
use crate::errors::Result;

/// The units and names that Python uses.
pub(crate) const PYTHON: Language =
    Language { name: "python", unit: Duration::from_secs(1), spelling: Spelling::Snake };

/// The argument `blocking`: a bool, or 1 or 0, as in `threading.Lock.acquire`. Any other number is an error,
/// because a caller who writes `acquire(5)` means a timeout.
#[derive(Clone, Copy)]
pub(crate) struct Blocking(pub(crate) bool);

impl<'a, 'py> FromPyObject<'a, 'py> for Blocking {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(blocking) = object.extract::<bool>() {
            return Ok(Self(blocking));
        }
        if let Ok(number @ (0 | 1)) = object.extract::<i64>() {
            return Ok(Self(number == 1));
        }
        let given = object.repr()?;
        let message = format!("blocking must be True or False, not {given}; is timeout={given} meant?");
        Err(PyTypeError::new_err(message))
    }
}

/// The checked arguments `blocking`, `timeout` and `connect_timeout` of an acquire.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Timeout(pub(crate) zklock::Timeout);

#[pymethods]
impl Timeout {
    #[new]
    #[pyo3(signature = (blocking, timeout, connect_timeout=None))]
    fn new(
        blocking: Blocking,
        timeout: Option<Number<names::Timeout>>,
        connect_timeout: Option<Number<names::ConnectTimeout>>,
    ) -> Result<Self> {
        bounded_timeout(blocking.0, timeout, connect_timeout).map(Self)
    }
}

impl Timeout {
    /// Returns the timeout of a call that always blocks.
    pub(crate) fn waiting(timeout: Option<Number<names::Timeout>>) -> Result<Self> {
        parse_timeout(true, timeout).map(Self)
    }
}

/// Checks the arguments of an acquire. `connect_timeout` applies if the acquire does not wait.
pub(crate) fn bounded_timeout(
    blocking: bool,
    timeout: Option<Number<names::Timeout>>,
    connect_timeout: Option<Number<names::ConnectTimeout>>,
) -> Result<zklock::Timeout> {
    Ok(PYTHON.bounded(parse_timeout(blocking, timeout)?, seconds(connect_timeout))?)
}

pub(crate) fn parse_timeout(
    blocking: bool,
    timeout: Option<Number<names::Timeout>>,
) -> Result<zklock::Timeout> {
    Ok(PYTHON.blocking(blocking, seconds(timeout))?)
}

/// The checked arguments `wait` and `timeout` of a release.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct ReleaseTimeout(pub(crate) zklock::Timeout);

#[pymethods]
impl ReleaseTimeout {
    #[new]
    #[pyo3(signature = (wait, timeout))]
    fn new(wait: Flag<names::Wait>, timeout: Option<Number<names::Timeout>>) -> Result<Self> {
        release_timeout(wait, timeout).map(Self)
    }
}

/// Returns the time that a release waits.
pub(crate) fn release_timeout(
    wait: Flag<names::Wait>,
    timeout: Option<Number<names::Timeout>>,
) -> Result<zklock::Timeout> {
    Ok(PYTHON.releasing(wait.0, unless_minus_one(seconds(timeout)))?)
}

/// Returns the time that a closing client waits for its holders, or `None` if it does not wait.
pub(crate) fn drain_time(drain: Option<Number<names::Drain>>) -> Result<Option<Duration>> {
    let time = seconds(drain).map(|drain| PYTHON.duration("drain", drain)).transpose()?;
    Ok(time.filter(|time| !time.is_zero()))
}

/// Returns the time limit of a wait that is not an acquire, or `None` if it has no limit.
pub(crate) fn wait_limit(timeout: Option<Number<names::Timeout>>) -> Result<Option<Duration>> {
    Ok(internal::limit(parse_timeout(true, timeout)?))
}

fn seconds<A>(number: Option<Number<A>>) -> Option<f64> {
    number.map(|seconds| seconds.0)
}
