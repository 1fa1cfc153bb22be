//! Delivers the outcomes of operations to an asyncio event loop. One wake-up of the loop delivers all
//! outcomes that are queued by then. Outcomes that arrive on the loop's own thread need no wake-up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use zklock::internal::{ForkGuard, PerProcess};

use crate::bridge::arrivals::{Arrivals, Arrived};
use crate::bridge::asyncio_tasks;
use crate::modules::interned;

/// A completed operation whose outcome has not been taken yet.
pub(crate) trait Abandonable: Send + Sync {
    /// Drops the outcome, because no task will take it. A dropped lease is released.
    fn abandon(&self);
}

/// A future to complete, and the inbox of its event loop.
pub(crate) struct WaitingFuture {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) future: Py<PyAny>,
}

impl WaitingFuture {
    /// Returns `true` if the event loop of the future runs on this thread.
    pub(crate) fn is_of_this_thread(&self, py: Python<'_>) -> PyResult<bool> {
        let running = asyncio_tasks::running_loop(py)?;
        Ok(running
            .is_some_and(|running| event_loop_of(self.future.bind(py)).is_ok_and(|its| its.is(&running))))
    }
}

fn event_loop_of<'py>(future: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    future.call_method0(interned!(future.py(), "get_loop")?)
}

/// The inbox of an event loop: completed operations, each with the future that waits for it. The delivery
/// thread wakes the loop once for all of them, because each wake-up must wait for the interpreter.
///
/// The inbox exists while a future waits on the loop. It has no Python references other than these futures,
/// so that the garbage collector can find and delete an event loop that no longer runs.
pub(crate) type Inbox = Arrivals<Delivery>;

/// A completed operation, and the future that waits for it.
type Delivery = (Arc<dyn Abandonable>, Py<PyAny>);

/// The inboxes of the event loops on which a future waits, each with the address of its loop.
type Known = Mutex<Vec<(usize, Weak<Inbox>)>>;

impl Inbox {
    /// Returns the inbox of an event loop.
    pub(crate) fn of(event_loop: &Bound<'_, PyAny>) -> Arc<Self> {
        static KNOWN: PerProcess<Known> = PerProcess::new();
        // No other object can have the address of a known loop, because each waiting future and each wake-up
        // keep their loop alive.
        let address = event_loop.as_ptr() as usize;
        // Only threads that are attached to the interpreter lock this mutex, and they stay attached until
        // they unlock it. So it is never locked when another thread forks.
        let mut known = KNOWN.get_or_init(Known::default).lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(of, _)| *of == address).and_then(|(_, inbox)| inbox.upgrade());
        found.unwrap_or_else(|| {
            known.retain(|(_, inbox)| inbox.strong_count() > 0);
            let inbox = Arc::<Self>::default();
            known.push((address, Arc::downgrade(&inbox)));
            inbox
        })
    }
}

/// Queues a future for its event loop, which then completes it. Runs on the delivery thread. Returns `false`
/// if the interpreter no longer exists.
pub(crate) fn complete_through_loop(
    ended: Arc<dyn Abandonable>,
    WaitingFuture { inbox, future }: WaitingFuture,
) -> bool {
    if !inbox.push((ended, future)) {
        // The pending wake-up takes the future. This thread must not drop the future, because it is not
        // attached to the interpreter.
        return true;
    }
    Python::try_attach(|py| WakeUp::send(py, inbox)).is_some()
}

/// Completes a future whose event loop runs on this thread. No wake-up is needed.
pub(crate) fn complete_here(
    py: Python<'_>,
    ended: Arc<dyn Abandonable>,
    waiting: &WaitingFuture,
) -> PyResult<()> {
    let (inbox, stage) = (Arc::clone(&waiting.inbox), Stage::ToCheck(vec![ended]));
    let wake_up = WakeUp::new(waiting.future.bind(py), inbox, stage)?;
    complete(waiting.future.bind(py))?;
    wake_up.get().schedule_again(&wake_up)
}

