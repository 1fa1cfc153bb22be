//! What one acquire returns: a lease, or several.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use zklock::internal::{Acquired, BodyOutcome, Released, ScopeError, same_thread, scope_error};
use zklock::{ErrorKind, Timeout};

use crate::args::arguments::{ReleaseTimeout, release_timeout};
use crate::args::checked::{Flag, Number};
use crate::args::names;
use crate::bridge::block_on::{at_once, block_on};
use crate::bridge::pending::Pending;
use crate::errors::{Failure, Result, class};

/// Waits for the acknowledgement of a release, if there is one: there is none of an inner level.
fn end(py: Python<'_>, mut released: Released) -> PyResult<zklock::Result<()>> {
    match at_once(&mut released) {
        Some(end) => Ok(end),
        None => block_on(py, released),
    }
}

/// Releases what was acquired, and waits for the acknowledgement for as long as it says.
pub(crate) fn release(py: Python<'_>, acquired: &dyn Acquired, timeout: Timeout) -> Result<()> {
    Ok(end(py, acquired.release(timeout))??)
}

/// What leases have in common, one or several.
#[pyclass(frozen, subclass, module = "zklock._zklock")]
pub(crate) struct Level(pub(crate) Arc<dyn Acquired>);

impl Level {
    /// Releases at the end of a scope: silent if the body did it already, or if a forked child inherited the scope.
    pub(crate) fn leave_scope(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let leaving = Leaving::new(self);
        end(py, self.0.release(Timeout::Forever))?.ok();
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
    /// Waits until the server has acknowledged it, but for no more than `timeout` seconds, and no longer than
    /// `remaining` was when it was called: half the session time-out at most. It then returns as usual, and
    /// the release goes on in the background. With `wait=False` it returns when the release is on its way.
    /// It never fails because of the network.
    ///
    /// If somebody had deleted the lock's node or ended the session, `state` is `lost` afterwards.
    ///
    /// Raises `NotHeld` the second time, and `BadArgument` for a time-out below zero (but -1 is none), or
    /// together with `wait=False`.
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

/// Release, and begin to wait for the acknowledgement; None if there is nothing to wait for.
#[pyfunction]
pub(crate) fn start_release(
    py: Python<'_>,
    level: &Level,
    timeout: &ReleaseTimeout,
) -> Result<Option<Pending>> {
    // A task to which the lock is handed on needs no other thread.
    let (released, ended) = same_thread::carry_on_woken(|| {
        let mut released = level.0.release(timeout.0);
        let ended = at_once(&mut released);
        (released, ended)
    });
    match ended {
        Some(end) => Ok(end.map(|()| None)?),
        None => Pending::start(py, released).map(Some),
    }
}

/// The end of a scope, from before the release until after it.
///
/// A term that ends while the release waits is no loss. That somebody had deleted the node is one, and
/// only the release finds out.
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

    /// Raise the loss, if there was one and the body raised nothing, or the cancellation that it caused.
    ///
    /// `cancelled` says that it raised that cancellation. Any other exception of the body goes on, with the
    /// loss as a note.
    #[pyo3(signature = (raised, cancelled))]
    fn end(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>, cancelled: bool) -> PyResult<()> {
        let Some(loss) = self.loss.clone().or_else(|| self.level.loss()) else { return Ok(()) };
        // Nothing is imported without need: the interpreter may be on its way out.
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
                    // A class may have replaced its notes by something of its own. The body's error wins all the same.
                    add_note(raised, &format!("zklock.LockLost: {loss}")).ok();
                }
                Ok(())
            }
        }
    }
}

/// Adds a note to an exception, unless the exit of an inner scope has added the same.
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
