//! The result of one acquire: a lease, or several.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use zklock::internal::{Acquired, BodyOutcome, Released, ScopeError, same_thread, scope_error};
use zklock::{ErrorKind, Timeout};

use crate::args::arguments::{ReleaseTimeout, release_timeout};
use crate::args::checked::{Flag, Number};
use crate::args::names;
use crate::bridge::block_on::{at_once, block_on};
use crate::bridge::pending::{Pending, Steps, operation};
use crate::errors::{Failure, Result, class};

/// Waits until the server has acknowledged a release. A release that does not free the lock sends no request,
/// so this function then returns immediately.
fn end(py: Python<'_>, mut released: Released) -> PyResult<zklock::Result<()>> {
    match at_once(&mut released) {
        Some(end) => Ok(end),
        None => block_on(py, released),
    }
}

pub(crate) fn release(py: Python<'_>, acquired: &dyn Acquired, timeout: Timeout) -> Result<()> {
    Ok(end(py, acquired.release(timeout))??)
}

/// Base class of a lease and of several leases.
#[pyclass(frozen, subclass, module = "zklock._zklock")]
pub(crate) struct Level(pub(crate) Arc<dyn Acquired>);

impl Level {
    /// Releases this lease at the end of its scope. Ignores the error if the body has already released the
    /// lease, or if a forked child inherited the scope.
    pub(crate) fn leave_scope(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let leaving = Leaving::new(self);
        end(py, self.0.release(Timeout::Forever))?.ok();
        leaving.end(py, raised, false)
    }
}

#[pymethods]
impl Level {
    /// Check that the lock is held, without a request. For several leases, check all of them.
    ///
    /// >>> with lock as lease:
    /// ...     lease.check()
    ///
    /// Raise `LockLost` if it is lost, and `NotHeld` after a release.
    fn check(&self) -> Result<()> {
        Ok(self.0.check()?)
    }

    /// Release this lease, from any thread. The last release of a hold frees the lock.
    ///
    /// >>> with lock as lease:
    /// ...     lease.release(wait=False)
    ///
    /// For several leases, release those that have not been released yet, the last one first.
    ///
    /// Wait up to `timeout` seconds until the server has acknowledged the release. The wait also ends when
    /// the current value of `remaining` has elapsed, which is at most half the session timeout. After either
    /// limit the call returns normally, and the release continues in the background. With `wait=False` the
    /// call returns once the release has been sent. A release never fails because of the network.
    ///
    /// If another client had already deleted the lock's node or closed the session, `state` is `lost`
    /// afterwards.
    ///
    /// Raise `NotHeld` on the second call. Raise `BadArgument` for a timeout below zero (except -1, which
    /// means no timeout), and for a timeout together with `wait=False`.
    #[pyo3(
        signature = (wait=Flag::of(true), timeout=None),
        text_signature = "($self, wait=True, timeout=None)"
    )]
    pub(crate) fn release(
        &self,
        py: Python<'_>,
        wait: Flag<names::Wait>,
        timeout: Option<Number<names::Timeout>>,
    ) -> Result<()> {
        release(py, &*self.0, release_timeout(wait, timeout)?)
    }
}

/// Release a lease. Return the wait for the server's acknowledgement, or None if no wait is needed.
#[pyfunction]
pub(crate) fn start_release(
    py: Python<'_>,
    level: &Level,
    timeout: &ReleaseTimeout,
) -> Result<Option<Pending>> {
    begin_release(py, &*level.0, timeout)
}

/// Starts a release. Returns the wait for the server's acknowledgement, if one is needed.
pub(crate) fn begin_release(
    py: Python<'_>,
    acquired: &dyn Acquired,
    timeout: &ReleaseTimeout,
) -> Result<Option<Pending>> {
    // If the release hands the lock to a task of this thread, wake the task here, without a detour through
    // the delivery thread.
    let (released, ended) = same_thread::carry_on_woken(|| {
        let mut released = acquired.release(timeout.0);
        let ended = at_once(&mut released);
        (released, ended)
    });
    match ended {
        Some(end) => Ok(end.map(|()| None)?),
        None => Pending::start_operation(py, operation(released), Steps::One).map(Some),
    }
}

/// The exit from a scope. Created before the release, and used after it to report a loss.
///
/// A term that ends during the release is not a loss. It is a loss if the release detects that another client
/// has deleted the node.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Leaving {
    level: Arc<dyn Acquired>,
    loss: Option<zklock::Error>,
}

#[pymethods]
impl Leaving {
    #[new]
    fn new(level: &Level) -> Self {
        Self { level: level.0.clone(), loss: level.0.loss() }
    }

    /// Raise `LockLost` after a loss, unless the body raised an exception.
    ///
    /// `cancelled` is true if the loss cancelled the task and the body raised nothing else. `LockLost` then
    /// replaces the cancellation. Any other exception of the body propagates, with a note about the loss.
    #[pyo3(signature = (raised, cancelled))]
    fn end(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>, cancelled: bool) -> PyResult<()> {
        let Some(loss) = self.loss.clone().or_else(|| self.level.loss()) else { return Ok(()) };
        // Call `is_loss` only when needed: it imports a module, and the interpreter might be shutting down.
        let outcome = match raised {
            None => BodyOutcome::Nothing,
            Some(_) if cancelled => BodyOutcome::Cancelled,
            Some(raised) if raised.is_instance_of::<PyException>() && is_loss(raised)? => BodyOutcome::Loss,
            Some(_) => BodyOutcome::Error,
        };
        match scope_error(Some(loss), outcome) {
            ScopeError::OfBody => Ok(()),
            ScopeError::Loss(loss) => {
                let loss = PyErr::from(Failure::from(loss));
                loss.set_cause(py, raised.map(|raised| PyErr::from_value(raised.clone())));
                Err(loss)
            }
            ScopeError::OfBodyWithLoss(loss) => {
                if let Some(raised) = raised {
                    // Ignore a failure to add the note, because the body's error must propagate.
                    add_note(raised, &format!("zklock.LockLost: {loss}")).ok();
                }
                Ok(())
            }
        }
    }
}

/// Adds a note to an exception, unless the exit of an inner scope has already added it.
fn add_note(raised: &Bound<'_, PyAny>, note: &str) -> PyResult<()> {
    if let Some(notes) = raised.getattr_opt("__notes__")?
        && notes.contains(note)?
    {
        return Ok(());
    }
    raised.call_method1("add_note", (note,)).map(drop)
}

fn is_loss(raised: &Bound<'_, PyAny>) -> PyResult<bool> {
    raised.is_instance(class(raised.py(), ErrorKind::LockLost)?.as_any())
}
