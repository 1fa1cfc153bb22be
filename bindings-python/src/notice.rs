//! Callbacks for events of a lease, a client or an election.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyWeakrefReference};
use zklock::internal::ForkGuard;
use zklock::{ErrorKind, Leaders, States};

use crate::bridge::delivery_thread::Deliver;
use crate::bridge::log;
use crate::bridge::pending::IntoPython;
use crate::bridge::{delivery_thread, gevent};
use crate::callbacks::Caller;
use crate::errors::{Failure, Result};
use crate::{callbacks, exit};

/// A callback registered with a method such as `Lease.on_lost` or `Client.on_state`.
///
/// >>> notice = client.on_state(lambda state: print("now", state))
/// >>> notice.cancel()
#[pyclass(frozen, module = "zklock")]
pub(crate) struct Notice {
    shared: Arc<Shared>,
    origin: ForkGuard,
}

/// Waits for events, and provides the next step after each of them.
type Watcher = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A registered callback, and the future that waits for its events. `Shared` is also the waker of that
/// future.
struct Shared {
    /// Polled by the thread that calls the callback. `None` after the last event.
    watcher: Mutex<Option<Watcher>>,
    callback: Callback,
    calling_thread: CallingThread,
}

/// The thread that calls the callback.
#[derive(Clone, Copy)]
enum CallingThread {
    /// The callback thread, because a callback of the program can be slow.
    Callbacks,
    /// The delivery thread, for a callback that only notifies an event loop or a gevent hub.
    Delivery,
}

/// The callable, with the flag that cancels it.
#[derive(Clone)]
struct Callback(Arc<Callable>);

struct Callable {
    function: Py<PyAny>,
    cancelled: AtomicBool,
    /// The next step. It is taken before the watcher is polled again.
    due: Mutex<Option<Due>>,
}

enum Due {
    /// Call the function, unless there is no argument any more.
    Call(Argument),
    /// Report this error as if the callback had raised it, and do not call the callback again.
    Fail(zklock::Error),
}

type Argument = Box<dyn for<'py> FnOnce(Python<'py>) -> Option<Bound<'py, PyAny>> + Send>;

impl Callback {
    fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    fn due(&self) -> MutexGuard<'_, Option<Due>> {
        self.0.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `due` the next action, and yields until the watcher is polled again after that action.
    async fn provide(&self, due: Due) {
        *self.due() = Some(due);
        let mut first = true;
        poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    async fn call(
        &self,
        argument: impl for<'py> FnOnce(Python<'py>) -> Option<Bound<'py, PyAny>> + Send + 'static,
    ) {
        self.provide(Due::Call(Box::new(argument))).await;
    }
}

/// A callback of `zklock.aio` that only notifies an event loop. The delivery thread calls it directly.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct NotifyEventLoop(Py<PyAny>);

#[pymethods]
impl NotifyEventLoop {
    #[new]
    fn new(callable: Py<PyAny>) -> Self {
        Self(callable)
    }

