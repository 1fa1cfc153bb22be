//! `zklock.Lock`: all that mutexes and the halves of read/write locks can do; they differ in how they are created.

use pyo3::prelude::*;
use zklock::AnyLock;
use zklock::binding::Shown;

use crate::acquirable::{Acquirable, Target};
use crate::contender::Contender;
use crate::errors::Result;
use crate::greenlets::caller;
use crate::pending::{Operation, Pending, operation};
use crate::wait::block_on;

impl Target for AnyLock {
    fn acquire(&self, owner: zklock::Owner, patience: zklock::Patience) -> Operation {
        let lock = self.clone();
        operation(async move { lock.acquire_as(owner, patience).await })
    }

    fn owned_by(&self, owner: zklock::Owner) -> zklock::Result<bool> {
        self.owned_by(owner)
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
/// The *owner* of a lock, which may acquire it again, is the thread. An owner that acquired a lock n
/// times releases it n times. Threads may share the lock object. When the object goes, levels that were
/// never released are released.
#[pyclass(frozen, subclass, weakref, extends = Acquirable, module = "zklock")]
pub(crate) struct Lock {
    // Cloned for what outlives the call that starts it.
    pub(crate) inner: AnyLock,
    /// Its name in Python.
    name: &'static str,
}

impl Lock {
    pub(crate) fn new(
        inner: impl Into<AnyLock>,
        name: &'static str,
        reentrant: bool,
    ) -> PyClassInitializer<Self> {
        let inner = inner.into();
        PyClassInitializer::from(Acquirable::new(inner.clone(), reentrant)).add_subclass(Self { inner, name })
    }
}

#[pymethods]
impl Lock {
    /// The lock path.
    #[getter]
    pub(crate) fn path(&self) -> &str {
        self.inner.path()
    }

    /// The calling thread's newest lease of this object that has not been released, or None.
    ///
    /// With `reentrant=False`, and for a semaphore: the object's newest, whoever acquired it.
    #[getter]
    fn lease(slf: &Bound<'_, Self>) -> Result<Option<Py<PyAny>>> {
        Ok(slf.as_super().get().newest(slf.py(), caller(slf.py())?))
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
    /// Three round trips for up to a thousand, two for each further thousand. Raises what `locked()` raises.
    fn contenders(&self, py: Python<'_>) -> Result<Vec<Contender>> {
        let contenders = block_on(py, self.inner.contenders())??;
        Ok(contenders.into_iter().map(Contender::from).collect())
    }

    fn __repr__(&self) -> String {
        format!("<zklock.{} {}>", self.name, Shown(self.inner.path()))
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
