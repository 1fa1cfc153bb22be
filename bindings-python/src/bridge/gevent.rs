//! Greenlets, where gevent runs: many flows of control on one thread, which take turns in waiting.
//!
//! Each is an owner of its own, and a wait of one lets the others run. gevent is never imported here: what it needs is
//! in `zklock/_gevent.py`, which is imported once the program has imported gevent.

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
use crate::bridge::loop_inbox::Ended;
use crate::bridge::owner::{Left, Owner};
use crate::bridge::{owner, owner_names};
use crate::errors::Failure;
use crate::exit;
use crate::modules::{imported, interned, once};

/// What is needed of `zklock/_gevent.py`.
struct Gevent {
    hub: Py<PyAny>,
    owner: Py<PyAny>,
    name: Py<PyAny>,
    reference: Py<PyAny>,
    parker: Py<PyAny>,
    in_greenlet: Py<PyAny>,
}

/// gevent, if this program has imported it. Otherwise this costs one look into a dictionary.
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

/// The owner that is calling: the thread, or its greenlet if that is not the thread's first one.
///
/// That does not depend on what is patched, nor on whether this thread has a hub yet: it must be the same owner that
/// acquires and releases.
pub(crate) enum Caller<'py> {
    Thread,
    Greenlet(Bound<'py, Owner>),
}

/// A weak reference to the calling greenlet; None if the owner is the thread.
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

    /// The same owner, under the name that it has now.
    pub(crate) fn named(&self, py: Python<'_>) -> PyResult<zklock::Owner> {
        let name = match (self, gevent(py)?) {
            (Self::Greenlet(_), Some(gevent)) => owner_names::given_by(gevent.name.bind(py))?,
            _ => owner_names::of_thread(py)?,
        };
        Ok(self.owner().named(name))
    }

    /// Notes that it acquired something through this lock object, which it is to release itself.
    pub(crate) fn uses<L: Left + 'static>(&self, lock: &Arc<L>) {
        match self {
            Self::Thread => owner::this_thread_uses(lock),
            Self::Greenlet(owner) => owner.get().uses(lock),
        }
    }
}

/// The owner that is calling.
pub(crate) fn caller(py: Python<'_>) -> PyResult<OwnerId> {
    Ok(Caller::find(py)?.owner())
}

/// Has a callback called in a greenlet of its own, if the calling thread has greenlets: what they may call, such as a
/// patched `Event.set` or our own waits, belongs there. Otherwise None.
pub(crate) fn callback(py: Python<'_>, callable: &Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let Some(gevent) = gevent(py)?.filter(|_| !delivery_thread::is_thread_of_ours()) else { return Ok(None) };
    let called = gevent.in_greenlet.call1(py, (callable, exit::is_main_thread(py)?))?;
    Ok((!called.is(callable)).then_some(called))
}

/// Where greenlets wait, and others run meanwhile.
pub(crate) struct Hub<'py> {
    hub: Bound<'py, PyAny>,
    gevent: &'py Gevent,
}

impl<'py> Hub<'py> {
    /// The calling thread's hub. Without one it has no other greenlets, such as a thread of gevent's pool. Our own
    /// threads never wait in a hub, even if a callback made one: the delivery thread would have to wake itself.
    pub(crate) fn of_this_thread(py: Python<'py>) -> PyResult<Option<Self>> {
        refuse_eventlet(py)?;
        let Some(gevent) = gevent(py)?.filter(|_| !delivery_thread::is_thread_of_ours()) else {
            return Ok(None);
        };
        let hub = gevent.hub.bind(py).call0()?;
        Ok((!hub.is_none()).then_some(Self { hub, gevent }))
    }

    /// Waits for `future`, for no longer than `limit`, while the thread's other greenlets run. What ends the wait with
    /// an exception, as `gevent.Timeout` and `kill` do, drops the future, which so has left the queue.
    ///
    /// The future is not on the stack: while others run, their stacks are where this one's was, but the core's thread
    /// goes on using what is in a future.
    ///
    /// `claim`: what is given up if the hub ends during the wait, which then never ends.
    pub(crate) fn wait<F>(
        &self,
        mut future: Pin<Box<F>>,
        limit: Option<Duration>,
        claim: Option<Arc<dyn Ended>>,
    ) -> PyResult<Option<F::Output>>
    where
        F: Future<Output: Send> + Send,
    {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        // What needs no answer from a server, such as re-entry, is done at once.
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(Some(output));
        }
        let py = self.hub.py();
        log::refresh(py)?;
        delivery_thread::start().map_err(PyErr::from)?;
        let origin = ForkGuard::new();
        let give_up = claim.map(|claim| Bound::new(py, GiveUp { claim, origin })).transpose()?;
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
                let message =
                    "the process was forked during this wait, which is the parent's; begin it again";
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
            // One of the parent's threads may have had it locked.
            std::mem::forget(future);
        }
        outcome
    }

    /// Waits for what is then the greenlet's own, such as a lease: if the hub ends first, nobody would ever take it, nor
    /// let go of it.
    pub(crate) fn wait_to_own<F>(&self, future: F) -> PyResult<Option<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let claim = Arc::new(Claim(Mutex::new(Some(Box::pin(future)))));
        let (origin, polled) = (ForkGuard::new(), Arc::clone(&claim));
        let outcome =
            self.wait(Box::pin(poll_fn(move |context| polled.poll(context))), None, Some(claim.clone()));
        // Now, and not when the last reference goes: a traceback may have one.
        if origin.is_here() {
            claim.abandon();
        }
        outcome
    }
}

/// What a greenlet waits for, where somebody else can give it up.
struct Claim<F>(Mutex<Option<Pin<Box<F>>>>);

impl<F: Future> Claim<F> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<F::Output> {
        // A panic ends the wait. Locked by attached threads only, which do not detach meanwhile.
        let mut future = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        future.as_mut().map_or(Poll::Pending, |future| future.as_mut().poll(context))
    }
}

impl<F: Future + Send> Ended for Claim<F> {
    fn abandon(&self) {
        let future = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(future);
    }
}

/// What the end of a hub calls for a wait in it: the greenlet never runs again, and so never leaves the queue itself.
#[pyclass(frozen)]
struct GiveUp {
    claim: Arc<dyn Ended>,
    origin: ForkGuard,
}

#[pymethods]
impl GiveUp {
    fn __call__(&self) {
        // In a forked child it is the parent's, one of whose threads may have had it locked.
        if self.origin.is_here() {
            self.claim.abandon();
        }
    }
}

/// Wakes a greenlet from any thread, through the delivery thread: gevent is told with the interpreter's help, for which
/// the core's thread never waits.
struct Unpark(Mutex<Option<Py<PyAny>>>);

impl Unpark {
    /// A panic cannot leave half a change in it.
    fn lock(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of the wait. Taken here, where the interpreter is, and not dropped by the last waker, which may be the
    /// core's.
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
            // Refused once the hub is gone, and with it the greenlet.
            unpark.map(|unpark| unpark.call0(py).ok())
        });
        unparked.is_some()
    }
}

/// Fails where eventlet's greenlets would be one owner, and one's wait would stop them all.
pub(crate) fn refuse_eventlet(py: Python<'_>) -> PyResult<()> {
    if imported(interned!(py, "eventlet.hubs")?)?.is_some() {
        py.import("zklock._eventlet")?.call_method0("refuse")?;
    }
    Ok(())
}
