//! `zklock.Lock`: all that mutexes and the halves of read/write locks can do; they differ in how they are created.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use zklock::AnyLock;
use zklock::internal::{self, ClientHandle, Escaped, OwnerId, shown_hosts};

use crate::bridge::block_on::block_on;
use crate::bridge::gevent::caller;
use crate::bridge::pending::{Pending, operation};
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
            internal::Requested::Pending(pending) => StartedAcquire::Pending(operation(pending)),
        })
    }

    fn owned_by(&self, owner: OwnerId) -> zklock::Result<bool> {
        internal::owned_by(self, owner)
    }

    fn name(&self) -> String {
        format!("{:?}", self.path())
    }
}

/// Something that can be acquired: a `Mutex`, a half of a `ReadWriteLock`, or a `Semaphore`.
///
/// >>> with lock as lease:
/// ...     write_report(lease.fencing_token)
///
/// The *owner* of a lock, which may acquire it again, is the thread, or the greenlet where gevent runs. An
/// owner that acquired a lock n times releases it n times. Owners may share the lock object. When the
/// object goes, levels that were never released are released, with a `ResourceWarning`. An owner that ends
/// without releasing what it acquired with `acquire()` leaves the lock held, with the same warning.
///
/// A lock is a decorator, too: each call of the function is in a scope of its own. `@lock.hold(timeout=5)`
/// limits the wait.
///
/// >>> @lock
/// ... def rebuild_the_index():
/// ...     return lock.owned()
/// >>> rebuild_the_index()
/// True
///
/// `threading.Condition(lock)` works for the threads of one process: a notification does not leave it.
/// A lock that was created on a hosts string can be pickled, and copied, which makes another lock object
/// on the same path; one on a client cannot.
#[pyclass(frozen, subclass, weakref, extends = Acquirable, module = "zklock")]
pub(crate) struct Lock {
    // Cloned for what outlives the call that starts it.
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

    /// The client on which the lock is.
    ///
    /// >>> lock.client.state
    /// 'connected'
    ///
    /// For a lock on a hosts string the process's one client with its hosts and options, which is created
    /// unless there is one.
    #[getter]
    fn client(&self) -> Result<Client> {
        Ok(Client { inner: ClientHandle::of_lock(&self.inner)? })
    }

    /// The calling thread's newest lease of this object that has not been released, or None.
    ///
    /// With `reentrant=False`, and for a semaphore: the object's newest, whoever acquired it.
    #[getter]
    fn lease(slf: &Bound<'_, Self>) -> Result<Option<Py<PyAny>>> {
        slf.as_super().get().newest(slf.py(), caller(slf.py())?)
    }

    /// Whether the calling thread holds the lock, through this object or another one. Sends nothing.
    ///
    /// >>> with lock:
    /// ...     lock.owned()
    /// True
    ///
    /// With `reentrant=False`, and for a semaphore: whether this object holds it, whoever acquired it.
    fn owned(slf: &Bound<'_, Self>) -> Result<bool> {
        slf.as_super().get().owned_by(caller(slf.py())?)
    }

    /// Whether any contender holds the lock or waits for it; that may have changed when this returns.
    ///
    /// >>> lock.locked()
    /// False
    ///
    /// For a semaphore: whether no permit is free. One read, whoever holds it. Raises `ConnectionFailed` if
    /// no server answers within the client's `connect_timeout`.
    fn locked(&self, py: Python<'_>) -> Result<bool> {
        Ok(block_on(py, self.inner.locked())??)
    }

    /// The contenders for the lock, in queue order: holders first.
    ///
    /// >>> with lock:
    /// ...     lock.contenders()[0].language
    /// 'python'
    ///
    /// The first hundred thousand are listed. Three round trips for up to a thousand, two for each further
    /// thousand. Raises what `locked()` raises.
    fn contenders(&self, py: Python<'_>) -> Result<Vec<Contender>> {
        let contenders = block_on(py, self.inner.contenders())??;
        Ok(contenders.into_iter().map(Contender::from).collect())
    }

    /// For `threading.Condition`: whether the caller may wait or notify.
    #[pyo3(name = "_is_owned")]
    fn is_owned(slf: &Bound<'_, Self>) -> Result<bool> {
        Self::owned(slf)
    }

    /// For `threading.Condition`: let go of the lock, however often the caller acquired it.
    #[pyo3(name = "_release_save")]
    fn release_save(slf: &Bound<'_, Self>) -> Result<SavedLevels> {
        slf.as_super().get().save(slf.py())
    }

    /// For `threading.Condition`: acquire it again, as often.
    #[pyo3(name = "_acquire_restore")]
    fn acquire_restore(slf: &Bound<'_, Self>, saved: &SavedLevels) -> Result<()> {
        slf.as_super().get().restore(slf.py(), saved)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, lock) = (slf.py(), slf.get());
        let Some((_, half)) = lock.name.split_once('.') else { return lock.recipe.reduce(&slf.get_type()) };
        // By name, because that class is made of this one.
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

/// Begin to ask whether it is taken.
#[pyfunction]
pub(crate) fn start_locked(py: Python<'_>, lock: &Lock) -> Result<Pending> {
    let lock = lock.inner.clone();
    Pending::start(py, async move { lock.locked().await })
}

/// Begin to ask for the contenders.
#[pyfunction]
pub(crate) fn start_contenders(py: Python<'_>, lock: &Lock) -> Result<Pending> {
    let lock = lock.inner.clone();
    Pending::start(py, async move { lock.contenders().await })
}
