//! Continues the tasks of an asyncio event loop whose operations are complete. One wake-up of the loop
//! continues the tasks of all operations that are queued by then. The delivery thread wakes loops that have no
//! doorbell. A task of a loop on the current thread needs no wake-up.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use zklock::internal::{ForkGuard, PerProcess};

use crate::bridge::arrivals::{Arrivals, Arrived};
#[cfg(unix)]
use crate::bridge::doorbell::{self, Doorbell};
use crate::modules::interned;

/// A completed operation whose outcome has not been taken yet.
pub(crate) trait Abandonable: Send + Sync {
    /// Drops the outcome, because no task will take it. A dropped lease is released.
    fn abandon(&self);
}

/// A completed operation that a task of an event loop waits for.
pub(crate) trait Awaited: Abandonable {
    /// Continues the task, if the operation is complete. Runs on the thread of the event loop, outside of any
    /// task.
    fn resume(self: Arc<Self>, py: Python<'_>) -> PyResult<()>;

    /// Passes the operation to the delivery thread.
    #[cfg(unix)]
    fn deliver(self: Arc<Self>);

    /// Visits the Python objects that the operation needs to continue its task.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

/// The inbox of an event loop: operations that can make progress. The loop is woken once for all of them, by
/// its doorbell or by the delivery thread. Operations that the delivery thread has put there are complete.
///
/// The inbox exists while a task of the loop waits or the loop watches its doorbell. It keeps no loop alive, so
/// that the garbage collector can find and delete an event loop that no longer runs.
#[derive(Default)]
pub(crate) struct Inbox {
    arrivals: Arrivals<Arc<dyn Awaited>>,
    #[cfg(unix)]
    pub(crate) doorbell: Doorbell,
    /// A weak reference to the loop, because the doorbell can outlive the loop. `None` if the loop does not
    /// support weak references: it then has no doorbell.
    event_loop: Option<Py<PyWeakrefReference>>,
}

impl Deref for Inbox {
    type Target = Arrivals<Arc<dyn Awaited>>;

    fn deref(&self) -> &Self::Target {
        &self.arrivals
    }
}

/// The inboxes of the event loops on which a task waits, each with the address of its loop.
type Known = Mutex<Vec<(usize, Weak<Inbox>)>>;

impl Inbox {
    /// Returns the inbox of an event loop.
    pub(crate) fn of(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        static KNOWN: PerProcess<Known> = PerProcess::new();
        // Usually no other object has the address of a known loop, because each waiting task and each wake-up
        // keep their loop alive.
        let address = event_loop.as_ptr() as usize;
        // Only threads that are attached to the interpreter lock this mutex, and they stay attached until
        // they unlock it. So it is never locked when another thread forks.
        let mut known = KNOWN.get_or_init(Known::default).lock().unwrap_or_else(PoisonError::into_inner);
        let mut same = known.iter().filter(|(of, _)| *of == address).filter_map(|(_, inbox)| inbox.upgrade());
        if let Some(found) = same.find(|inbox| inbox.is_of(event_loop)) {
            return Ok(found);
        }
        known.retain(|(_, inbox)| inbox.strong_count() > 0);
        let weak = PyWeakrefReference::new(event_loop).ok().map(Bound::unbind);
        let inbox = Arc::new(Self { event_loop: weak, ..Self::default() });
        known.push((address, Arc::downgrade(&inbox)));
        drop(known);
        #[cfg(unix)]
        if inbox.event_loop.is_some() {
            doorbell::install(event_loop, &inbox)?;
        }
        Ok(inbox)
    }

    /// Returns `true` if this is the inbox of the loop, and not of an earlier loop with the same address.
    fn is_of(&self, event_loop: &Bound<'_, PyAny>) -> bool {
        let Some(weak) = &self.event_loop else { return true };
        weak.bind(event_loop.py()).upgrade().is_some_and(|found| found.is(event_loop))
    }
}

/// Wakes an event loop, which then continues the tasks of all operations in its inbox. Runs on the delivery
/// thread.
pub(crate) fn wake(event_loop: &Bound<'_, PyAny>, inbox: Arc<Inbox>) -> PyResult<()> {
    let py = event_loop.py();
    let (event_loop, called) = (event_loop.clone().unbind(), AtomicBool::new(false));
    let wake_up = Bound::new(py, WakeUp { event_loop, inbox, called, origin: ForkGuard::new() })?;
    let event_loop = &wake_up.get().event_loop;
    // Fails if the event loop is closed.
    let woken = event_loop.call_method1(py, interned!(py, "call_soon_threadsafe")?, (&wake_up,));
    // If the loop was closed during the call above, it had already discarded its callbacks. So it will
    // neither run nor discard this callback.
    if woken.is_err() || event_loop.call_method0(py, interned!(py, "is_closed")?)?.is_truthy(py)? {
        wake_up.get().give_up();
    }
    Ok(())
}

/// The callback that an event loop runs to continue the tasks whose outcomes have arrived. If the loop
/// discards the callback, because it is closed or was collected, the outcomes are abandoned.
#[pyclass(frozen)]
struct WakeUp {
    event_loop: Py<PyAny>,
    inbox: Arc<Inbox>,
    called: AtomicBool,
    origin: ForkGuard,
}

impl WakeUp {
    /// Locks the inbox. Returns `None` in a forked child if the parent's delivery thread had locked it at the
    /// fork, because no thread of the child will unlock it.
    fn arrived(&self) -> Option<MutexGuard<'_, Arrived<Arc<dyn Awaited>>>> {
        if self.origin.is_here() { Some(self.inbox.lock()) } else { self.inbox.try_lock() }
    }

    /// Gives up the outcomes that no task has taken.
    fn give_up(&self) {
        if !self.called.swap(true, Ordering::Relaxed) {
            let left = self.arrived().map(|mut arrived| arrived.take()).unwrap_or_default();
            for operation in left {
                operation.abandon();
            }
        }
    }
}

#[pymethods]
impl WakeUp {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.called.store(true, Ordering::Relaxed);
        let operations = self.arrived().map(|mut arrived| arrived.take()).unwrap_or_default();
        resume_all(self.event_loop.bind(py), operations)
    }

