//! An operation that asyncio waits for, or a thread that another one can make stop waiting.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use zklock::internal::ForkGuard;
use zklock::internal::same_thread::{self, Woken};

use crate::args::arguments::wait_limit;
use crate::args::checked::Number;
use crate::args::names;
use crate::bridge::delivery_thread::Deliver;
use crate::bridge::log;
use crate::bridge::loop_inbox::{Ended, Inbox, Waiting};
use crate::bridge::trio;
use crate::bridge::{block_on, delivery_thread, loop_inbox};
use crate::contender::Contender;
use crate::errors::Result;
use crate::modules::{attribute, interned};

/// The outcome of an operation of the core that has a counterpart in Python.
pub(crate) trait IntoPython: Send + 'static {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

impl IntoPython for () {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(py.None())
    }
}

impl IntoPython for bool {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.into_py_any(py)
    }
}

impl IntoPython for Vec<zklock::Contender> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.into_iter().map(Contender::from).collect::<Vec<_>>().into_py_any(py)
    }
}

/// Holds an outcome, and converts it on request.
type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Outcome = zklock::Result<Convert>;

pub(crate) type Operation = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// An operation of the core, with what it comes to in Python.
pub(crate) fn operation<T: IntoPython>(
    operation: impl Future<Output = zklock::Result<T>> + Send + 'static,
) -> Operation {
    Box::pin(async move {
        operation.await.map(|value| Box::new(move |py: Python<'_>| value.into_python(py)) as Convert)
    })
}

/// An operation under way. Awaiting it waits for the outcome; `take()` then gives it, once.
///
/// The outcome stays on this side until it is asked for. So a lease that arrives in the tick in
/// which its task is cancelled, or after the end of its event loop, is still here to be released.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Pending {
    shared: Arc<Shared>,
    origin: ForkGuard,
}

/// What the awaiting side and the delivery thread share. Also what the core wakes when there is progress.
#[derive(Default)]
pub(crate) struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    /// Until it has an outcome, or is abandoned.
    operation: Option<Operation>,
    outcome: Option<Outcome>,
    /// Taken by the first to come, delivery or cancellation.
    waiting: Option<Waiting>,
    /// Of a thread that waits until there is no operation any more.
    blocked: Option<Waker>,
}

impl Pending {
    /// Begins an operation.
    pub(crate) fn start<T: IntoPython>(
        py: Python<'_>,
        begun: impl Future<Output = zklock::Result<T>> + Send + 'static,
    ) -> Result<Self> {
        Self::start_operation(py, operation(begun))
    }

    pub(crate) fn start_operation(py: Python<'_>, operation: Operation) -> Result<Self> {
        block_on::begin(py)?;
        let shared = Arc::<Shared>::default();
        shared.state().operation = Some(operation);
        let pending = Self { shared, origin: ForkGuard::new() };
        // What needs no answer from a server, such as re-entry, is done at once.
        if !pending.shared.poll(Waker::noop()) {
            log::refresh(py)?;
            delivery_thread::start()?;
            pending.shared.poll(&Waker::from(Arc::clone(&pending.shared)));
        }
        Ok(pending)
    }
}

