//! Arguments, checked before anything is sent.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use zklock::internal::{self, Language, Spelling, unless_minus_one};

use crate::args::checked::{Flag, Number};
use crate::args::names;
use crate::errors::Result;

/// Python's units and names.
pub(crate) const PYTHON: Language =
    Language { name: "python", unit: Duration::from_secs(1), spelling: Spelling::Snake };

/// `blocking`: a bool, or 1 or 0, as `threading.Lock.acquire` takes them. That takes every other number too, but who
/// writes `acquire(5)` wants a time-out.
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

/// `blocking`, `timeout` and `connect_timeout` of an acquire, checked.
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
    /// For what always waits.
    pub(crate) fn waiting(timeout: Option<Number<names::Timeout>>) -> Result<Self> {
        parse_timeout(true, timeout).map(Self)
    }
}

/// The same, for which a try may have a bound of its own.
pub(crate) fn bounded_timeout(
    blocking: bool,
    timeout: Option<Number<names::Timeout>>,
    connect_timeout: Option<Number<names::ConnectTimeout>>,
) -> Result<zklock::Timeout> {
    Ok(PYTHON.bounded(parse_timeout(blocking, timeout)?, seconds(connect_timeout))?)
}

/// `blocking` and `timeout` with the meanings that `threading.Lock.acquire` gives them.
pub(crate) fn parse_timeout(
    blocking: bool,
    timeout: Option<Number<names::Timeout>>,
) -> Result<zklock::Timeout> {
    Ok(PYTHON.blocking(blocking, seconds(timeout))?)
}

/// `wait` and `timeout` of a release, checked.
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

/// For how long a release waits.
pub(crate) fn release_timeout(
    wait: Flag<names::Wait>,
    timeout: Option<Number<names::Timeout>>,
) -> Result<zklock::Timeout> {
    Ok(PYTHON.releasing(wait.0, unless_minus_one(seconds(timeout)))?)
}

/// For how long a client that closes waits for its holders; `None` is not at all.
pub(crate) fn drain_time(drain: Option<Number<names::Drain>>) -> Result<Option<Duration>> {
    let time = seconds(drain).map(|drain| PYTHON.duration("drain", drain)).transpose()?;
    Ok(time.filter(|time| !time.is_zero()))
}

/// How long to wait for something else than a lock; `None` is for ever.
pub(crate) fn wait_limit(timeout: Option<Number<names::Timeout>>) -> Result<Option<Duration>> {
    Ok(internal::limit(parse_timeout(true, timeout)?))
}

fn seconds<A>(number: Option<Number<A>>) -> Option<f64> {
    number.map(|seconds| seconds.0)
}
