//! `zklock.Lock`: all that mutexes and the halves of read/write locks can do; they differ in how they are made.

use pyo3::prelude::*;
use zklock::binding::error;
use zklock::{AnyLock, ErrorKind};

use crate::arguments::{Owner, Patience, patience, this_thread};
use crate::contender::Contender;
use crate::errors::Failure;
use crate::hold::{Hold, Scope};
use crate::lease::Lease;
use crate::levels::Levels;
use crate::pending::Pending;
use crate::wait::block_on;

/// Something that can be acquired: a `Mutex`, a half of a `ReadWriteLock`, or a `Semaphore`.
///
/// >>> with lock as lease:
/// ...     write_report(lease.fencing_token)
///
/// The *owner* of a lock, who may acquire it again, is the thread. An owner that acquired a lock n
/// times releases it n times. Threads may share the lock object. When the object goes, levels that were
/// never released are released.
#[pyclass(frozen, subclass, weakref, module = "zklock")]
pub(crate) struct Lock {
    // Cloned for the acquires of asyncio, which outlive the call that starts them.
    inner: AnyLock,
    /// What it is called in Python.
    name: &'static str,
    reentrant: bool,
    /// What `release()` undoes.
    levels: Levels<Lease>,
    /// What the ends of `with` blocks undo.
    scopes: Levels<Lease>,
}

impl Lock {
    pub(crate) fn new(inner: impl Into<AnyLock>, name: &'static str) -> Self {
        let inner = inner.into();
        Self { inner, name, reentrant: true, levels: Levels::default(), scopes: Levels::default() }
    }

    /// The core's lock.
    pub(crate) fn any(&self) -> AnyLock {
        self.inner.clone()
    }

    /// Of a lock that does not re-enter no caller is more its owner than another.
    pub(crate) fn reentrant(self, reentrant: bool) -> Self {
        Self { reentrant, ..self }
    }

    /// Whose levels a call is about: those of the calling thread, or all.
    fn caller(&self) -> Option<zklock::Owner> {
        self.reentrant.then(this_thread)
    }

