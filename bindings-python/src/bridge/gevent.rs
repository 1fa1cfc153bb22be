//! Support for gevent's greenlets: cooperative tasks that share a thread.
//!
//! Each greenlet is a separate owner. While one waits, the others run. This module never imports gevent: the
//! Python part is `zklock/_gevent.py`, which is imported only after the program has imported gevent.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zklock::ErrorKind;
use zklock::internal::{ForkGuard, OwnerId, error};

use crate::bridge::delivery_thread;
use crate::bridge::delivery_thread::Deliver;
use crate::bridge::log;
use crate::bridge::loop_inbox::Abandonable;
use crate::bridge::owner::{Owner, OwnerEndListener};
use crate::bridge::{owner, owner_names};
use crate::errors::Failure;
use crate::exit;
use crate::modules::{imported, interned, once};

/// The functions and classes of `zklock/_gevent.py` that this module uses.
struct Gevent {
    hub: Py<PyAny>,
    owner: Py<PyAny>,
    name: Py<PyAny>,
    reference: Py<PyAny>,
    parker: Py<PyAny>,
    in_greenlet: Py<PyAny>,
}

/// Returns gevent's functions if the program has imported gevent. In a program without gevent, a call costs
/// one dictionary lookup.
fn gevent(py: Python<'_>) -> PyResult<Option<&Gevent>> {
    static GEVENT: PyOnceLock<Gevent> = PyOnceLock::new();
    if let Some(gevent) = GEVENT.get(py) {
        return Ok(Some(gevent));
    }
    if imported(interned!(py, "gevent._hub_local")?)?.is_none() {
        return Ok(None);
    }
    let module = py.import("zklock._gevent")?;
    let found = |name| module.getattr(name).map(Bound::unbind);
    let gevent = Gevent {
        hub: found("get_hub_if_exists")?,
        owner: found("owner")?,
        name: found("name")?,
        reference: found("reference")?,
        parker: found("Parker")?,
        in_greenlet: found("in_greenlet")?,
    };
    once(&GEVENT, py, || Ok(gevent)).map(Some)
}

/// The calling owner: the thread, or a greenlet other than the thread's main greenlet.
///
/// The result does not depend on monkey patching, or on whether the thread has a hub yet, because a program
/// can change both between an acquire and its release.
pub(crate) enum Caller<'py> {
    Thread,
    Greenlet(Bound<'py, Owner>),
}

/// Returns a weak reference to the calling greenlet, or `None` if the owner is the thread.
pub(crate) fn reference(py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    let Some(gevent) = gevent(py)? else { return Ok(None) };
    let reference = gevent.reference.call0(py)?;
    Ok((!reference.is_none(py)).then_some(reference))
}

impl<'py> Caller<'py> {
    pub(crate) fn find(py: Python<'py>) -> PyResult<Self> {
        if let Some(gevent) = gevent(py)? {
            let owner = gevent.owner.bind(py).call0()?;
            if !owner.is_none() {
                return Ok(Self::Greenlet(owner.cast_into()?));
            }
        }
        Ok(Self::Thread)
    }

    pub(crate) fn owner(&self) -> OwnerId {
        match self {
            Self::Thread => owner::this_thread(),
            Self::Greenlet(owner) => owner.get().id,
        }
    }

    /// Returns the same owner with its current name.
    pub(crate) fn named(&self, py: Python<'_>) -> PyResult<zklock::Owner> {
        let name = match (self, gevent(py)?) {
            (Self::Greenlet(_), Some(gevent)) => owner_names::name_from(gevent.name.bind(py))?,
            _ => owner_names::of_thread(py)?,
        };
        Ok(self.owner().named(name))
    }

    /// Records that the owner acquired a lock through this lock object, and that no `with` block will release
    /// it.
    pub(crate) fn record_use<L: OwnerEndListener + 'static>(&self, lock: &Arc<L>) {
        match self {
            Self::Thread => owner::record_use_by_this_thread(lock),
            Self::Greenlet(owner) => owner.get().record_use(lock),
        }
    }
}

/// Returns the calling owner.
pub(crate) fn caller(py: Python<'_>) -> PyResult<OwnerId> {
    Ok(Caller::find(py)?.owner())
}

/// Returns a wrapper that calls a callback in a new greenlet, if the calling thread has greenlets. Otherwise
/// returns `None`. A callback needs a greenlet if it calls a patched `Event.set`, or waits for a lock.
pub(crate) fn callback(py: Python<'_>, callable: &Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let Some(gevent) = gevent(py)?.filter(|_| !delivery_thread::is_binding_thread()) else { return Ok(None) };
    let called = gevent.in_greenlet.call1(py, (callable, exit::is_main_thread(py)?))?;
    Ok((!called.is(callable)).then_some(called))
}

/// The hub of a thread: greenlets wait in it while other greenlets run.
pub(crate) struct Hub<'py> {
    hub: Bound<'py, PyAny>,
    gevent: &'py Gevent,
}

impl<'py> Hub<'py> {
    /// Returns the hub of the calling thread. A thread without a hub, such as a thread of gevent's pool, has
    /// no other greenlets. The binding's own threads never wait in a hub, even if a callback created one,
    /// because the delivery thread would then have to wake itself.
    pub(crate) fn of_this_thread(py: Python<'py>) -> PyResult<Option<Self>> {
        refuse_eventlet(py)?;
        let Some(gevent) = gevent(py)?.filter(|_| !delivery_thread::is_binding_thread()) else {
            return Ok(None);
        };
        let hub = gevent.hub.bind(py).call0()?;
        Ok((!hub.is_none()).then_some(Self { hub, gevent }))
    }

