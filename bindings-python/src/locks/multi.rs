//! `zklock.MultiLock`.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use zklock::internal::{self, Escaped, OwnerId, shown_hosts};

use crate::args::checked::wrong_type;
use crate::bridge::gevent::caller;
use crate::bridge::pending::operation;
use crate::errors::Result;
use crate::locks::acquire::{Acquirable, StartedAcquire, Target};
use crate::locks::lock::Lock;
use crate::locks::rwlock::ReadWriteLock;

impl Target for Arc<zklock::MultiLock> {
    fn request(
        &self,
        _owner: OwnerId,
        caller: &dyn Fn() -> PyResult<zklock::Owner>,
        timeout: zklock::Timeout,
    ) -> Result<StartedAcquire> {
        let (locks, caller) = (Self::clone(self), caller()?);
        Ok(StartedAcquire::Pending(operation(async move { locks.acquire_as(&caller, timeout).await })))
    }

    fn owned_by(&self, owner: OwnerId) -> zklock::Result<bool> {
        self.locks().iter().try_fold(true, |all, lock| Ok(internal::owned_by(lock, owner)? && all))
    }

    fn name(&self) -> String {
        "these locks".to_owned()
    }
}

/// Several locks taken as one: all, or none.
///
/// >>> with zklock.MultiLock([lock, catalogue.write_lock]) as leases:
/// ...     len(leases)
/// 2
///
/// Any kinds may be mixed. They are taken in one order that all zklock programs share: by path from
/// the root, and on one path by the names of the servers; so two programs cannot wait for each other,
/// unless both take one path on two ensembles that they call by different names. A lock that is named
/// twice is taken once; the write half of a read/write lock is taken before the read half. One time-out
/// covers all. If one cannot be acquired, those before it are released; if one is lost while another is
/// waited for, all are released and acquired anew.
///
/// The owner is the thread, as for its locks. Acquiring is refused with `BadArgument` for an owner that
/// holds one of the locks but not one that comes before it: taking that now would break the order.
///
/// Raises `BadArgument` for an empty list; for one path through two clients of one ensemble, or as
/// locks of two kinds; and for a lock without re-entry that is named twice. If the hosts of two clients
/// are different names of one ensemble, that is found, and raised, by the acquire.
#[pyclass(frozen, weakref, extends = Acquirable, module = "zklock")]
pub(crate) struct MultiLock {
    inner: Arc<zklock::MultiLock>,
    /// As given.
    members: Py<PyTuple>,
}

#[pymethods]
impl MultiLock {
    #[new]
    fn new(py: Python<'_>, locks: &Bound<'_, PyAny>) -> Result<PyClassInitializer<Self>> {
        const EXPECTED: &str = "a list, each of it a Mutex, a Semaphore or a half of a ReadWriteLock";
        let mut members = Vec::new();
        let wrong = |given: &Bound<'_, PyAny>| wrong_type("locks", EXPECTED, given);
        for lock in locks.try_iter().map_err(|_| wrong(locks))? {
            let lock = lock?;
            if lock.is_instance_of::<ReadWriteLock>() {
                let message = "locks: a ReadWriteLock is two locks; name its read_lock or its write_lock";
                return Err(PyTypeError::new_err(message).into());
            }
            members.push(lock.cast_into::<Lock>().map_err(|error| wrong(&error.into_inner()))?);
        }
        let locks = members.iter().map(|lock| lock.get().inner.clone());
        let inner = Arc::new(zklock::MultiLock::new(locks)?);
        let members = PyTuple::new(py, members)?.unbind();
        let base = PyClassInitializer::from(Acquirable::new(Arc::clone(&inner), true));
        Ok(base.add_subclass(Self { inner, members }))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (Py<PyTuple>,)) {
        (slf.get_type(), (slf.get().members.clone_ref(slf.py()),))
    }

    /// The locks have levels, which may lead back here.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.members)
    }

    /// What the base clears is enough to break every cycle.
    #[expect(clippy::unused_self, reason = "the interpreter calls it with one")]
    fn __clear__(&self) {}

    /// The locks' paths, in the order in which they are taken.
    #[getter]
    fn paths(&self) -> Vec<&str> {
        self.inner.locks().iter().map(zklock::AnyLock::path).collect()
    }

    /// The calling thread's newest leases of this object that have not been released, or None.
    #[getter]
    fn leases(slf: &Bound<'_, Self>) -> Result<Option<Py<PyAny>>> {
        slf.as_super().get().newest(slf.py(), caller(slf.py())?)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        let show = |lock: &zklock::AnyLock| format!("{} on {}", Escaped(lock.path()), shown_hosts(lock));
        let locks: Vec<_> = slf.get().inner.locks().iter().map(show).collect();
        let held = if slf.as_super().get().any_held() { "held" } else { "not held" };
        format!("<zklock.MultiLock {}, {held}>", locks.join(", "))
    }
}
