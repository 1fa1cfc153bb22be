//! Callbacks for what happens to a lease.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

use crate::deliver::{self, Deliver};
use crate::errors::Failure;
use crate::lease::Lease;
use crate::{exit, log};

/// Ends with whether there is something to tell.
type Event = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A callback that is waiting for something to happen to a lease, once.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Notice {
    shared: Arc<Shared>,
    process: u32,
}

/// What the core wakes when there is something to tell.
struct Shared {
    state: Mutex<State>,
    callback: Py<PyAny>,
    /// Weak: a lease that nothing else refers to is released.
    lease: Py<PyWeakrefReference>,
}

enum State {
    Waiting(Event),
    /// To be told, by the delivery thread.
    Due,
    Over,
}

impl Notice {
    /// Has `callback` called with the lease, on the delivery thread, when `event` ends with true; at once if it
    /// has already.
    pub(crate) fn start(
        lease: &Bound<'_, Lease>,
        event: impl Future<Output = bool> + Send + 'static,
        callback: Py<PyAny>,
    ) -> Result<Self, Failure> {
        let py = lease.py();
        exit::pause(py)?;
        log::refresh(py);
        deliver::start()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::Waiting(Box::pin(event))),
            callback,
            lease: PyWeakrefReference::new(lease)?.unbind(),
        });
        if shared.poll() {
            deliver::send(shared.clone());
        }
        Ok(Self { shared, process: std::process::id() })
    }
}

#[pymethods]
impl Notice {
    /// Forget it.
    fn cancel(&self) {
        // In a forked child nothing is called, and one of the parent's threads may have held the lock.
        if self.process == std::process::id() {
            let over = std::mem::replace(&mut *self.shared.state(), State::Over);
            drop(over);
        }
    }
}

impl Shared {
    /// A panic cannot leave half a change in it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the event; true if there is something to tell.
    fn poll(self: &Arc<Self>) -> bool {
        let waker = Waker::from(Arc::clone(self));
        let mut state = self.state();
        if let State::Waiting(event) = &mut *state
            && let Poll::Ready(due) = event.as_mut().poll(&mut Context::from_waker(&waker))
        {
            *state = if due { State::Due } else { State::Over };
        }
        matches!(*state, State::Due)
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
        if !self.poll() {
            return true;
        }
        Python::try_attach(|py| {
            // Taken by whoever comes first, this or `cancel`.
            let state = std::mem::replace(&mut *self.state(), State::Over);
            if let (State::Due, Some(lease)) = (state, self.lease.bind(py).upgrade())
                && let Err(error) = self.callback.call1(py, (lease,))
            {
                error.write_unraisable(py, Some(self.callback.bind(py)));
            }
        })
        .is_some()
    }
}