    /// Also visits the tasks that this callback will continue, because the event loop, this callback in it
    /// and the tasks form a cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        if self.called.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some(arrived) = self.arrived() else { return Ok(()) };
        arrived.all().iter().try_for_each(|operation| operation.traverse(&visit))
    }
}

/// Continues the tasks of these operations.
pub(crate) fn resume_all(
    event_loop: &Bound<'_, PyAny>,
    mut operations: Vec<Arc<dyn Awaited>>,
) -> PyResult<()> {
    // The only task continues here, which saves an iteration of the loop. Several tasks get a callback
    // each: a task can run the loop within its own step, and that loop must find the others.
    if operations.len() == 1
        && let Some(operation) = operations.pop()
    {
        return operation.resume(event_loop.py());
    }
    let mut result = Ok(());
    for operation in operations {
        // Continue every task, even if the callback of one of them cannot be scheduled.
        result = resume_soon(event_loop, operation).and(result);
    }
    result
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Continues a task of an event loop that runs on this thread, after the current callback.
pub(crate) fn resume_soon(event_loop: &Bound<'_, PyAny>, operation: Arc<dyn Awaited>) -> PyResult<()> {
    let py = event_loop.py();
    let resume = Bound::new(py, Resume { operation: Mutex::new(Some(operation)), origin: ForkGuard::new() })?;
    event_loop.call_method1(interned!(py, "call_soon")?, (resume,)).map(drop)
}

/// The callback that continues one task. If the event loop discards it, the outcome is abandoned.
#[pyclass(frozen)]
struct Resume {
    operation: Mutex<Option<Arc<dyn Awaited>>>,
    origin: ForkGuard,
}

impl Resume {
    /// Takes the operation. Only threads that are attached to the interpreter lock this mutex, and they stay
    /// attached until they unlock it.
    fn take(&self) -> Option<Arc<dyn Awaited>> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Resume {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.take().map_or(Ok(()), |operation| operation.resume(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(operation) = self.operation.try_lock() else { return Ok(()) };
        operation.iter().try_for_each(|operation| operation.traverse(&visit))
    }
}

impl Drop for Resume {
    fn drop(&mut self) {
        if let Some(operation) = self.take().filter(|_| self.origin.is_here()) {
            operation.abandon();
        }
    }
}
