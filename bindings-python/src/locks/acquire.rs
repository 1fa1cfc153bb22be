//! The common base of single locks and `MultiLock`.
//!
//! A *level* is one acquire of a lock by its owner. An owner that acquires a reentrant lock several times has
//! several levels. A *scope* is a `with` block or a call of a decorated function. A scope acquires a level
//! when it is entered, and releases it when it is left. A *site* is the place in the program where a scope is
//! entered and left.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use zklock::TimeoutReason;
use zklock::internal::{self, Acquired, AcquiredStack, Exit, OwnerId, SuspendedLevel, collectable};

use crate::args::arguments::{Blocking, bounded_timeout, release_timeout};
use crate::args::checked::{Flag, Number};
use crate::args::names;
use crate::bridge::block_on::block_to_own;
use crate::bridge::gevent::{Caller, caller};
use crate::bridge::pending::{IntoPython, Operation, Steps};
use crate::bridge::{asyncio_tasks, block_on};
use crate::errors::{Failure, Result};
use crate::locks::acquired::Level;
use crate::locks::lease::Lease;
use crate::locks::lock_levels::{Handle, LockLevels};
use crate::locks::scope::Scope;
use crate::locks::{acquired, scope};

/// A lock, or several locks acquired together.
pub(crate) trait Target: Send + Sync {
    /// Requests the lock for `owner`. The function `caller` is called only if the request must queue. It
    /// returns the owner and the name that other clients see.
    fn request(
        &self,
        owner: OwnerId,
        caller: &dyn Fn() -> PyResult<zklock::Owner>,
        timeout: zklock::Timeout,
    ) -> Result<StartedAcquire>;

    /// Returns `true` if the owner holds the lock, through any object.
    fn owned_by(&self, owner: OwnerId) -> zklock::Result<bool>;

    /// Returns the name used in messages.
    fn name(&self) -> String;
}

/// An acquire that has been requested.
pub(crate) enum StartedAcquire {
    /// The owner already held the lock, and has acquired it once more.
    Granted(zklock::Lease),
    /// The acquire is pending. Its outcome is a Python `Level`.
    Pending(Operation, Steps),
}

/// Base class of all locks: a single lock of any kind, or several locks acquired together.
///
/// >>> isinstance(lock, zklock.Acquirable)
/// True
/// >>> isinstance(zklock.MultiLock([lock]), zklock.Acquirable)
/// True
///
/// `Lock` and `MultiLock` derive from it. Use it in type annotations: an acquire of an `Acquirable[Lease]`
/// returns one lease.
#[pyclass(frozen, subclass, module = "zklock")]
pub(crate) struct Acquirable {
    pub(super) target: Box<dyn Target>,
    /// The unreleased acquires of this object. Each has the Python object that the acquire returned, and the
    /// scope that it entered. `zklock.aio` stores its own objects here.
    pub(super) levels: Arc<LockLevels>,
    /// Number of the newest result of `hold()`.
    holds: AtomicU64,
}

impl Acquirable {
    pub(crate) fn new(target: impl Target + 'static, reentrant: bool) -> Self {
        Self {
            target: Box::new(target),
            levels: Arc::new(AcquiredStack::new(reentrant)),
            holds: AtomicU64::new(0),
        }
    }

    /// Acquires the lock for the calling thread. Creates no Python object for a re-entry, because most
    /// callers do not need one.
    fn acquire_level(&self, py: Python<'_>, timeout: zklock::Timeout) -> Result<()> {
        if asyncio_tasks::in_event_loop(py)? {
            return self.take(py, timeout, None).map(drop);
        }
        let caller = Caller::find(py)?;
        let owner = caller.owner();
        block_on::admit(py)?;
        let operation = match self.target.request(owner, &|| caller.named(py), timeout)? {
            StartedAcquire::Granted(lease) => {
                let lease = Arc::new(collectable(lease));
                self.levels.push(owner, lease.clone(), Handle::Bare(lease), None);
                caller.record_use(&self.levels);
                return Ok(());
            }
            StartedAcquire::Pending(operation, _) => operation,
        };
        let lease = block_to_own(py, operation)??(py)?;
        caller.record_use(&self.levels);
        let held = level(lease.bind(py))?.0.clone();
        self.levels.push(owner, held, Handle::Made(lease), None);
        Ok(())
    }

