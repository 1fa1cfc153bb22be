//! An operation in progress. An asyncio task can await it. A thread can also wait for it, and another thread
//! can end that wait.

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
use crate::bridge::loop_inbox::{Abandonable, Inbox, WaitingFuture};
use crate::bridge::trio;
use crate::bridge::{block_on, delivery_thread, loop_inbox};
use crate::contender::Contender;
use crate::errors::Result;
use crate::modules::{attribute, interned};

/// An outcome of the core that can be converted into a Python object.
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

/// Holds an outcome, and converts it when the program takes it.
type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Outcome = zklock::Result<Convert>;

pub(crate) type Operation = Pin<Box<dyn Future<Output = Outcome> + Send>>;

pub(crate) fn operation<T: IntoPython>(
    operation: impl Future<Output = zklock::Result<T>> + Send + 'static,
) -> Operation {
    Box::pin(async move {
        operation.await.map(|value| Box::new(move |py: Python<'_>| value.into_python(py)) as Convert)
    })
}

/// An operation in progress. Await it to wait for the outcome, then call `take()` once.
///
/// The outcome stays on the Rust side until `take()`. So a lease is released even if its task is cancelled
/// just as the lease arrives, or if the event loop has already stopped.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Pending {
    shared: Arc<Shared>,
    origin: ForkGuard,
}

/// The state that the awaiting side and the delivery thread share.
#[derive(Default)]
pub(crate) struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    /// `None` once there is an outcome, or the operation is abandoned.
    operation: Option<Operation>,
    outcome: Option<Outcome>,
    /// The future to complete, until delivery or cancellation takes it.
    waiting: Option<WaitingFuture>,
    /// Waker of a thread that waits until the operation is complete or abandoned.
    blocked: Option<Waker>,
}

impl Pending {
    /// Starts an operation.
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
        // An operation that needs no reply from a server, such as re-entry, completes on the first poll.
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
            let waiting = WaitingFuture { inbox: Inbox::of(&event_loop), future: future.clone().unbind() };
            if self.shared.wait(waiting) {
                return future.call_method0(interned!(py, "__await__")?);
            }
        }
        // An exhausted iterator makes `await` return immediately.
        Ok(PyTuple::empty(py).try_iter()?.into_any())
    }

    /// Wait on this thread for up to `timeout` seconds. Return whether there is an outcome.
    ///
    /// Return False if the operation was abandoned or the timeout has elapsed.
    #[pyo3(signature = (timeout))]
    fn wait(&self, py: Python<'_>, timeout: Option<Number<names::Timeout>>) -> Result<bool> {
        let ended = poll_fn(|context| self.shared.ended(context));
        let claim = Arc::clone(&self.shared);
        Ok(block_on::block_on_for(py, ended, wait_limit(timeout)?, Some(claim))?.unwrap_or_default())
    }

    /// Return the outcome, or raise its exception.
    fn take(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        let outcome = self.shared.state().outcome.take();
        match outcome {
            Some(outcome) => Ok(outcome?(py)?),
            None => {
                Err(PyRuntimeError::new_err("the operation has no result to return: await it exactly once")
                    .into())
            }
        }
    }

    /// Give up the operation: leave the queue, and release a lease that has not been taken.
    fn abandon(&self) {
        // Do nothing in a forked child: no operation makes progress there, and the mutex can stay locked
        // forever if a thread of the parent had locked it at the fork.
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
    /// Locks the state. Ignores poisoning, because a panic cannot leave the state half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a future that is completed when the outcome arrives. Returns `false` if there is an outcome
    /// already.
    fn wait(&self, waiting: WaitingFuture) -> bool {
        let mut state = self.state();
        let pending = state.outcome.is_none();
        if pending {
            state.waiting = Some(waiting);
        }
        pending
    }

    /// Becomes ready when the operation is complete or abandoned. Yields `true` if there is an outcome. Polls
    /// the operation here, because a callback might wait on the delivery thread, which then cannot poll it.
    fn ended(&self, context: &mut Context<'_>) -> Poll<bool> {
        let there = self.poll(context.waker());
        let mut state = self.state();
        if there || state.operation.is_none() {
            return Poll::Ready(state.outcome.is_some());
        }
        state.blocked = Some(context.waker().clone());
        Poll::Pending
    }

    /// Polls the operation. Returns `true` if there is an outcome now.
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

impl Abandonable for Shared {
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
        waiting.is_none_or(|waiting| loop_inbox::complete_through_loop(self, waiting))
    }
}

impl Wake for Shared {
    /// Runs on the core's thread, which must not be delayed, or on the thread of a task that hands its lock
    /// to the next waiter.
    fn wake(self: Arc<Self>) {
        if !same_thread::note(|| Arc::clone(&self) as _) {
            delivery_thread::send(self);
        }
    }
}

impl Woken for Shared {
    /// Completes the future that waits for the outcome, if it belongs to the event loop of this thread.
    fn go_on(self: Arc<Self>) {
        let waiting = self.state().waiting.take();
        let there = self.poll(&Waker::from(Arc::clone(&self)));
        let Some(waiting) = waiting else { return };
        Python::attach(|py| {
            let here = waiting.is_of_this_thread(py).unwrap_or_default();
            if there && here {
                // Fails if the event loop is closed. No task takes the outcome then.
                loop_inbox::complete_here(py, self, &waiting).ok();
                return;
            }
            let mut state = self.state();
            state.waiting = Some(waiting);
            // The outcome might have arrived while `waiting` was empty. In that case the delivery thread did
            // not find the future, so deliver again.
            let there = state.outcome.is_some();
            drop(state);
            if there {
                delivery_thread::send(self);
            }
        });
    }
}
