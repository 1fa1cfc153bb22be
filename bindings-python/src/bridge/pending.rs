//! An operation in progress. An asyncio task can await it. A thread can also wait for it, and another thread
//! can end that wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyTraceback};
use zklock::internal::ForkGuard;
use zklock::internal::same_thread::{self, Woken};

use crate::args::arguments::wait_limit;
use crate::args::checked::Number;
use crate::args::names;
use crate::bridge::delivery_thread::Deliver;
use crate::bridge::loop_inbox::{Abandonable, Awaited, Inbox};
use crate::bridge::{asyncio_tasks, block_on, delivery_thread, log, loop_inbox, trio};
use crate::contender::Contender;
use crate::errors::Result;
use crate::exit;
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

/// An operation in progress. Await it once for its outcome. Or call `wait()`, and then `take()` once.
///
/// The outcome stays on the Rust side until the task continues. So a lease is released even if its task is
/// cancelled just as the lease arrives, or if the event loop has already stopped.
///
/// It implements the part of `asyncio.Future` that a task uses. A future of asyncio would need another
/// iteration of the event loop between the outcome and the task.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Pending {
    shared: Arc<Shared>,
    /// `true` once a task has awaited the operation.
    awaited: AtomicBool,
    /// `true` once that task has continued.
    ended: AtomicBool,
    /// `true` between the `await` and the moment at which the task has stored its callback.
    blocking: AtomicBool,
    /// The message of the cancellation.
    cancelled: OnceLock<Option<Py<PyAny>>>,
    origin: ForkGuard,
}

/// The state that the awaiting side, the event loop's inbox and the delivery thread share.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The inbox and the event loop of the task that awaits the operation. `Pending` shows the event loop to
    /// the garbage collector.
    place: OnceLock<(Arc<Inbox>, Py<PyAny>)>,
    /// `true` once the event loop has been asked to continue the task.
    called: AtomicBool,
    #[cfg_attr(not(unix), allow(dead_code, reason = "only loops with a doorbell poll operations"))]
    steps: Steps,
}

/// The number of outcomes of the core for which an operation waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Steps {
    /// One. Nothing else must happen before the task continues, so its event loop polls the operation.
    One,
    /// Perhaps several. The delivery thread polls the operation, so that it continues while the loop is
    /// blocked.
    #[default]
    Several,
}

#[derive(Default)]
struct State {
    /// `None` once there is an outcome, or the operation is abandoned.
    operation: Option<Operation>,
    outcome: Option<Outcome>,
    /// The task to continue, until it continues or is cancelled.
    waiting: Option<WaitingTask>,
    /// Waker of a thread that waits until the operation is complete or abandoned.
    blocked: Option<Waker>,
}

/// A task that awaits an operation. A task continues when its callback is called, in its context, with the
/// future that it awaits.
struct WaitingTask {
    callback: Py<PyAny>,
    context: Py<PyAny>,
    future: Py<Pending>,
}

/// The messages of Python for a coroutine that is awaited twice.
const AWAITED_NOW: &str = "coroutine is being awaited already";
const AWAITED_BEFORE: &str = "cannot reuse already awaited coroutine";

impl Pending {
    /// Starts an operation.
    pub(crate) fn start<T: IntoPython>(
        py: Python<'_>,
        begun: impl Future<Output = zklock::Result<T>> + Send + 'static,
    ) -> Result<Self> {
        Self::start_operation(py, operation(begun), Steps::Several)
    }