    /// Acquires the lock for the calling thread. If the acquire belongs to a scope, `scope` is the site of
    /// that scope.
    fn take(
        &self,
        py: Python<'_>,
        timeout: zklock::Timeout,
        scope: Option<internal::Site>,
    ) -> Result<Py<PyAny>> {
        let caller = Caller::find(py)?;
        let owner = caller.owner();
        let in_event_loop = self.check_for_event_loop(py, owner)?;
        let lease = self.take_as(py, &caller, timeout)?;
        if in_event_loop {
            asyncio_tasks::remember(py, &lease)?;
        }
        let scope = match scope {
            Some(site) => Some((site, Scope::of_caller(py, lease.clone_ref(py))?)),
            None => None,
        };
        if scope.is_none() {
            caller.record_use(&self.levels);
        }
        let held = level(lease.bind(py))?.0.clone();
        self.levels.push(owner, held, Handle::Made(lease.clone_ref(py)), scope);
        Ok(lease)
    }

    /// Returns `true` if an event loop runs on this thread. In that case, warns that the acquire blocks the
    /// loop, or that it might re-enter a lock of another task.
    pub(crate) fn check_for_event_loop(&self, py: Python<'_>, owner: OwnerId) -> Result<bool> {
        let in_event_loop = asyncio_tasks::in_event_loop(py)?;
        if in_event_loop {
            if !self.target.owned_by(owner)? {
                asyncio_tasks::warn_of_blocking(py)?;
            } else if let Some(newest) = self.newest(py, owner)? {
                asyncio_tasks::warn_of_another_task(py, &newest)?;
            }
        }
        Ok(in_event_loop)
    }

    /// Returns a new site for a scope that only `pop_scope` ends.
    pub(crate) fn new_site(&self, py: Python<'_>) -> Result<internal::Site> {
        Ok(scope::site(py, self.next_number())?)
    }