#[pymethods]
impl Pending {
    fn __await__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if self.shared.state().outcome.is_none() {
            delivery_thread::start()?;
            let running = attribute(&RUNNING, py, "asyncio", "get_running_loop")?;
            let event_loop = running.call0().map_err(|_| trio::no_event_loop(py))?;
            let future = event_loop.call_method0(interned!(py, "create_future")?)?;
            let waiting = Waiting { inbox: Inbox::of(&event_loop), future: future.clone().unbind() };
            if self.shared.wait(waiting) {
                return future.call_method0(interned!(py, "__await__")?);
            }
        }
        // An exhausted iterator, because there is nothing to wait for.
        Ok(PyTuple::empty(py).try_iter()?.into_any())
    }

    /// Wait on this thread for up to `timeout` seconds: whether there is an outcome.
    ///
    /// If not, the operation was abandoned, or the time is up.
    #[pyo3(signature = (timeout))]
    fn wait(&self, py: Python<'_>, timeout: Option<Number<names::Timeout>>) -> Result<bool> {
        let ended = poll_fn(|context| self.shared.ended(context));
        let claim = Arc::clone(&self.shared);
        Ok(block_on::block_on_for(py, ended, wait_limit(timeout)?, Some(claim))?.unwrap_or_default())
    }

    /// The outcome, or its exception.
    fn take(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        let outcome = self.shared.state().outcome.take();
        match outcome {
            Some(outcome) => Ok(outcome?(py)?),
            None => Err(PyRuntimeError::new_err("there is no outcome: await the operation, once").into()),
        }
    }

    /// Give up the rest of the operation: leave the queue, and release a lease that nobody took.
    fn abandon(&self) {
        // In a forked child nothing proceeds, and one of the parent's threads may have held the lock.
        if self.origin.is_here() {
            self.shared.abandon();
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Shared {
    /// A panic cannot leave half a change in it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a future completed when the outcome comes; false if it is there already.
    fn wait(&self, waiting: Waiting) -> bool {
        let mut state = self.state();
        let pending = state.outcome.is_none();
        if pending {
            state.waiting = Some(waiting);
        }
        pending
    }

    /// Ready once nothing is under way: whether there is an outcome. Polls by itself, as the waiting thread may be
    /// the delivery thread, in a callback.
    fn ended(&self, context: &mut Context<'_>) -> Poll<bool> {
        let there = self.poll(context.waker());
        let mut state = self.state();
        if there || state.operation.is_none() {
            return Poll::Ready(state.outcome.is_some());
        }
        state.blocked = Some(context.waker().clone());
        Poll::Pending
    }

    /// Lets the operation proceed; true if there is an outcome now.
    fn poll(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if let Some(operation) = &mut state.operation
            && let Poll::Ready(outcome) = operation.as_mut().poll(&mut Context::from_waker(waker))
        {
            state.outcome = Some(outcome);
            state.operation = None;
            if let Some(blocked) = state.blocked.take() {
                blocked.wake();
            }
        }
        state.outcome.is_some()
    }
}

impl Ended for Shared {
    fn abandon(&self) {
        let mut state = std::mem::take(&mut *self.state());
        if let Some(blocked) = state.blocked.take() {
            blocked.wake();
        }
        drop(state);
    }
}

impl Deliver for Shared {
    /// Completes the future that waits for the outcome, through its event loop.
    fn deliver(self: Arc<Self>) -> bool {
        if !self.poll(&Waker::from(Arc::clone(&self))) {
            return true;
        }
        let waiting = self.state().waiting.take();
        waiting.is_none_or(|waiting| loop_inbox::tell(self, waiting))
    }
}

impl Wake for Shared {
    /// Called on the core's thread, which has no time for more than this, or by a task that hands its lock on.
    fn wake(self: Arc<Self>) {
        if !same_thread::note(|| Arc::clone(&self) as _) {
            delivery_thread::send(self);
        }
    }
}

impl Woken for Shared {
    /// Completes the future that waits for the outcome, if it is one of the event loop of this thread.
    fn go_on(self: Arc<Self>) {
        let waiting = self.state().waiting.take();
        let there = self.poll(&Waker::from(Arc::clone(&self)));
        let Some(waiting) = waiting else { return };
        Python::attach(|py| {
            let here = waiting.is_of_this_thread(py).unwrap_or_default();
            if there && here {
                // Fails with an event loop that is closed: then nobody asks for the outcome.
                loop_inbox::tell_here(py, self, &waiting).ok();
                return;
            }
            let mut state = self.state();
            state.waiting = Some(waiting);
            // The delivery thread may have found nobody to tell meanwhile.
            let there = state.outcome.is_some();
            drop(state);
            if there {
                delivery_thread::send(self);
            }
        });
    }
}