/// The next step of a wake-up. The steps run in this order.
enum Stage {
    /// Take the queued operations, and complete their futures.
    ToComplete,
    /// Wait until the tasks of these operations have run. Completing a future only schedules its task, and a
    /// loop that is closed discards scheduled tasks, so the outcomes might never be taken.
    ToCheck(Vec<Arc<dyn Abandonable>>),
    /// Done.
    Over,
}

/// The callback that an event loop runs to complete all futures whose outcomes have arrived. It then
/// schedules itself once more, behind the tasks that take the outcomes. If the loop is closed before this
/// second call, it discards the callback and the tasks, so the outcomes are abandoned.
#[pyclass(frozen)]
struct WakeUp {
    event_loop: Py<PyAny>,
    inbox: Arc<Inbox>,
    stage: Mutex<Stage>,
    origin: ForkGuard,
}

impl WakeUp {
    fn new<'py>(future: &Bound<'py, PyAny>, inbox: Arc<Inbox>, stage: Stage) -> PyResult<Bound<'py, Self>> {
        let (event_loop, stage) = (event_loop_of(future)?.unbind(), Mutex::new(stage));
        Bound::new(future.py(), Self { event_loop, inbox, stage, origin: ForkGuard::new() })
    }

    fn send(py: Python<'_>, inbox: Arc<Inbox>) -> PyResult<()> {
        let future = inbox.lock().all().first().map(|(_, future)| future.clone_ref(py));
        let Some(future) = future else { return Ok(()) };
        let wake_up = Self::new(future.bind(py), inbox, Stage::ToComplete)?;
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

    /// Locks the stage. Ignores poisoning, because a panic cannot leave the stage half changed. Only threads
    /// that are attached to the interpreter lock this mutex, and they stay attached until they unlock it.
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the inbox. Returns `None` in a forked child if the parent's delivery thread had locked it at the
    /// fork, because no thread of the child will unlock it.
    fn arrived(&self) -> Option<MutexGuard<'_, Arrived<Delivery>>> {
        if self.origin.is_here() { Some(self.inbox.lock()) } else { self.inbox.try_lock() }
    }

    /// Takes the queued deliveries.
    fn take(&self) -> Vec<Delivery> {
        self.arrived().map(|mut arrived| arrived.take()).unwrap_or_default()
    }

    fn schedule_again(&self, this: &Bound<'_, Self>) -> PyResult<()> {
        let py = this.py();
        self.event_loop.call_method1(py, interned!(py, "call_soon")?, (this,)).map(drop)
    }

    /// Gives up the outcomes that no task has taken.
    fn give_up(&self) {
        let stage = std::mem::replace(&mut *self.stage(), Stage::Over);
        match stage {
            Stage::ToComplete => self.take().into_iter().for_each(|(ended, _)| ended.abandon()),
            Stage::ToCheck(all) => all.iter().for_each(|ended| ended.abandon()),
            Stage::Over => (),
        }
    }
}

#[pymethods]
impl WakeUp {
    fn __call__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let stage = std::mem::replace(&mut *this.stage(), Stage::Over);
        let Stage::ToComplete = stage else { return Ok(()) };
        let (all, futures): (Vec<_>, Vec<_>) = this.take().into_iter().unzip();
        *this.stage() = Stage::ToCheck(all);
        let mut result = Ok(());
        for future in futures {
            // Complete every future, even if one of them fails.
            result = complete(future.bind(py)).and(result);
        }
        this.schedule_again(slf)?;
        result
    }

    /// Also visits the futures that this callback will complete, because the event loop, this callback in it
    /// and the tasks that wait for the futures form a cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        let Ok(stage) = self.stage.try_lock() else { return Ok(()) };
        if let (Stage::ToComplete, Some(arrived)) = (&*stage, self.arrived()) {
            arrived.all().iter().try_for_each(|(_, future)| visit.call(future))?;
        }
        Ok(())
    }
}

fn complete(future: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = future.py();
    if !future.call_method0(interned!(py, "done")?)?.is_truthy()? {
        future.call_method1(interned!(py, "set_result")?, (py.None(),))?;
    }
    Ok(())
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        self.give_up();
    }
}