    fn next_number(&self) -> u64 {
        self.holds.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Stores a scope of the caller.
    pub(crate) fn push_scope(
        &self,
        py: Python<'_>,
        owner: OwnerId,
        lease: Py<Lease>,
        site: internal::Site,
    ) -> PyResult<()> {
        let held = level(lease.bind(py))?.0.clone();
        let scope = Scope::of_caller(py, lease.clone_ref(py).into_any())?;
        self.levels.push(owner, held, Handle::Made(lease.into_any()), Some((site, scope)));
        Ok(())
    }

    /// Removes the scope that was stored for this site.
    pub(crate) fn pop_scope(&self, py: Python<'_>, owner: OwnerId, site: internal::Site) {
        let exit = Exit { owner, site, only: false };
        scope::leave(py, &self.levels, &exit, true, "thread", &self.target.name()).ok();
    }

    fn take_as(&self, py: Python<'_>, caller: &Caller<'_>, timeout: zklock::Timeout) -> Result<Py<PyAny>> {
        block_on::admit(py)?;
        Ok(match self.target.request(caller.owner(), &|| caller.named(py), timeout)? {
            StartedAcquire::Granted(lease) => lease.into_python(py)?,
            StartedAcquire::Pending(operation, _) => block_to_own(py, operation)??(py)?,
        })
    }

    /// Returns the Python lease of one acquire. Creates it if it does not exist yet.
    fn python_object(&self, py: Python<'_>, handle: Handle) -> Result<Py<PyAny>> {
        let lease = match handle {
            Handle::Made(lease) => return Ok(lease),
            Handle::Bare(lease) => lease,
        };
        // Create the object while `levels` is not locked: Python might run the garbage collector, which can
        // run user code.
        let made = Lease::new(py, Arc::clone(&lease))?.into_any();
        // Another thread might have created it first.
        let bare = self.levels.change(&(lease as _), |handle| match handle {
            Handle::Made(faster) => Err(faster.clone_ref(py)),
            Handle::Bare(_) => Ok(std::mem::replace(handle, Handle::Made(made.clone_ref(py)))),
        });
        Ok(if let Some(Err(faster)) = bare { faster } else { made })
    }

    /// Returns `true` if any owner holds the lock through this object. Sends no request.
    pub(crate) fn any_held(&self) -> bool {
        self.levels.any_held()
    }

    /// Releases the lock as often as the calling thread has acquired it. Returns the state that `restore`
    /// needs to acquire the lock again.
    pub(crate) fn save(&self, py: Python<'_>) -> Result<SavedLevels> {
        let owner = caller(py)?;
        let saved = self.levels.save(owner);
        if saved.iter().all(|level| level.releasable().is_none()) {
            for level in saved {
                self.levels.restore(level);
            }
            self.target.owned_by(owner)?;
            return Err(self.levels.not_held("thread", &self.target.name()).into());
        }
        // Release the newest acquire first. It is harmless if another thread has already released one of
        // them.
        for acquired in saved.iter().rev().filter_map(SuspendedLevel::releasable) {
            match acquired::release(py, &**acquired, zklock::Timeout::Forever) {
                Err(Failure::Python(error)) => return Err(error.into()),
                Ok(()) | Err(Failure::Zklock(_)) => (),
            }
        }
        Ok(SavedLevels(Mutex::new(saved)))
    }

    /// Repeats the acquires that `save` has undone. Each belongs to the same scope as before. If an acquire
    /// fails, its scope and all later scopes no longer hold the lock, but the program can still leave them.
    pub(crate) fn restore(&self, py: Python<'_>, saved: &SavedLevels) -> Result<()> {
        let saved = std::mem::take(&mut *saved.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = Ok(());
        for old in saved {
            if result.is_err() || old.releasable().is_none() {
                self.levels.restore(old.over());
                continue;
            }
            match self.acquire_again(py) {
                Ok((held, lease, scope)) => {
                    self.levels.restore(old.renewed(held, Handle::Made(lease), |_| scope));
                }
                Err(error) => {
                    self.levels.restore(old.over());
                    result = Err(error);
                }
            }
        }
        result
    }

    fn acquire_again(&self, py: Python<'_>) -> Result<(Arc<dyn Acquired>, Py<PyAny>, Scope)> {
        let lease = self.take_as(py, &Caller::find(py)?, zklock::Timeout::Forever)?;
        let held = level(lease.bind(py))?.0.clone();
        let scope = Scope::of_caller(py, lease.clone_ref(py))?;
        Ok((held, lease, scope))
    }

    /// Ends the scope that the calling thread leaves.
    fn exit(
        &self,
        py: Python<'_>,
        site: internal::Site,
        only: bool,
        exception: &Bound<'_, PyTuple>,
    ) -> Result<()> {
        let (raised, exit) = (raised(exception), Exit { owner: caller(py)?, site, only });
        let left = scope::leave(py, &self.levels, &exit, raised.is_some(), "thread", &self.target.name())?;
        let Some(lease) = left else { return Ok(()) };
        Ok(level(lease.bind(py))?.leave_scope(py, raised.as_ref())?)
    }

    /// Returns the lease of the owner's newest acquire. For a non-reentrant lock, returns the newest lease of
    /// any owner.
    pub(crate) fn newest(&self, py: Python<'_>, owner: OwnerId) -> Result<Option<Py<PyAny>>> {
        self.levels
            .newest(owner, |handle| handle.clone_ref(py))
            .map(|handle| self.python_object(py, handle))
            .transpose()
    }

    pub(crate) fn owned_by(&self, owner: OwnerId) -> Result<bool> {
        Ok(self.levels.owned(self.target.owned_by(owner))?)
    }

    /// Returns the error for a caller that has nothing to release.
    pub(super) fn not_held(&self, owner: OwnerId, caller: &str) -> Failure {
        // In a forked child, report the fork instead.
        match self.target.owned_by(owner) {
            Ok(_) => self.levels.not_held(caller, &self.target.name()).into(),
            Err(error) => error.into(),
        }
    }
}

/// Returns the exception that ends a `with` block.
pub(crate) fn raised<'py>(exception: &Bound<'py, PyTuple>) -> Option<Bound<'py, PyAny>> {
    exception.get_item(1).ok().filter(|value| !value.is_none())
}

