//! How an event loop is woken for what has come for it.
//!
//! A loop of asyncio's own has a bell, which it hears as it hears a socket. Others are woken by the delivery thread, as
//! any thread wakes them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zklock::binding::Origin;

use crate::bell::{self, Ear};
use crate::inbox::{Ended, Inbox};
use crate::modules::{attribute, interned};

/// The process in which this module was imported.
static IMPORTED: OnceLock<Origin> = OnceLock::new();

/// Call this when the module is imported.
pub(crate) fn imported() {
    IMPORTED.get_or_init(Origin::new);
}

/// The inbox of an event loop. Call it on the loop's thread.
pub(crate) fn inbox_of(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Inbox>> {
    let address = event_loop.as_ptr() as usize;
    if let Some(inbox) = Inbox::find(address) {
        return Ok(inbox);
    }
    let inbox = Reader::install(event_loop)?.unwrap_or_default();
    inbox.found_at(address);
    Ok(inbox)
}

/// Has the event loop come for what was put into its inbox. For the delivery thread, where there is no bell.
pub(crate) fn send(py: Python<'_>, inbox: Arc<Inbox>) -> PyResult<()> {
    let Some(future) = inbox.any(py) else { return Ok(()) };
    let origin = Origin::new();
    let event_loop = future.call_method0(py, interned!(py, "get_loop")?)?;
    let stage = Mutex::new(Stage::ToComplete);
    let wake_up = WakeUp { event_loop: event_loop.clone_ref(py), inbox, stage, origin };
    let wake_up = Bound::new(py, wake_up)?;
    // Fails when the event loop is closed.
    let woken = event_loop.call_method1(py, interned!(py, "call_soon_threadsafe")?, (&wake_up,));
    // If it is closed in the middle of that call, it has thrown out what it had before this was put there, where it
    // stays for as long as anybody has a reference to the loop.
    if woken.is_err() || event_loop.call_method0(py, interned!(py, "is_closed")?)?.is_truthy(py)? {
        wake_up.get().give_up();
    }
    Ok(())
}

/// What an event loop calls when the bell has rung. It throws this out when it is closed: then nobody will ask for the
/// outcomes, and they are given up.
#[pyclass(frozen)]
struct Reader {
    event_loop: Py<PyAny>,
    inbox: Arc<Inbox>,
    ear: Ear,
    origin: Origin,
}

impl Reader {
    /// An inbox with a bell. None for loops of which it is not known what becomes of their readers when they are closed;
    /// none in a forked child, which may run a loop of its parent's, and shares its selector with it then; and none if
    /// there are no file descriptors.
    fn install(event_loop: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Inbox>>> {
        static SELECTING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = event_loop.py();
        let selecting = attribute(&SELECTING, py, "asyncio", "SelectorEventLoop")?;
        if !event_loop.get_type().is(selecting) || !IMPORTED.get().is_some_and(|origin| origin.is_here()) {
            return Ok(None);
        }
        let Ok((bell, ear)) = bell::pair() else { return Ok(None) };
        let (inbox, descriptor) = (Arc::new(Inbox::with(bell)), ear.descriptor());
        let (event_loop_of, origin) = (event_loop.clone().unbind(), Origin::new());
        let reader = Self { event_loop: event_loop_of, inbox: Arc::clone(&inbox), ear, origin };
        let added =
            event_loop.call_method1(interned!(py, "add_reader")?, (descriptor, Bound::new(py, reader)?));
        Ok(added.is_ok().then_some(inbox))
    }
}

#[pymethods]
impl Reader {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let (inbox, event_loop) = (Arc::clone(&self.inbox), self.event_loop.clone_ref(py));
        let stage = Mutex::new(Stage::ToComplete);
        let wake_up = Bound::new(py, WakeUp { event_loop, inbox, stage, origin: self.origin })?;
        // Before it takes what is there: what comes then rings again.
        self.ear.heard();
        WakeUp::__call__(&wake_up)
    }

    /// With the futures: an event loop, this in it, and its tasks are one cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        self.inbox.each(self.origin, |future| visit.call(future))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.inbox.close(self.origin);
    }
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
    origin: Origin,
}

impl WakeUp {
    /// A panic cannot leave half a change in it. Locked by attached threads only, which do not detach meanwhile.
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcomes will not be asked for, unless they have been.
    fn give_up(&self) {
        let stage = std::mem::replace(&mut *self.stage(), Stage::Over);
        match stage {
            Stage::ToComplete => {
                self.inbox.take(self.origin).into_iter().for_each(|(ended, _)| ended.abandon());
            }
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
        let (all, futures): (Vec<_>, Vec<_>) = this.inbox.take(this.origin).into_iter().unzip();
        *this.stage() = Stage::ToCheck(all);
        let mut result = Ok(());
        for future in futures {
            // Each is told, whatever becomes of the others.
            result = complete(future.bind(py)).and(result);
        }
        // Behind the tasks.
        this.event_loop.call_method1(py, interned!(py, "call_soon")?, (slf,))?;
        result
    }

    /// With the futures, as long as this is what they wait for: an event loop, this in it, and its tasks are one cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        let Ok(stage) = self.stage.try_lock() else { return Ok(()) };
        match &*stage {
            Stage::ToComplete => self.inbox.each(self.origin, |future| visit.call(future)),
            Stage::ToCheck(_) | Stage::Over => Ok(()),
        }
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
