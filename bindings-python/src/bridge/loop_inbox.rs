//! Outcomes that have come for an event loop: one wake-up of the loop for all that are there when it gets to them, and none
//! for those that come on its own thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use zklock::internal::{ForkGuard, PerProcess};

use crate::bridge::arrivals::{Arrivals, Arrived};
use crate::bridge::asyncio_tasks;
use crate::modules::interned;

/// An operation with an outcome that waits to be asked for.
pub(crate) trait Ended: Send + Sync {
    /// It will not be asked for.
    fn abandon(&self);
}

/// A future to be completed, and where its event loop is told of that.
pub(crate) struct Waiting {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) future: Py<PyAny>,
}

impl Waiting {
    /// Whether its event loop is the one that runs on this thread.
    pub(crate) fn is_of_this_thread(&self, py: Python<'_>) -> PyResult<bool> {
        let running = asyncio_tasks::running_loop(py)?;
        Ok(running
            .is_some_and(|running| event_loop_of(self.future.bind(py)).is_ok_and(|its| its.is(&running))))
    }
}

fn event_loop_of<'py>(future: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    future.call_method0(interned!(future.py(), "get_loop")?)
}

/// The inbox of an event loop: operations that have ended, and the futures to be completed. The delivery thread, which
/// would have to wait for the interpreter, wakes the loop once for all of them. The inbox exists while something waits on the loop,
/// and refers to no Python object but the futures that its wake-up is to complete: a garbage collector has to see all of a
/// loop that nobody runs any more.
pub(crate) type Inbox = Arrivals<Delivery>;

/// An operation that has ended, and the future that waits for it.
type Delivery = (Arc<dyn Ended>, Py<PyAny>);

/// Of the loops on which something waits.
type Known = Mutex<Vec<(usize, Weak<Inbox>)>>;

impl Inbox {
    /// The inbox of an event loop.
    pub(crate) fn of(event_loop: &Bound<'_, PyAny>) -> Arc<Self> {
        static KNOWN: PerProcess<Known> = PerProcess::new();
        // Not the next object at this address: each future that waits has a reference to the loop, and so has the wake-up.
        let address = event_loop.as_ptr() as usize;
        // Locked by attached threads only, which do not detach meanwhile, so a fork finds it free.
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

/// Has the event loop complete a future; false if there is no longer an interpreter. Runs on the delivery thread.
pub(crate) fn tell(ended: Arc<dyn Ended>, Waiting { inbox, future }: Waiting) -> bool {
    if !inbox.push((ended, future)) {
        // The wake-up that is under way takes it, or has taken it just now: then nothing of Python is left to be dropped here.
        return true;
    }
    Python::try_attach(|py| WakeUp::send(py, inbox)).is_some()
}

/// Completes a future of the event loop that runs on this thread: nothing has to wake it.
pub(crate) fn tell_here(py: Python<'_>, ended: Arc<dyn Ended>, waiting: &Waiting) -> PyResult<()> {
    let (inbox, stage) = (Arc::clone(&waiting.inbox), Stage::ToCheck(vec![ended]));
    let wake_up = WakeUp::new(waiting.future.bind(py), inbox, stage)?;
    complete(waiting.future.bind(py))?;
    wake_up.get().come_by_again(&wake_up)
}

/// What an event loop has to do with outcomes that have come, in this order.
enum Stage {
    /// To complete their futures.
    ToComplete,
    /// To come by once more. Until then the outcomes may not have been asked for: completing a future only puts its task
    /// behind what the loop has to do, and a loop that is closed throws that out.
    ToCheck(Vec<Arc<dyn Ended>>),
    /// Nothing.
    Over,
}

/// What the event loop calls to complete all futures whose outcomes have come, and once more when their tasks have run.
/// If it throws this out instead, because it is closed, nobody will ask for the outcomes, and they are given up.
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
        // Fails when the event loop is closed.
        let woken = event_loop.call_method1(py, interned!(py, "call_soon_threadsafe")?, (&wake_up,));
        // If it is closed in the middle of that call, it has thrown out what it had before this was put there, where it
        // stays for as long as anybody has a reference to the loop.
        if woken.is_err() || event_loop.call_method0(py, interned!(py, "is_closed")?)?.is_truthy(py)? {
            wake_up.get().give_up();
        }
        Ok(())
    }

    /// A panic cannot leave half a change in it. Locked by attached threads only, which do not detach meanwhile.
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None while somebody has locked what nobody will unlock: the parent's delivery thread, when this process was forked.
    fn arrived(&self) -> Option<MutexGuard<'_, Arrived<Delivery>>> {
        if self.origin.is_here() { Some(self.inbox.lock()) } else { self.inbox.try_lock() }
    }

    /// What has come, the only time.
    fn take(&self) -> Vec<Delivery> {
        self.arrived().map(|mut arrived| arrived.take()).unwrap_or_default()
    }

    /// Has the event loop call this, behind the tasks whose futures are complete.
    fn come_by_again(&self, this: &Bound<'_, Self>) -> PyResult<()> {
        let py = this.py();
        self.event_loop.call_method1(py, interned!(py, "call_soon")?, (this,)).map(drop)
    }

    /// The outcomes will not be asked for, unless they have been.
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
            // Each is told, whatever becomes of the others.
            result = complete(future.bind(py)).and(result);
        }
        this.come_by_again(slf)?;
        result
    }

    /// With the futures, as long as this is what they wait for: an event loop, this in it, and its tasks are one cycle.
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