/// Returns `true` if the acquire timed out. A refusal because of `max_waiters` does not count as a timeout,
/// and so raises an exception: a caller that ignores the result of `acquire()` must not continue without the
/// lock.
fn is_timeout(error: &zklock::Error) -> bool {
    error.timeout_reason().is_some_and(|reason| reason != TimeoutReason::Full)
}

/// Returns the `Level` of a lease or of several leases.
fn level<'a>(lease: &'a Bound<'_, PyAny>) -> PyResult<&'a Level> {
    Ok(lease.cast::<Level>()?.get())
}

#[pymethods]
impl Acquirable {
    /// Acquire the lock for the calling thread. Return False only if the acquire timed out.
    ///
    /// >>> if lock.acquire(timeout=5):
    /// ...     lock.release()
    ///
    /// `timeout` is in seconds, and covers connecting, queueing and waiting together. With -1 or None the
    /// call waits without a limit, even across a connection loss. 0 is the same as `blocking=False`: the call
    /// does not queue for a lock that is taken.
    ///
    /// `connect_timeout`, in seconds, is for an acquire that does not wait: a server must answer within this
    /// time. It replaces the client's own `connect_timeout`.
    ///
    /// Other threads run while this one waits. Ctrl-C takes effect within 0.2 s, and the waiter leaves the
    /// queue.
    ///
    /// Raise:
    ///
    /// - `BadArgument` for any other negative timeout, for NaN, and for a timeout together with
    ///   `blocking=False`;
    /// - `UpgradeRefused` for a write lock if the caller holds its read lock;
    /// - `LockTimeout` if the queue already has the number of waiters that `max_waiters` permits;
    /// - `ConnectionFailed` if no server was ever reached, or, without blocking, if none answers within
    ///   `connect_timeout`;
    /// - `ClientClosed`, `AuthFailed`, `SequenceExhausted` and `Forked`.
    #[pyo3(
        signature = (blocking=Blocking(true), timeout=Number::of(-1.0), *, connect_timeout=None),
        text_signature = "($self, blocking=True, timeout=-1, *, connect_timeout=None)"
    )]
    fn acquire(
        &self,
        py: Python<'_>,
        blocking: Blocking,
        timeout: Option<Number<names::Timeout>>,
        connect_timeout: Option<Number<names::ConnectTimeout>>,
    ) -> Result<bool> {
        match self.acquire_level(py, bounded_timeout(blocking.0, timeout, connect_timeout)?) {
            Err(Failure::Zklock(error)) if is_timeout(&error) => Ok(false),
            taken => taken.map(|()| true),
        }
    }

    /// Release the newest lease that the calling thread acquired through this object.
    ///
    /// >>> if lock.acquire(blocking=False):
    /// ...     lock.release()
    ///
    /// With `reentrant=False`, and for a semaphore, release the newest lease of this object, from any thread.
    ///
    /// Wait up to `timeout` seconds for the server's reply. See `Lease.release`. Raise `NotHeld` if there is
    /// nothing to release.
    #[pyo3(
        signature = (wait=Flag::of(true), timeout=None),
        text_signature = "($self, wait=True, timeout=None)"
    )]
    fn release(
        &self,
        py: Python<'_>,
        wait: Flag<names::Wait>,
        timeout: Option<Number<names::Timeout>>,
    ) -> Result<()> {
        let timeout = release_timeout(wait, timeout)?;
        let owner = caller(py)?;
        let taken = self.levels.take_acquired(owner);
        let (acquired, _left) = taken.ok_or_else(|| self.not_held(owner, "thread"))?;
        acquired::release(py, &*acquired, timeout)
    }

    /// Return a context manager that acquires within `timeout` seconds, or raises `LockTimeout`.
    ///
    /// >>> with lock.hold(timeout=5):
    /// ...     print("held")
    /// held
    ///
    /// `LockTimeout.reason` tells whether the lock was `taken` or the servers were `unreachable`. With a
    /// timeout of 0 the acquire does not wait: `LockTimeout` then always means that the lock is taken, and
    /// a server that does not answer causes `ConnectionFailed`. `connect_timeout` has the same meaning as in
    /// `acquire`.
    #[pyo3(
        signature = (timeout=Number::of(-1.0), *, connect_timeout=None),
        text_signature = "($self, timeout=-1, *, connect_timeout=None)"
    )]
    fn hold(
        slf: Py<Self>,
        timeout: Option<Number<names::Timeout>>,
        connect_timeout: Option<Number<names::ConnectTimeout>>,
    ) -> Result<Hold> {
        let timeout = bounded_timeout(true, timeout, connect_timeout)?;
        let number = slf.get().next_number();
        Ok(Hold { lock: slf, timeout, number, entered: AtomicUsize::new(0) })
    }

    /// Visits the stored Python objects, because those of `zklock.aio` can be part of a reference cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.levels.visit(|handle, scope| {
            if let Handle::Made(lease) = handle {
                visit.call(lease)?;
            }
            scope.map_or(Ok(()), |scope| scope.visit(&visit))
        })
    }

    fn __clear__(&self) {
        self.levels.clear();
    }

    /// Decorate a function: each call runs in its own scope.
    fn __call__<'py>(slf: &Bound<'py, Self>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        decorate(slf.as_any(), function)
    }

    /// Support annotations with the type that an acquire returns.
    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        class.py().import("types")?.getattr("GenericAlias")?.call1((class, item))
    }

    fn __enter__(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.take(py, zklock::Timeout::Forever, Some(scope::site(py, 0)?))
    }

    #[pyo3(signature = (*exception), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> Result<()> {
        self.exit(py, scope::site(py, 0)?, false, exception)
    }
}

