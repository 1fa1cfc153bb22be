//! `zklock.Lock`: the common methods of mutexes, semaphores and the halves of read/write locks.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use zklock::AnyLock;
use zklock::internal::{self, ClientHandle, Escaped, OwnerId, shown_hosts};

use crate::bridge::block_on::block_on;
use crate::bridge::gevent::caller;
use crate::bridge::pending::{Pending, Steps, operation};
use crate::client::Client;
use crate::contender::Contender;
use crate::errors::Result;
use crate::locks::acquire::{Acquirable, SavedLevels, StartedAcquire, Target};
use crate::locks::pickle::Recipe;

impl Target for AnyLock {
    fn request(
        &self,
        owner: OwnerId,
        caller: &dyn Fn() -> PyResult<zklock::Owner>,
        timeout: zklock::Timeout,
    ) -> Result<StartedAcquire> {
        if let Some(lease) = internal::reenter(self, owner)? {
            return Ok(StartedAcquire::Granted(lease));
        }
        Ok(match internal::request(self, owner, &caller()?, timeout)? {
            internal::Requested::Granted(lease) => StartedAcquire::Granted(lease),
            internal::Requested::Pending(pending) => {
                // A permit takes a mutex first.
                let steps = if matches!(self, AnyLock::Lock(_)) { Steps::One } else { Steps::Several };
                StartedAcquire::Pending(operation(pending), steps)
            }
        })
    }

    fn owned_by(&self, owner: OwnerId) -> zklock::Result<bool> {
        internal::owned_by(self, owner)
    }

    fn name(&self) -> String {
        format!("{:?}", self.path())
    }
}

/// A lock that can be acquired: a `Mutex`, a half of a `ReadWriteLock`, or a `Semaphore`.
///
/// >>> with lock as lease:
/// ...     write_report(lease.fencing_token)
///
/// The *owner* of a lock is the thread that acquired it, or with gevent the greenlet. Only the owner can
/// re-enter the lock. It must release the lock as often as it acquired it. Several owners can use the same
/// lock object. If the object is dropped while it holds the lock, the lock is released, with a
/// `ResourceWarning`. If an owner ends without releasing a lock that it acquired with `acquire()`, the lock
/// stays held, and the same warning is shown.
///
/// A lock is also a decorator: each call of the function runs in its own scope. `@lock.hold(timeout=5)`
/// limits the wait.
///
/// >>> @lock
/// ... def rebuild_the_index():
/// ...     return lock.owned()
/// >>> rebuild_the_index()
/// True
///
/// `threading.Condition(lock)` works for the threads of one process: a notification does not reach other
/// processes. A lock that was created with a hosts string can be pickled and copied: the result is another
/// lock object for the same path. A lock that was created with a `Client` cannot.
#[pyclass(frozen, subclass, weakref, extends = Acquirable, module = "zklock")]
pub(crate) struct Lock {
    pub(crate) inner: AnyLock,
    /// Its name in Python.
    name: &'static str,
    recipe: Recipe,
}

impl Lock {
    pub(crate) fn new(
        inner: impl Into<AnyLock>,
        name: &'static str,
        reentrant: bool,
        recipe: Recipe,
    ) -> PyClassInitializer<Self> {
        let inner = inner.into();
        let base = PyClassInitializer::from(Acquirable::new(inner.clone(), reentrant));
        base.add_subclass(Self { inner, name, recipe })
    }
}

#[pymethods]
impl Lock {
    /// The lock path.
    #[getter]
    pub(crate) fn path(&self) -> &str {
        self.inner.path()
    }

    /// The client of the lock.
    ///
    /// >>> lock.client.state
    /// 'connected'
    ///
    /// For a lock with a hosts string, this is the process's shared client for these hosts and options. It is
    /// created if it does not exist yet.
    #[getter]
    fn client(&self) -> Result<Client> {
        Ok(Client { inner: ClientHandle::of_lock(&self.inner)? })
    }