    pub(crate) fn start_operation(py: Python<'_>, operation: Operation, steps: Steps) -> Result<Self> {
        block_on::begin(py)?;
        let shared = Arc::new(Shared { steps, ..Shared::default() });
        shared.state().operation = Some(operation);
        let pending = Self {
            shared,
            awaited: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            blocking: AtomicBool::new(false),
            cancelled: OnceLock::new(),
            origin: ForkGuard::new(),
        };
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
    fn __await__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let (py, this) = (slf.py(), slf.get());
        // Like a coroutine: a second task would replace the first, which would then wait forever.
        if this.awaited.swap(true, Ordering::Relaxed) {
            let ended = this.ended.load(Ordering::Relaxed);
            return Err(PyRuntimeError::new_err(if ended { AWAITED_BEFORE } else { AWAITED_NOW }));
        }
        if this.shared.is_pending() {
            let running = attribute(&RUNNING, py, "asyncio", "get_running_loop")?;
            let event_loop = running.call0().map_err(|_| trio::no_event_loop(py))?;
            this.shared.place.set((Inbox::of(&event_loop)?, event_loop.unbind())).ok();
        }
        Ok(slf)
    }

    /// Return itself while there is no outcome: the task then calls `add_done_callback`, and waits. After
    /// that, end the iteration with the outcome.
    fn __next__(slf: Bound<'_, Self>) -> Result<Option<Bound<'_, Self>>> {
        let (py, this) = (slf.py(), slf.get());
        let waits = this.shared.place.get().is_some() && this.shared.is_pending();
        this.blocking.store(waits, Ordering::Relaxed);
        if waits {
            return Ok(Some(slf));
        }
        this.ended.store(true, Ordering::Relaxed);
        let outcome = this.take(py)?;
        // The end of an iteration without an exception stands for None, and costs less.
        if outcome.is_none(py) { Ok(None) } else { Err(PyStopIteration::new_err((outcome,)).into()) }
    }

    /// Give up the operation, and raise the exception. A task that is cancelled calls this.
    #[pyo3(signature = (kind, value=None, trace=None, /))]
    fn throw<'py>(
        &self,
        kind: Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        trace: Option<Bound<'py, PyTraceback>>,
    ) -> PyResult<()> {
        self.close();
        let py = kind.py();
        let raised = match value {
            Some(value) if value.is_instance_of::<PyBaseException>() => value,
            Some(value) => kind.call1((value,))?,
            None => kind,
        };
        let error = PyErr::from_value(raised);
        if trace.is_some() {
            error.set_traceback(py, trace);
        }
        Err(error)
    }

    /// Give up the operation. A coroutine that is closed calls this.
    fn close(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.abandon();
    }

