//! Callbacks for what happens to a lease or a client.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::types::{PyString, PyWeakrefReference};
use zklock::binding::Origin;
use zklock::{ErrorKind, Leaders, States};

use crate::deliver::{self, Deliver};
use crate::errors::{Failure, Result};
use crate::pending::IntoPython;
use crate::{exit, greenlets, log};

/// A callback registered with a method such as `Lease.on_lost` or `Client.on_state`.
///
/// >>> notice = client.on_state(lambda state: print("now", state))
/// >>> notice.cancel()
#[pyclass(frozen, module = "zklock")]
pub(crate) struct Notice {
    shared: Arc<Shared>,
    origin: Origin,
}

/// What the core wakes when there is something to report.
struct Shared {
    /// Waits, and calls back. Carried on by the delivery thread; none once it has ended. Its output is false if there is
    /// no interpreter any more.
    course: Mutex<Option<Pin<Box<dyn Future<Output = bool> + Send>>>>,
    cancelled: Arc<AtomicBool>,
}

/// What is called, unless it is cancelled.
struct Callback {
    callable: Py<PyAny>,
    cancelled: Arc<AtomicBool>,
}

impl Callback {
    /// Calls it on the delivery thread, if there is an argument. False if there is no interpreter any more.
    fn call(&self, argument: impl FnOnce(Python<'_>) -> Option<Bound<'_, PyAny>>) -> bool {
        let call = |py: Python<'_>| {
            if !self.cancelled.load(Ordering::Acquire)
                && let Some(argument) = argument(py)
            {
                name_this_thread(py);
                if let Err(error) = self.callable.call1(py, (argument,)) {
                    error.write_unraisable(py, Some(self.callable.bind(py)));
                }
            }
        };
        Python::try_attach(call).is_some()
    }

    /// Shows an error after which it will not be called again, as an error of its own would be.
    fn fail(&self, error: zklock::Error) -> bool {
        let show = |py: Python<'_>| {
            PyErr::from(Failure::from(error)).write_unraisable(py, Some(self.callable.bind(py)));
        };
        Python::try_attach(show).is_some()
    }
}

/// Gives the thread in Python the name that it has in the system. Each time: from Python 3.13 on a thread that the
/// interpreter did not start is forgotten between its calls.
fn name_this_thread(py: Python<'_>) {
    let thread = py.import("threading").and_then(|threading| threading.call_method0("current_thread"));
    thread.and_then(|thread| thread.setattr("name", deliver::NAME)).ok();
}

impl Notice {
    /// Has `callable` called with the lease, once, when `event` ends with true; soon if it already has.
    pub(crate) fn of_lease(
        lease: &Bound<'_, PyAny>,
        event: impl Future<Output = bool> + Send + 'static,
        callable: Py<PyAny>,
    ) -> Result<Self> {
        // A lease without other references is released, and not reported.
        let weak = PyWeakrefReference::new(lease)?.unbind();
        Self::start(lease.py(), callable, |callback| async move {
            !event.await || callback.call(|py| weak.bind(py).upgrade())
        })
    }

    /// Has `callable` called with each new state of a client.
    pub(crate) fn of_client(py: Python<'_>, mut states: States, callable: Py<PyAny>) -> Result<Self> {
        Self::start(py, callable, |callback| async move {
            while let Some(state) = states.next().await {
                if !callback.call(|py| Some(PyString::intern(py, state.as_str()).into_any())) {
                    return false;
                }
            }
            true
        })
    }

    /// Has `callable` called with who leads, now and after each change, or with None.
    pub(crate) fn of_election(py: Python<'_>, mut leaders: Leaders, callable: Py<PyAny>) -> Result<Self> {
        Self::start(py, callable, |callback| async move {
            loop {
                let leader = match leaders.next().await {
                    Ok(leader) => leader,
                    // Closing the client is how it ends; anything else is for someone to see.
                    Err(error) if error.kind() == ErrorKind::ClientClosed => return true,
                    Err(error) => return callback.fail(error),
                };
                if !callback.call(|py| Some(leader.into_python(py).ok()?.into_bound(py))) {
                    return false;
                }
            }
        })
    }

    fn start<F>(py: Python<'_>, callable: Py<PyAny>, course: impl FnOnce(Callback) -> F) -> Result<Self>
    where
        F: Future<Output = bool> + Send + 'static,
    {
        py.import("zklock._functions")?.call_method1("check_callback", (&callable,))?;
        exit::pause(py)?;
        log::refresh(py);
        deliver::start()?;
        let callable = greenlets::callback(py, callable)?;
        let cancelled = Arc::<AtomicBool>::default();
        let course = course(Callback { callable, cancelled: Arc::clone(&cancelled) });
        let shared = Arc::new(Shared { course: Mutex::new(Some(Box::pin(course))), cancelled });
        deliver::send(shared.clone());
        Ok(Self { shared, origin: Origin::new() })
    }
}

#[pymethods]
impl Notice {
    /// Stop calling the callback. A call that has begun continues.
    ///
    /// >>> notice = client.on_state(lambda state: print("now", state))
    /// >>> notice.cancel()
    fn cancel(&self) {
        // In a forked child nothing is called, and one of the parent's threads may have held the lock.
        if !self.origin.is_here() {
            return;
        }
        self.shared.cancelled.store(true, Ordering::Release);
        // While it is carried on, perhaps by the call that we are in, its end is left to the delivery thread.
        if let Ok(mut course) = self.shared.course.try_lock() {
            let course = course.take();
            drop(course);
        }
    }
}

impl Wake for Shared {
    /// Called on the core's thread, which has no time for more than this.
    fn wake(self: Arc<Self>) {
        deliver::send(self);
    }
}

impl Deliver for Shared {
    fn deliver(self: Arc<Self>) -> bool {
        let waker = Waker::from(Arc::clone(&self));
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = &mut *course else { return true };
        let progress = running.as_mut().poll(&mut Context::from_waker(&waker));
        if progress.is_ready() || self.cancelled.load(Ordering::Acquire) {
            *course = None;
        }
        progress != Poll::Ready(false)
    }
}
