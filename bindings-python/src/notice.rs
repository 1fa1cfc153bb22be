//! Callbacks for what happens to a lease or a client.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::types::{PyString, PyWeakrefReference};
use zklock::binding::Origin;
use zklock::{ClientState, States};

use crate::deliver::{self, Deliver};
use crate::errors::Result;
use crate::{exit, log};

/// The next thing to report; nothing at its end.
type Source = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Argument>> + Send>;

/// What a callback is called with.
enum Argument {
    /// Weak: a lease without other references is released, and not reported.
    Lease(Py<PyWeakrefReference>),
    State(ClientState),
}

impl Argument {
    fn resolve<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::Lease(lease) => lease.bind(py).upgrade(),
            Self::State(state) => Some(PyString::intern(py, state.as_str()).into_any()),
        }
    }
}

/// A callback registered with `Lease.on_lost`, `Lease.on_revoke` or `Client.on_state`.
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
    progress: Mutex<Progress>,
    callback: Py<PyAny>,
}

struct Progress {
    source: Option<Source>,
    /// To be reported, by the delivery thread.
    due: Option<Argument>,
}

impl Notice {
    /// Has `callback` called with the lease, once, when `event` ends with true; at once if it has already.
    pub(crate) fn of_lease(
        lease: &Bound<'_, PyAny>,
        event: impl Future<Output = bool> + Send + 'static,
        callback: Py<PyAny>,
    ) -> Result<Self> {
        let weak = PyWeakrefReference::new(lease)?.unbind();
        let mut waiting = Some((Box::pin(event), weak));
        let source = move |context: &mut Context<'_>| match &mut waiting {
            None => Poll::Ready(None),
            Some((event, _)) => event.as_mut().poll(context).map(|due| {
                let (_, lease) = waiting.take()?;
                due.then_some(Argument::Lease(lease))
            }),
        };
        Self::start(lease.py(), Box::new(source), callback)
    }

    /// Has `callback` called with each new state of a client.
    pub(crate) fn of_client(py: Python<'_>, mut states: States, callback: Py<PyAny>) -> Result<Self> {
        let source = move |context: &mut Context<'_>| {
            pin!(states.next()).poll(context).map(|state| state.map(Argument::State))
        };
        Self::start(py, Box::new(source), callback)
    }

    fn start(py: Python<'_>, source: Source, callback: Py<PyAny>) -> Result<Self> {
        exit::pause(py)?;
        log::refresh(py);
        deliver::start()?;
        let progress = Mutex::new(Progress { source: Some(source), due: None });
        let shared = Arc::new(Shared { progress, callback });
        if shared.poll() {
            deliver::send(shared.clone());
        }
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
        if self.origin.is_here() {
            let over = Progress { source: None, due: None };
            let over = std::mem::replace(&mut *self.shared.progress(), over);
            drop(over);
        }
    }
}

impl Shared {
    /// A panic cannot leave half a change in it.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the source; true if there is something to tell.
    fn poll(self: &Arc<Self>) -> bool {
        let waker = Waker::from(Arc::clone(self));
        let mut progress = self.progress();
        let Progress { source, due } = &mut *progress;
        if due.is_none()
            && let Some(next) = source
            && let Poll::Ready(argument) = next(&mut Context::from_waker(&waker))
        {
            if argument.is_none() {
                *source = None;
            }
            *due = argument;
        }
        due.is_some()
    }

    fn tell(&self, py: Python<'_>) {
        // Taken by the first to come, this or `cancel`.
        let due = self.progress().due.take();
        if let Some(argument) = due.and_then(|due| due.resolve(py))
            && let Err(error) = self.callback.call1(py, (argument,))
        {
            error.write_unraisable(py, Some(self.callback.bind(py)));
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
        while self.poll() {
            if Python::try_attach(|py| self.tell(py)).is_none() {
                return false;
            }
        }
        true
    }
}