    /// Acquires a level for the calling thread.
    fn take(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<Lease>, Failure> {
        let owner = this_thread();
        let inner = block_on(py, self.inner.acquire_as(owner, patience))??;
        let lease = Py::new(py, Lease { inner })?;
        self.levels.push(owner, lease.clone_ref(py));
        Ok(lease)
    }

    /// Begins a scope.
    pub(crate) fn enter(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<Lease>, Failure> {
        let lease = self.take(py, patience)?;
        self.scopes.push(this_thread(), lease.clone_ref(py));
        Ok(lease)
    }

    /// Ends a scope: the newest of the calling thread.
    pub(crate) fn exit(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(lease) = self.scopes.pop(this_thread()) else { return Ok(()) };
        self.levels.remove(&lease);
        lease.get().leave_scope(py, raised)
    }
}

impl Scope for Py<Lock> {
    fn enter(&self, py: Python<'_>, patience: zklock::Patience) -> Result<Py<PyAny>, Failure> {
        Ok(self.get().enter(py, patience)?.into_any())
    }

    fn exit(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.get().exit(py, raised)
    }
}

#[pymethods]
impl Lock {
    /// The lock path.
    #[getter]
    pub(crate) fn path(&self) -> &str {
        self.inner.path()
    }

    /// The calling thread's newest lease of this object that was not released, or None.
    ///
    /// With `reentrant=False`, and of a semaphore: the object's, whoever acquired it.
    #[getter]
    fn lease(&self, py: Python<'_>) -> Option<Py<Lease>> {
        self.levels.newest(py, self.caller())
    }

    /// Acquire the lock for the calling thread; False if it was not acquired in time, and only then.
    ///
    /// >>> if lock.acquire(timeout=5):
    /// ...     lock.release()
    ///
    /// `timeout` is in seconds and covers connecting, queueing and waiting together. -1 or None waits as
    /// long as it takes: connection loss only lengthens the wait. 0 is the same as `blocking=False`: it
    /// does not queue for a lock that is taken.
    ///
    /// Other threads run while this one waits. Ctrl-C is answered within 0.2 s and leaves the queue.
    ///
    /// Raises `BadArgument` for another negative time-out, for NaN, and for a time-out together with
    /// `blocking=False`; `UpgradeRefused` for a write lock whose read lock the caller holds;
    /// `ConnectionFailed` if no server was ever reached, or, without blocking, if none answers within the
    /// client's `connect_timeout`; `ClientClosed`, `AuthFailed`, `SequenceExhausted`, and `Forked`.
    #[pyo3(
        signature = (blocking=true, timeout=-1.0),
        text_signature = "($self, blocking=True, timeout=-1)"
    )]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> Result<bool, Failure> {
        match self.take(py, patience(blocking, timeout)?) {
            Ok(_) => Ok(true),
            Err(Failure::Zklock(error)) if error.kind() == ErrorKind::LockTimeout => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Undo the calling thread's newest acquire of this object. See `Lease.release`.
    ///
    /// >>> if lock.acquire(blocking=False):
    /// ...     lock.release()
    ///
    /// With `reentrant=False`, and of a semaphore: undo the object's newest acquire, whoever calls.
    ///
    /// Raises `NotHeld` if there is none.
    #[pyo3(signature = (wait=true))]
    fn release(&self, py: Python<'_>, wait: bool) -> Result<(), Failure> {
        if let Some(lease) = self.levels.newest(py, self.caller()) {
            self.levels.remove(&lease);
            return lease.get().release(py, wait);
        }
        // In a forked child it is not the caller who is wrong.
        self.inner.owned_by(this_thread())?;
        let path = self.inner.path();
        let message = if self.reentrant {
            format!("this thread has not acquired {path} through this object")
        } else {
            format!("{path} is not held through this object")
        };
        Err(error(ErrorKind::NotHeld, message).into())
    }

    /// Whether the calling thread holds the lock, through this object or another one. Sends nothing.
    ///
    /// >>> with lock:
    /// ...     lock.owned()
    /// True
    ///
    /// With `reentrant=False`, and of a semaphore: whether this object holds it, whoever acquired it.
    fn owned(&self) -> Result<bool, Failure> {
        let owned = self.inner.owned_by(this_thread())?;
        Ok(if self.reentrant { owned } else { self.levels.any_held() })
    }

    /// Whether anybody holds the lock or waits for it, as of now: it may have changed when this returns.
    ///
    /// >>> lock.locked()
    /// False
    ///
    /// Of a semaphore: whether no permit is free. One read, whoever holds it. Raises `ConnectionFailed` if
    /// no server answers within the client's `connect_timeout`.
    fn locked(&self, py: Python<'_>) -> Result<bool, Failure> {
        Ok(block_on(py, self.inner.locked())??)
    }

    /// Who contends for the lock, in the order of the queue: those that hold it first.
    ///
    /// >>> with lock:
    /// ...     lock.contenders()[0].language
    /// 'python'
    ///
    /// Two round trips, however many there are. Raises what `locked()` raises.
    fn contenders(&self, py: Python<'_>) -> Result<Vec<Contender>, Failure> {
        let contenders = block_on(py, self.inner.contenders())??;
        Ok(contenders.into_iter().map(Contender::from).collect())
    }

    /// A context manager that acquires within `timeout` seconds, or raises `LockTimeout`.
    ///
    /// >>> with lock.hold(timeout=5):
    /// ...     print("held")
    /// held
    ///
    /// The message says whether the lock was taken or the servers were out of reach.
    #[pyo3(signature = (timeout=-1.0), text_signature = "($self, timeout=-1)")]
    fn hold(slf: Py<Self>, timeout: Option<f64>) -> Result<Hold, Failure> {
        Ok(Hold::new(slf, patience(true, timeout)?))
    }

    fn __enter__(&self, py: Python<'_>) -> Result<Py<Lease>, Failure> {
        self.enter(py, zklock::Patience::Forever)
    }

    #[pyo3(signature = (_kind=None, value=None, _trace=None), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.exit(py, value)
    }

    fn __repr__(&self) -> String {
        format!("<zklock.{} {}>", self.name, self.inner.path())
    }
}

/// Begin to acquire for `owner`.
#[pyfunction]
pub(crate) fn start_acquire(
    py: Python<'_>,
    lock: &Bound<'_, Lock>,
    owner: &Bound<'_, Owner>,
    patience: &Bound<'_, Patience>,
) -> Result<Pending, Failure> {
    let lock = lock.get().any();
    let (owner, patience) = (owner.get().0, patience.get().0);
    Pending::start(py, async move { lock.acquire_as(owner, patience).await })
}

/// Begin to ask whether it is taken.
#[pyfunction]
pub(crate) fn start_locked(py: Python<'_>, lock: &Bound<'_, Lock>) -> Result<Pending, Failure> {
    let lock = lock.get().any();
    Pending::start(py, async move { lock.locked().await })
}

/// Begin to ask who contends.
#[pyfunction]
pub(crate) fn start_contenders(py: Python<'_>, lock: &Bound<'_, Lock>) -> Result<Pending, Failure> {
    let lock = lock.get().any();
    Pending::start(py, async move { lock.contenders().await })
}

/// Whether `owner` holds the lock. Nobody does not, but hears of a client that is closed or was inherited.
#[pyfunction]
#[pyo3(signature = (lock, owner))]
pub(crate) fn owned_by(lock: &Bound<'_, Lock>, owner: Option<&Bound<'_, Owner>>) -> Result<bool, Failure> {
    let owner = owner.map_or_else(zklock::Owner::new, |owner| owner.get().0);
    Ok(lock.get().inner.owned_by(owner)?)
}
