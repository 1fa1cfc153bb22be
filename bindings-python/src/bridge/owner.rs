//! Owners of locks: a thread, a task or a greenlet. Only the owner can re-enter its lock. If an owner ends
//! while it holds locks that only it can release, the binding emits a warning.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::prelude::*;
use zklock::internal::OwnerId;

use crate::bridge::delivery_thread::Deliver;
use crate::bridge::gevent::Caller;
use crate::bridge::{callers, delivery_thread, owner_names};
use crate::exit;

/// A lock object that is notified when an owner ends.
pub(crate) trait OwnerEndListener: Send + Sync {
    /// Warns if the ended owner still holds locks that only it can release. `kind` names the kind of owner.
    fn owner_ended(&self, py: Python<'_>, owner: OwnerId, kind: &'static str);
}

/// The lock objects through which an owner acquired locks outside `with` blocks, so that no block will
/// release them.
#[derive(Default)]
struct Used {
    locks: Vec<Weak<dyn OwnerEndListener>>,
    prune_at: usize,
}

/// Returns the address of a lock object.
fn address(lock: &Weak<dyn OwnerEndListener>) -> *const () {
    lock.as_ptr().cast()
}

impl Used {
    /// Adds a lock object to the list. For a re-entry, this costs only one comparison.
    fn add<L: OwnerEndListener + 'static>(&mut self, lock: &Arc<L>) {
        if self.locks.last().is_some_and(|last| address(last) == Arc::as_ptr(lock).cast()) {
            return;
        }
        if self.locks.len() >= self.prune_at {
            // Remove dropped lock objects only when the list must grow, so that the amortized cost is constant.
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

/// A task or greenlet that owns locks, and can re-enter them. `zklock.aio` creates one for each task.
///
/// Python drops this object when no code can release the owner's locks any more: the task or greenlet has
/// ended, and all callbacks that the task scheduled have run.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Owner {
    pub(crate) id: OwnerId,
    kind: &'static str,
    /// A weak reference to the task, if the owner is a task.
    task: Option<Py<PyAny>>,
    used: Mutex<Used>,
}

impl Owner {
    /// Returns the owner that other clients see in a queue, with its name: the task, or else the calling
    /// thread or greenlet.
    pub(crate) fn caller(&self, py: Python<'_>) -> PyResult<zklock::Owner> {
        match &self.task {
            Some(task) => Ok(self.id.named(owner_names::of_task(task.bind(py))?)),
            None => Caller::find(py)?.named(py),
        }
    }

    /// Records that the owner acquired a lock through this lock object, and that no `with` block will release
    /// it.
    pub(crate) fn record_use<L: OwnerEndListener + 'static>(&self, lock: &Arc<L>) {
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

/// The owner of a thread. The system reuses thread identifiers, but an owner is never reused.
struct ThisThread {
    owner: OwnerId,
    /// Dropped when the thread ends, so that a dump can see whether the thread is alive.
    _mark: Arc<()>,
    used: RefCell<Used>,
}

impl ThisThread {
    fn new() -> Self {
        let (owner, mark) = (OwnerId::new(), Arc::default());
        // If this fails, a dump cannot name the thread.
        Python::try_attach(|py| callers::thread_begins(py, owner, Arc::downgrade(&mark)).ok());
        Self { owner, _mark: mark, used: RefCell::default() }
    }
}

thread_local! {
    static THIS_THREAD: ThisThread = ThisThread::new();
}

/// Returns the owner that represents the calling thread.
pub(crate) fn this_thread() -> OwnerId {
    // If the thread is ending, its thread-local value might be destroyed already. In this case a new owner is
    // correct, because the thread no longer owns anything.
    THIS_THREAD.try_with(|thread| thread.owner).unwrap_or_else(|_| OwnerId::new())
}

/// Records that the calling thread acquired a lock through this lock object, and that no `with` block will
/// release it.
pub(crate) fn record_use_by_this_thread<L: OwnerEndListener + 'static>(lock: &Arc<L>) {
    THIS_THREAD.try_with(|thread| thread.used.borrow_mut().add(lock)).ok();
}

impl Drop for ThisThread {
    fn drop(&mut self) {
        let used = self.used.take();
        // The interpreter has already discarded this thread's state, so the delivery thread must emit the
        // warnings.
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