    /// The calling thread's newest unreleased lease of this object, or None.
    ///
    /// With `reentrant=False`, and for a semaphore, this is the newest lease that any thread acquired through
    /// this object.
    #[getter]
    fn lease(slf: &Bound<'_, Self>) -> Result<Option<Py<PyAny>>> {
        slf.as_super().get().newest(slf.py(), caller(slf.py())?)
    }

    /// Return whether the calling thread holds the lock, even through another lock object.
    ///
    /// >>> with lock:
    /// ...     lock.owned()
    /// True
    ///
    /// With `reentrant=False`, and for a semaphore, return whether any thread holds it through this object.
    /// The call sends no request.
    fn owned(slf: &Bound<'_, Self>) -> Result<bool> {
        slf.as_super().get().owned_by(caller(slf.py())?)
    }

    /// Return whether any contender holds the lock or waits for it.
    ///
    /// >>> lock.locked()
    /// False
    ///
    /// For a semaphore, return whether no permit is free. This is a single read, and the state can change
    /// before the call returns. Raise `ConnectionFailed` if no server answers within the client's
    /// `connect_timeout`.
    fn locked(&self, py: Python<'_>) -> Result<bool> {
        Ok(block_on(py, self.inner.locked())??)
    }

    /// Return the contenders for the lock, in queue order: holders first.
    ///
    /// >>> with lock:
    /// ...     lock.contenders()[0].language
    /// 'python'
    ///
    /// The result has at most 100,000 contenders. It takes three round trips for up to 1,000 contenders, and
    /// two for each further 1,000. Raise the same exceptions as `locked()`.
    fn contenders(&self, py: Python<'_>) -> Result<Vec<Contender>> {
        let contenders = block_on(py, self.inner.contenders())??;
        Ok(contenders.into_iter().map(Contender::from).collect())
    }

    /// For `threading.Condition`: return whether the caller can wait or notify.
    #[pyo3(name = "_is_owned")]
    fn is_owned(slf: &Bound<'_, Self>) -> Result<bool> {
        Self::owned(slf)
    }

    /// For `threading.Condition`: release all levels of the caller.
    #[pyo3(name = "_release_save")]
    fn release_save(slf: &Bound<'_, Self>) -> Result<SavedLevels> {
        slf.as_super().get().save(slf.py())
    }

    /// For `threading.Condition`: acquire all levels again.
    #[pyo3(name = "_acquire_restore")]
    fn acquire_restore(slf: &Bound<'_, Self>, saved: &SavedLevels) -> Result<()> {
        slf.as_super().get().restore(slf.py(), saved)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, lock) = (slf.py(), slf.get());
        let Some((_, half)) = lock.name.split_once('.') else { return lock.recipe.reduce(&slf.get_type()) };
        // Look it up by name, because that class refers to this one.
        let both = py.import("zklock._zklock")?.getattr("ReadWriteLock")?.cast_into::<PyType>()?;
        let (make, arguments) = lock.recipe.reduce(&both)?;
        let both = make.call1(arguments.cast_into::<PyTuple>()?)?;
        let take_half = py.import("zklock._pickle")?.getattr("half")?;
        Ok((take_half, (both, half).into_pyobject(py)?.into_any()))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        let Self { name, inner, .. } = slf.get();
        let held = if slf.as_super().get().any_held() { "held" } else { "not held" };
        format!("<zklock.{name} {} on {}, {held}>", Escaped(inner.path()), shown_hosts(inner))
    }
}

/// Start to ask whether the lock is taken.
#[pyfunction]
pub(crate) fn start_locked(py: Python<'_>, lock: &Lock) -> Result<Pending> {
    let lock = lock.inner.clone();
    Pending::start(py, async move { lock.locked().await })
}

/// Start to ask for the contenders.
#[pyfunction]
pub(crate) fn start_contenders(py: Python<'_>, lock: &Lock) -> Result<Pending> {
    let lock = lock.inner.clone();
    Pending::start(py, async move { lock.contenders().await })
}