    #[getter(_asyncio_future_blocking)]
    fn blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed)
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, blocking: bool) {
        self.blocking.store(blocking, Ordering::Relaxed);
    }

    /// Return the event loop of the task that awaits the operation.
    fn get_loop<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let awaited = self.shared.place.get().map(|(_, event_loop)| event_loop.bind(py));
        awaited.ok_or_else(|| PyRuntimeError::new_err("no task awaits the operation"))
    }

    /// Store the callback that continues the task.
    #[pyo3(signature = (callback, /, *, context))]
    fn add_done_callback(slf: Bound<'_, Self>, callback: Py<PyAny>, context: Py<PyAny>) -> PyResult<()> {
        let this = slf.get();
        let task = WaitingTask { callback, context, future: slf.clone().unbind() };
        // The outcome can have arrived since `__next__`.
        if this.shared.wait(task) && this.shared.is_first_call() {
            loop_inbox::resume_soon(this.get_loop(slf.py())?, Arc::clone(&this.shared) as _)?;
        }
        Ok(())
    }

    /// Give up the operation, and cancel the wait of the task. Return False if no task waits.
    #[pyo3(signature = (msg=None))]
    fn cancel(&self, py: Python<'_>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let waiting = self.shared.state().waiting.take();
        let Some(WaitingTask { callback, context, future }) = waiting else { return Ok(false) };
        self.abandon();
        self.cancelled.set(msg).ok();
        let options = [(interned!(py, "context")?, context)].into_py_dict(py)?;
        let call_soon = interned!(py, "call_soon")?;
        self.get_loop(py)?.call_method(call_soon, (callback, future), Some(&options))?;
        Ok(true)
    }

    /// Return None, or raise `CancelledError`.
    fn result(&self, py: Python<'_>) -> PyResult<()> {
        static CANCELLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let Some(message) = self.cancelled.get() else { return Ok(()) };
        let kind = attribute(&CANCELLED, py, "asyncio", "CancelledError")?;
        let message = message.as_ref().map(|message| message.clone_ref(py));
        let error = message.map_or_else(|| kind.call0(), |message| kind.call1((message,)))?;
        Err(PyErr::from_value(error))
    }

    /// Return whether no task waits any more.
    fn done(&self) -> bool {
        self.shared.state().waiting.is_none()
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
        // After taking it: the error of a client that a signal closes arrives after the signal.
        exit::wait_if_signalled(py);
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

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.shared.place.get().map_or(Ok(()), |(_, event_loop)| visit.call(event_loop))
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if an outcome can still arrive.
    fn is_pending(&self) -> bool {
        self.state().operation.is_some()
    }

    /// Stores a task that continues when the outcome arrives. Returns `true` if it is there already.
    fn wait(&self, waiting: WaitingTask) -> bool {
        let mut state = self.state();
        state.waiting = Some(waiting);
        state.outcome.is_some()
    }

    /// Returns `true` only once: the event loop must be asked to continue the task exactly once.
    fn is_first_call(&self) -> bool {
        !self.called.swap(true, Ordering::Relaxed)
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

impl Awaited for Shared {
    fn resume(self: Arc<Self>, py: Python<'_>) -> PyResult<()> {
        if !self.poll(&Waker::from(Arc::clone(&self))) {
            return Ok(());
        }
        let waiting = self.state().waiting.take();
        let Some(WaitingTask { callback, context, future }) = waiting else { return Ok(()) };
        context.call_method1(py, interned!(py, "run")?, (callback, future)).map(drop)
    }

    #[cfg(unix)]
    fn deliver(self: Arc<Self>) {
        delivery_thread::send(self);
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        let Ok(state) = self.state.try_lock() else { return Ok(()) };
        let Some(WaitingTask { callback, context, future }) = &state.waiting else { return Ok(()) };
        visit.call(callback)?;
        visit.call(context)?;
        visit.call(future)
    }
}

impl Deliver for Shared {
    /// Continues the task that waits for the outcome, through its event loop.
    fn deliver(self: Arc<Self>) -> bool {
        if !self.poll(&Waker::from(Arc::clone(&self))) {
            return true;
        }
        let Some((inbox, event_loop)) = self.place.get().filter(|_| self.is_first_call()) else {
            return true;
        };
        // If a wake-up is pending, it takes this operation, too.
        let wakes = inbox.push(Arc::clone(&self) as _);
        !wakes || Python::try_attach(|py| loop_inbox::wake(event_loop.bind(py), Arc::clone(inbox))).is_some()
    }
}

impl Wake for Shared {
    /// Runs on the core's thread, which must not be delayed, or on the thread of a task that hands its lock
    /// to the next waiter.
    fn wake(self: Arc<Self>) {
        if same_thread::note(|| Arc::clone(&self) as _) {
            return;
        }
        #[cfg(unix)]
        if self.steps == Steps::One
            && let Some((inbox, _)) = self.place.get()
            && inbox.doorbell.ring(inbox, Arc::clone(&self) as _)
        {
            return;
        }
        delivery_thread::send(self);
    }
}

impl Woken for Shared {
    /// Continues the task that waits for the outcome, if its event loop runs on this thread.
    fn go_on(self: Arc<Self>) {
        if !self.poll(&Waker::from(Arc::clone(&self))) {
            return;
        }
        let Some((_, event_loop)) = self.place.get() else { return };
        let here = Python::attach(|py| {
            let running = asyncio_tasks::running_loop(py).ok().flatten();
            let here = running.is_some_and(|running| running.is(event_loop.bind(py)));
            if here && self.is_first_call() {
                // Fails if the event loop is closed. The callback then abandons the outcome.
                loop_inbox::resume_soon(event_loop.bind(py), Arc::clone(&self) as _).ok();
            }
            here
        });
        if !here {
            delivery_thread::send(self);
        }
    }
}
