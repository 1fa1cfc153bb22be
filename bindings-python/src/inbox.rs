//! What has come for an event loop: one wake-up of the loop for all that is there when it gets to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::prelude::*;
use zklock::binding::{Origin, PerProcess};

use crate::bell::Bell;

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

/// An operation that has ended, and the future to be completed.
pub(crate) type Completed = (Arc<dyn Ended>, Py<PyAny>);

/// What became of something that was to be put into an inbox.
pub(crate) enum Put {
    /// It is there, and the loop is to be woken.
    First,
    /// It is there, and the loop is being woken for what is there already.
    WithOthers,
    /// The loop will not come any more.
    TooLate(Completed),
}

/// What has come for an event loop. It refers to no Python object but the futures that are to be completed: a garbage
/// collector has to see all of a loop that nobody runs any more.
#[derive(Default)]
pub(crate) struct Inbox {
    arrived: Mutex<Arrived>,
    bell: Option<Bell>,
}

#[derive(Default)]
struct Arrived {
    completed: Vec<Completed>,
    /// The loop has been woken and has not come yet. Meanwhile whatever comes is only put here, and nobody disturbed.
    waking: bool,
    /// The loop will not come any more.
    closed: bool,
}

/// Of the loops on which something waits, or that have a bell.
type Known = Mutex<Vec<(usize, Weak<Inbox>)>>;

/// Locked by attached threads only, which do not detach meanwhile, so a fork finds it free.
fn known() -> MutexGuard<'static, Vec<(usize, Weak<Inbox>)>> {
    static KNOWN: PerProcess<Known> = PerProcess::new();
    KNOWN.get_or_init(Known::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    /// The inbox of a loop that is woken by this bell.
    pub(crate) fn with(bell: Bell) -> Self {
        Self { bell: Some(bell), ..Self::default() }
    }

    /// The inbox of the event loop at this address. Not of one that was there before: whatever hears a bell, and each
    /// future that waits, has a reference to the loop. Only the core's thread may still have the inbox of a loop that is
    /// gone, when it has just rung the bell; that inbox is closed.
    pub(crate) fn find(address: usize) -> Option<Arc<Self>> {
        let inbox = known().iter().find(|(of, _)| *of == address).and_then(|(_, inbox)| inbox.upgrade())?;
        let closed = inbox.arrived().closed;
        (!closed).then_some(inbox)
    }

    /// Is found from now on.
    pub(crate) fn found_at(self: &Arc<Self>, address: usize) {
        let mut known = known();
        known.retain(|(of, inbox)| *of != address && inbox.strong_count() > 0);
        known.push((address, Arc::downgrade(self)));
    }

    /// Tells the loop by its bell. Gives back what it cannot be told so: there is no bell, or nobody to hear it.
    pub(crate) fn tell(&self, completed: Completed) -> Result<(), Completed> {
        let Some(bell) = &self.bell else { return Err(completed) };
        match self.put(completed) {
            Put::First => bell.ring(),
            Put::WithOthers => {}
            Put::TooLate(completed) => return Err(completed),
        }
        Ok(())
    }

    /// Puts something here.
    pub(crate) fn put(&self, completed: Completed) -> Put {
        let mut arrived = self.arrived();
        if arrived.closed {
            return Put::TooLate(completed);
        }
        arrived.completed.push(completed);
        // A wake-up that is under way takes it, or has taken it just now: then nothing of Python is left to be dropped here.
        if std::mem::replace(&mut arrived.waking, true) { Put::WithOthers } else { Put::First }
    }

    /// What has come, the only time.
    pub(crate) fn take(&self, origin: Origin) -> Vec<Completed> {
        let Some(mut arrived) = self.arrived_in(origin) else { return Vec::new() };
        arrived.waking = false;
        std::mem::take(&mut arrived.completed)
    }

    /// The loop will not come any more: what has come will not be asked for, and neither will what comes.
    pub(crate) fn close(&self, origin: Origin) {
        if let Some(mut arrived) = self.arrived_in(origin) {
            arrived.closed = true;
        }
        self.take(origin).into_iter().for_each(|(ended, _)| ended.abandon());
    }

    /// One of the futures that are to be completed.
    pub(crate) fn any(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.arrived().completed.first().map(|(_, future)| future.clone_ref(py))
    }

    /// The futures that are to be completed.
    pub(crate) fn each<E>(
        &self,
        origin: Origin,
        visit: impl FnMut(&Py<PyAny>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(arrived) = self.arrived_in(origin) else { return Ok(()) };
        arrived.completed.iter().map(|(_, future)| future).try_for_each(visit)
    }

    /// A panic cannot leave half a change in it.
    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None while somebody has locked what nobody will unlock: a thread of the parent, when this process was forked.
    fn arrived_in(&self, origin: Origin) -> Option<MutexGuard<'_, Arrived>> {
        if origin.is_here() { Some(self.arrived()) } else { self.arrived.try_lock().ok() }
    }
}
