//! Owners: who may re-enter a lock, and what is said when one ends that holds locks which nobody else can release.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::prelude::*;
use zklock::internal::OwnerId;

use crate::bridge::delivery_thread::Deliver;
use crate::bridge::gevent::Caller;
use crate::bridge::{callers, delivery_thread, owner_names};
use crate::exit;

/// A lock object, as an owner that ends sees it.
pub(crate) trait Left: Send + Sync {
    /// Warns if the owner, a thing of this kind, leaves behind what only it can release.
    fn owner_ended(&self, py: Python<'_>, owner: OwnerId, kind: &'static str);
}

/// The lock objects through which an owner acquired something that no scope is to release.
#[derive(Default)]
struct Used {
    locks: Vec<Weak<dyn Left>>,
    prune_at: usize,
}

/// The address of a lock object.
fn address(lock: &Weak<dyn Left>) -> *const () {
    lock.as_ptr().cast()
}

impl Used {
    /// Costs a re-entry one comparison.
    fn add<L: Left + 'static>(&mut self, lock: &Arc<L>) {
        if self.locks.last().is_some_and(|last| address(last) == Arc::as_ptr(lock).cast()) {
            return;
        }
        if self.locks.len() >= self.prune_at {
            // When there are twice as many, so that this costs nothing on average.
            self.locks.retain(|lock| lock.strong_count() > 0);
            self.locks.sort_unstable_by_key(address);
            self.locks.dedup_by_key(|lock| address(lock));
            self.prune_at = 2 * self.locks.len() + 16;
        }
        let lock: Weak<L> = Arc::downgrade(lock);
        self.locks.push(lock);
    }

    fn owner_ended(&self, py: Python<'_>, owner: OwnerId, kind: &'static str) {
        for lock in self.locks.iter().filter_map(Weak::upgrade) {
            lock.owner_ended(py, owner, kind);
        }
    }
}

/// The owner of levels of a lock, who may re-enter it; `zklock.aio` keeps one for each task.
///
/// Or for a greenlet. It ends when nothing can act for it any more: with the task or greenlet itself, and
/// the callbacks that the task scheduled, which may release what it acquired.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Owner {
    pub(crate) id: OwnerId,
    kind: &'static str,
    /// A weak reference to the task that it is, if it is one.
    task: Option<Py<PyAny>>,
    used: Mutex<Used>,
}

impl Owner {
    /// The owner that others are told of when it queues, under its name. An acquire that is an owner of its own is told
    /// of as the calling thread or greenlet.
    pub(crate) fn caller(&self, py: Python<'_>) -> PyResult<zklock::Owner> {
        match &self.task {
            Some(task) => Ok(self.id.named(owner_names::of_task(task.bind(py))?)),
            None => Caller::find(py)?.named(py),
        }
    }

    /// Notes that it acquired something through this lock object, which it is to release itself.
    pub(crate) fn uses<L: Left + 'static>(&self, lock: &Arc<L>) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).add(lock);
    }
}

#[pymethods]
impl Owner {
    #[new]
    #[pyo3(signature = (task=None, *, greenlet=false))]
    fn new(task: Option<Py<PyAny>>, greenlet: bool) -> Self {
        let kind = if greenlet { "greenlet" } else { "task" };
        Self { id: OwnerId::new(), kind, task, used: Mutex::default() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let used = std::mem::take(self.used.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !used.locks.is_empty() {
            Python::try_attach(|py| used.owner_ended(py, self.id, self.kind));
        }
    }
}

/// A thread. The system reuses thread identifiers; an owner is never reused.
struct ThisThread {
    owner: OwnerId,
    /// Tells a dump that the thread has not ended.
    _mark: Arc<()>,
    used: RefCell<Used>,
}

impl ThisThread {
    fn new() -> Self {
        let (owner, mark) = (OwnerId::new(), Arc::default());
        // Without it a dump does not name the thread.
        Python::try_attach(|py| callers::thread_begins(py, owner, Arc::downgrade(&mark)).ok());
        Self { owner, _mark: mark, used: RefCell::default() }
    }
}

thread_local! {
    static THIS_THREAD: ThisThread = ThisThread::new();
}

/// The owner that represents the calling thread.
pub(crate) fn this_thread() -> OwnerId {
    // There is none while the thread ends: then nothing is its own any more.
    THIS_THREAD.try_with(|thread| thread.owner).unwrap_or_else(|_| OwnerId::new())
}

/// Notes that the calling thread acquired something through this lock object, which it is to release itself.
pub(crate) fn this_thread_uses<L: Left + 'static>(lock: &Arc<L>) {
    THIS_THREAD.try_with(|thread| thread.used.borrow_mut().add(lock)).ok();
}

impl Drop for ThisThread {
    fn drop(&mut self) {
        let used = self.used.take();
        // The interpreter has forgotten this thread already, so another one looks at what it left.
        if !used.locks.is_empty() && !exit::is_ending() && delivery_thread::start().is_ok() {
            delivery_thread::send(Arc::new(EndedThread { owner: self.owner, used }));
        }
    }
}

struct EndedThread {
    owner: OwnerId,
    used: Used,
}

impl Deliver for EndedThread {
    fn deliver(self: Arc<Self>) -> bool {
        Python::try_attach(|py| self.used.owner_ended(py, self.owner, "thread")).is_some()
    }
}