    fn __call__(&self, py: Python<'_>, argument: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.0.call1(py, (argument,))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

impl Notice {
    /// Registers `callable`. It is called once, with the lease, when `event` resolves to `true`.
    pub(crate) fn of_lease(
        lease: &Bound<'_, PyAny>,
        event: impl Future<Output = bool> + Send + 'static,
        callable: Py<PyAny>,
    ) -> Result<Self> {
        // Keep only a weak reference: a lease without other references is released, and then there is nothing
        // to report.
        let weak = PyWeakrefReference::new(lease)?.unbind();
        Self::start(lease.py(), callable, |callback| async move {
            if event.await {
                callback.call(move |py| weak.bind(py).upgrade()).await;
            }
        })
    }

    /// Arranges a call of `callable` with each new state of a client.
    pub(crate) fn of_client(py: Python<'_>, mut states: States, callable: Py<PyAny>) -> Result<Self> {
        Self::start(py, callable, |callback| async move {
            while let Some(state) = states.next().await {
                callback.call(move |py| Some(PyString::intern(py, state.as_str()).into_any())).await;
            }
        })
    }

    /// Registers `callable`. It is called now and after each change, with the current leader or `None`.
    pub(crate) fn of_election(py: Python<'_>, mut leaders: Leaders, callable: Py<PyAny>) -> Result<Self> {
        Self::start(py, callable, |callback| async move {
            loop {
                let leader = match leaders.next().await {
                    Ok(leader) => leader,
                    // The observation ends when the client is closed. Any other error must be reported.
                    Err(error) if error.kind() == ErrorKind::ClientClosed => return,
                    Err(error) => return callback.provide(Due::Fail(error)).await,
                };
                callback.call(move |py| Some(leader.into_python(py).ok()?.into_bound(py))).await;
            }
        })
    }

    fn start<F>(py: Python<'_>, callable: Py<PyAny>, watcher: impl FnOnce(Callback) -> F) -> Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Do not check a `NotifyEventLoop`: it is always callable, and every scope of a task creates one, so
        // the check would cost time.
        let only_notifies = callable.bind(py).is_instance_of::<NotifyEventLoop>();
        if !only_notifies {
            py.import("zklock._decorators")?.call_method1("check_callback", (&callable,))?;
        }
        exit::pause(py)?;
        log::refresh(py)?;
        let (callable, calling_thread) = match gevent::callback(py, &callable)? {
            Some(in_greenlet) => (in_greenlet, CallingThread::Delivery),
            None if only_notifies => (callable, CallingThread::Delivery),
            None => (callable, CallingThread::Callbacks),
        };
        match calling_thread {
            CallingThread::Delivery => delivery_thread::start()?,
            CallingThread::Callbacks => callbacks::start(py)?,
        }
        let callable =
            Callable { function: callable, cancelled: AtomicBool::new(false), due: Mutex::default() };
        let callback = Callback(Arc::new(callable));
        let watcher = Mutex::new(Some(Box::pin(watcher(callback.clone())) as Watcher));
        let shared = Arc::new(Shared { watcher, callback, calling_thread });
        shared.begin();
        Ok(Self { shared, origin: ForkGuard::new() })
    }
}

#[pymethods]
impl Notice {
    /// Stop calling the callback. A call that has begun continues.
    ///
    /// >>> notice = client.on_state(lambda state: print("now", state))
    /// >>> notice.cancel()
    fn cancel(&self) {
        // Do nothing in a forked child. No callback runs there, and a thread of the parent might have locked
        // the watcher during the fork.
        if !self.origin.is_here() {
            return;
        }
        self.shared.callback.0.cancelled.store(true, Ordering::Release);
        // If another thread is polling the watcher, that thread will drop it.
        if let Ok(mut watcher) = self.shared.watcher.try_lock() {
            let watcher = watcher.take();
            drop(watcher);
        }
    }
}

impl Shared {
    /// Polls the watcher for the first time, on the calling thread. Usually this only registers a waker. It
    /// wakes another thread only if an event has already happened. A poll runs no Python code, so a thread
    /// that is attached to the interpreter never waits long for the mutex of the watcher.
    fn begin(self: &Arc<Self>) {
        let mut watcher = self.watcher();
        self.poll_watcher(&mut watcher);
        let due = self.callback.due().is_some();
        drop(watcher);
        if due {
            Arc::clone(self).wake();
        }
    }

    /// Returns the next step, or `None` if none is due.
    fn due(self: &Arc<Self>) -> Option<Due> {
        let mut watcher = self.watcher();
        // The watcher is `None` after the last event and after a cancellation. No callback is due in these
        // cases.
        watcher.as_ref()?;
        // First take the action that is already due, because polling the watcher would overwrite it.
        let due = self.callback.due().take();
        due.or_else(|| {
            self.poll_watcher(&mut watcher);
            self.callback.due().take()
        })
    }

    /// Locks the state. Ignores poisoning, because a panic cannot leave a partial change.
    fn watcher(&self) -> MutexGuard<'_, Option<Watcher>> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls the watcher until it waits or provides a step.
    fn poll_watcher(self: &Arc<Self>, watcher: &mut Option<Watcher>) {
        let waker = Waker::from(Arc::clone(self));
        let ended = watcher
            .as_mut()
            .is_some_and(|watcher| watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        if ended || self.callback.is_cancelled() {
            *watcher = None;
        }
    }

    /// Returns the callback that is due, with its argument. Returns `None` if none is due now.
    fn next(self: &Arc<Self>, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
        loop {
            let callable = &self.callback.0.function;
            match self.due()? {
                Due::Fail(error) => {
                    PyErr::from(Failure::from(error)).write_unraisable(py, Some(callable.bind(py)));
                }
                Due::Call(_) if self.callback.is_cancelled() => return None,
                Due::Call(argument) => {
                    if let Some(argument) = argument(py) {
                        return Some((callable.clone_ref(py), argument.unbind()));
                    }
                }
            }
        }
    }
}

impl Caller for Shared {
    fn next_due(self: Arc<Self>, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
        self.next(py)
    }
}

impl Wake for Shared {
    /// Runs on the core's thread, which must not be delayed.
    fn wake(self: Arc<Self>) {
        match self.calling_thread {
            CallingThread::Callbacks => callbacks::send(self),
            CallingThread::Delivery => delivery_thread::send(self),
        }
    }
}

impl Deliver for Shared {
    fn deliver(self: Arc<Self>) -> bool {
        let call = |py: Python<'_>| {
            while let Some((callable, argument)) = self.next(py) {
                if let Err(error) = callable.call1(py, (argument,)) {
                    error.write_unraisable(py, Some(callable.bind(py)));
                }
            }
        };
        Python::try_attach(call).is_some()
    }
}
