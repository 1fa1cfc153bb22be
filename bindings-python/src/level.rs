//! What one acquire returns: a lease, or several.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use zklock::ErrorKind;
use zklock::binding::{Acquired, Raised, loss_to_raise};

use crate::errors::{Failure, Result, class};
use crate::pending::Pending;
use crate::wait::block_on;

/// What leases have in common, one or several.
#[pyclass(frozen, subclass, module = "zklock._zklock")]
pub(crate) struct Level(pub(crate) Arc<dyn Acquired>);

impl Level {
    /// Releases at the end of a scope: silent if the body did it already, or if a forked child inherited the scope.
    pub(crate) fn leave_scope(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let leaving = Leaving::new(self);
        block_on(py, self.0.release())?.ok();
        leaving.end(py, raised, false)
    }
}

#[pymethods]
impl Level {
    /// Return if the lock is held, or all locks of several leases. Sends nothing.
    ///
    /// >>> with lock as lease:
    /// ...     lease.check()
    ///
    /// Raises `LockLost`, or `NotHeld` after a release.
    fn check(&self) -> Result<()> {
        Ok(self.0.check()?)
    }

    /// Release this level, from any thread, once. The last level of a hold frees the lock.
    ///
    /// >>> with lock as lease:
    /// ...     lease.release(wait=False)
    ///
    /// For several leases: release those that have not been released yet, the last one first.
    ///
    /// Waits until the server has acknowledged it, or the session is over; with `wait=False` returns when
    /// the release is on its way. It never fails because of the network.
    ///
    /// Raises `NotHeld` the second time.
    #[pyo3(signature = (wait=true))]
    pub(crate) fn release(&self, py: Python<'_>, wait: bool) -> Result<()> {
        if wait {
            return Ok(block_on(py, self.0.release())??);
        }
        Ok(self.0.release_in_background()?)
    }
}

/// Release, and begin to wait for the acknowledgement.
#[pyfunction]
pub(crate) fn start_release(py: Python<'_>, level: &Level, wait: bool) -> Result<Pending> {
    if !wait {
        level.0.release_in_background()?;
        return Pending::start(py, std::future::ready(Ok(())));
    }
    let pending = Pending::start(py, level.0.release())?;
    pending.check()?;
    Ok(pending)
}

/// The end of a scope. It begins before the release, to know whether there was a loss.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Leaving(Option<zklock::Error>);

#[pymethods]
impl Leaving {
    #[new]
    fn new(level: &Level) -> Self {
        Self(level.0.loss())
    }

    /// Raise the loss, if there was one, from what the body raised, unless that matters more.
    ///
    /// `cancelled` says that the body raised the cancellation that the loss brought about.
    #[pyo3(signature = (raised, cancelled))]
    fn end(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>, cancelled: bool) -> PyResult<()> {
        // Nothing is imported without need: the interpreter may be on its way out.
        let kind = match raised {
            None => Raised::Nothing,
            Some(_) if cancelled => Raised::Error,
            Some(raised) if !raised.is_instance_of::<PyException>() => Raised::Exit,
            Some(raised) if self.0.is_some() && is_loss(raised)? => Raised::Loss,
            Some(_) => Raised::Error,
        };
        let Some(loss) = loss_to_raise(self.0.clone(), kind) else { return Ok(()) };
        let loss = PyErr::from(Failure::from(loss));
        loss.set_cause(py, raised.map(|raised| PyErr::from_value(raised.clone())));
        Err(loss)
    }
}

fn is_loss(raised: &Bound<'_, PyAny>) -> PyResult<bool> {
    raised.is_instance(class(raised.py(), ErrorKind::LockLost)?.as_any())
}