    /// Waits for `future` up to `limit`, while the other greenlets of the thread run. If an exception such as
    /// `gevent.Timeout` or `GreenletExit` ends the wait, the future is dropped, so the waiter leaves the
    /// queue.
    ///
    /// The future is on the heap, because gevent reuses the greenlet's stack while the core's thread still
    /// accesses the future.
    ///
    /// If the hub is destroyed during the wait, the wait never returns, and `claim` (the operation for which
    /// the greenlet waits) is abandoned.
    pub(crate) fn wait<F>(
        &self,
        mut future: Pin<Box<F>>,
        limit: Option<Duration>,
        claim: Option<Arc<dyn Abandonable>>,
    ) -> PyResult<Option<F::Output>>
    where
        F: Future<Output: Send> + Send,
    {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        // An operation that needs no reply from a server, such as re-entry, completes on the first poll.
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(Some(output));
        }
        let py = self.hub.py();
        log::refresh(py)?;
        delivery_thread::start().map_err(PyErr::from)?;
        let origin = ForkGuard::new();
        let give_up = claim.map(|claim| Bound::new(py, AbandonOnHubEnd { claim, origin })).transpose()?;
        let parker = self.gevent.parker.bind(py).call1((&self.hub, give_up))?;
        let unpark = Arc::new(Unpark(Mutex::new(Some(parker.getattr(interned!(py, "unpark")?)?.unbind()))));
        let waker = Waker::from(Arc::clone(&unpark));
        let outcome = loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                break Ok(Some(output));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break Ok(None);
            }
            let waited = parker.call_method1(interned!(py, "park")?, (left.map(|left| left.as_secs_f64()),));
            if !origin.is_here() {
                let message = "the process was forked during this wait, which belongs to the parent process; call it again";
                break Err(waited
                    .err()
                    .unwrap_or_else(|| Failure::from(error(ErrorKind::Forked, message)).into()));
            }
            if let Err(error) = waited {
                break Err(error);
            }
        };
        drop(unpark.take());
        parker.call_method0(interned!(py, "close")?)?;
        if !origin.is_here() {
            // In a forked child, do not drop the future, because a thread of the parent might have locked it.
            std::mem::forget(future);
        }
        outcome
    }

    /// Waits for a result that the greenlet must release, such as a lease. If the hub is destroyed first, the
    /// result is dropped, because no greenlet would ever take or release it.
    pub(crate) fn wait_to_own<F>(&self, future: F) -> PyResult<Option<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let claim = Arc::new(Claim(Mutex::new(Some(Box::pin(future)))));
        let (origin, polled) = (ForkGuard::new(), Arc::clone(&claim));
        let outcome =
            self.wait(Box::pin(poll_fn(move |context| polled.poll(context))), None, Some(claim.clone()));
        // Drop the future now, because a traceback might keep the last reference to it for a long time.
        if origin.is_here() {
            claim.abandon();
        }
        outcome
    }
}

/// A future that a greenlet waits for, and that is dropped if the greenlet's hub is destroyed.
struct Claim<F>(Mutex<Option<Pin<Box<F>>>>);

impl<F: Future> Claim<F> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<F::Output> {
        // Ignore poisoning: after a panic, the future is not polled again. Only threads that are attached to
        // the interpreter lock this mutex, and they stay attached until they unlock it.
        let mut future = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        future.as_mut().map_or(Poll::Pending, |future| future.as_mut().poll(context))
    }
}

impl<F: Future + Send> Abandonable for Claim<F> {
    fn abandon(&self) {
        let future = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(future);
    }
}

/// The callable that runs for each waiting greenlet when gevent's hub is destroyed. The waiting greenlet
/// never runs again, so it cannot leave the queue itself.
#[pyclass(frozen)]
struct AbandonOnHubEnd {
    claim: Arc<dyn Abandonable>,
    origin: ForkGuard,
}

#[pymethods]
impl AbandonOnHubEnd {
    fn __call__(&self) {
        // In a forked child this claim belongs to the parent, and a thread of the parent might have locked
        // it.
        if self.origin.is_here() {
            self.claim.abandon();
        }
    }
}

/// Wakes a greenlet from any thread. The delivery thread calls gevent, because that needs the interpreter,
/// and the core's thread never waits for the interpreter.
struct Unpark(Mutex<Option<Py<PyAny>>>);

impl Unpark {
    /// Locks the state. Ignores poisoning, because a panic cannot leave the state half changed.
    fn lock(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the wait, and returns the Python object. The caller must drop it while it is attached to the
    /// interpreter. Otherwise the last waker would drop it, perhaps on the core's thread, which is not
    /// attached.
    fn take(&self) -> Option<Py<PyAny>> {
        self.lock().take()
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        delivery_thread::send(self);
    }
}

impl Deliver for Unpark {
    fn deliver(self: Arc<Self>) -> bool {
        let unparked = Python::try_attach(|py| {
            let unpark = self.lock().as_ref().map(|unpark| unpark.clone_ref(py));
            // Fails if the greenlet's hub no longer exists.
            unpark.map(|unpark| unpark.call0(py).ok())
        });
        unparked.is_some()
    }
}

/// Fails if eventlet runs. All greenlets of a thread would be one owner, and a wait in one greenlet would
/// block all of them.
pub(crate) fn refuse_eventlet(py: Python<'_>) -> PyResult<()> {
    if imported(interned!(py, "eventlet.hubs")?)?.is_some() {
        py.import("zklock._eventlet")?.call_method0("refuse")?;
    }
    Ok(())
}