/// The acquires that a condition variable undoes before it waits, and repeats afterwards.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct SavedLevels(Mutex<Vec<SuspendedLevel<Handle, Scope>>>);

/// Returns a function that runs each call in a scope.
fn decorate<'py>(scope: &Bound<'py, PyAny>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    scope.py().import("zklock._decorators")?.call_method1("guarded", (scope, function))
}

/// The result of a lock's `hold()`: a context manager, and a decorator.
///
/// >>> five_seconds = lock.hold(timeout=5)
/// >>> with five_seconds as lease:
/// ...     lease.state
/// 'held'
/// >>> @five_seconds
/// ... def rebuild_the_index():
/// ...     return lock.owned()
/// >>> rebuild_the_index()
/// True
///
/// A `Hold` can be entered and called more than once.
#[pyclass(frozen, module = "zklock")]
pub(crate) struct Hold {
    lock: Py<Acquirable>,
    timeout: zklock::Timeout,
    /// Identifies the scopes that were entered through this object, and not through the lock itself or
    /// through another `Hold`.
    number: u64,
    /// Number of times that it was entered.
    entered: AtomicUsize,
}

#[pymethods]
impl Hold {
    /// Decorate a function: each call runs in its own scope.
    fn __call__<'py>(slf: &Bound<'py, Self>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        decorate(slf.as_any(), function)
    }

    /// Support annotations with the type that an acquire returns.
    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        class.py().import("types")?.getattr("GenericAlias")?.call1((class, item))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<zklock.Hold of {}>", self.lock.bind(py).repr()?))
    }

    fn __enter__(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.entered.fetch_add(1, Ordering::Relaxed);
        self.lock.get().take(py, self.timeout, Some(scope::site(py, self.number)?))
    }

    #[pyo3(signature = (*exception), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> Result<()> {
        let only = self.entered.load(Ordering::Relaxed) == 1;
        self.lock.get().exit(py, scope::site(py, self.number)?, only, exception)
    }
}
