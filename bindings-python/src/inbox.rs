//! What has come for an event loop: one wake-up of the loop for all that is there when it gets to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::prelude::*;
use zklock::binding::{Origin, PerProcess};

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

/// What has come for an event loop. It exists while something waits on the loop.
pub(crate) struct Inbox {
    event_loop: Py<PyAny>,
    arrived: Mutex<Arrived>,
}

#[derive(Default)]
struct Arrived {
    /// Operations that have ended, and the futures to be completed.
    completed: Vec<(Arc<dyn Ended>, Py<PyAny>)>,
    /// The loop has been woken and has not come yet. Meanwhile whatever comes is only put here: neither the loop nor
    /// the delivery thread, which would have to wait for the interpreter, is disturbed for it.
    waking: bool,
}

/// Of the loops on which something waits.
type Known = Mutex<Vec<(usize, Weak<Inbox>)>>;

impl Inbox {
    /// The inbox of an event loop.
    pub(crate) fn of(event_loop: &Bound<'_, PyAny>) -> Arc<Self> {
        static KNOWN: PerProcess<Known> = PerProcess::new();
        // Not the next object at this address: as long as there is an inbox, there is its loop.
        let address = event_loop.as_ptr() as usize;
        // Locked by attached threads only, which do not detach meanwhile, so a fork finds it free.
        let mut known = KNOWN.get_or_init(Known::default).lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(of, _)| *of == address).and_then(|(_, inbox)| inbox.upgrade());
        found.unwrap_or_else(|| {
            known.retain(|(_, inbox)| inbox.strong_count() > 0);
            let event_loop = event_loop.clone().unbind();
            let inbox = Arc::new(Self { event_loop, arrived: Mutex::default() });
            known.push((address, Arc::downgrade(&inbox)));
            inbox
        })
    }

    /// A panic cannot leave half a change in it.
    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the event loop complete a future; false if there is no longer an interpreter. Runs on the delivery thread.
pub(crate) fn tell(ended: Arc<dyn Ended>, Waiting { inbox, future }: Waiting) -> bool {
    let mut arrived = inbox.arrived();
    arrived.completed.push((ended, future));
    let waking = std::mem::replace(&mut arrived.waking, true);
    drop(arrived);
    if waking {
        // The loop has a reference to the inbox until it comes, which may just have happened. Then this is the last one,
        // and Python objects are dropped by attached threads only.
        return Arc::into_inner(inbox).is_none_or(|last| Python::try_attach(|_| drop(last)).is_some());
    }
    let told = Python::try_attach(|py| {
        let wake_up =
            WakeUp { inbox: Arc::clone(&inbox), called: AtomicBool::new(false), origin: Origin::new() };
        let Ok(name) = interned!(py, "call_soon_threadsafe") else { return };
        // Fails when the event loop is closed. The wake-up is dropped then.
        inbox.event_loop.call_method1(py, name, (wake_up,)).ok();
        drop(inbox);
    });
    told.is_some()
}

/// What the event loop calls to complete all futures whose outcomes have come.
#[pyclass(frozen)]
struct WakeUp {
    inbox: Arc<Inbox>,
    called: AtomicBool,
    origin: Origin,
}

impl WakeUp {
    /// What has come, the first time.
    fn take(&self) -> Vec<(Arc<dyn Ended>, Py<PyAny>)> {
        if self.called.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        let mut arrived = if self.origin.is_here() {
            self.inbox.arrived()
        } else {
            // The parent's delivery thread may have had it locked when this process was forked.
            let Ok(arrived) = self.inbox.arrived.try_lock() else { return Vec::new() };
            arrived
        };
        arrived.waking = false;
        std::mem::take(&mut arrived.completed)
    }
}

#[pymethods]
impl WakeUp {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let mut result = Ok(());
        for (ended, future) in self.take() {
            drop(ended);
            // Each is told, whatever becomes of the others.
            result = complete(future.bind(py)).and(result);
        }
        result
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
        // Dropped without a call: the event loop is closed, and the outcomes will never be asked for.
        for (ended, _) in self.take() {
            ended.abandon();
        }
    }
}
