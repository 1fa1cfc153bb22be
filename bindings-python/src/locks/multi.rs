//! `zklock.MultiLock`.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use zklock::internal::{self, Escaped, OwnerId, shown_hosts};

use crate::args::checked::wrong_type;
use crate::bridge::gevent::caller;
use crate::bridge::pending::{Steps, operation};
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
        Ok(StartedAcquire::Pending(
            operation(async move { locks.acquire_as(&caller, timeout).await }),
            Steps::Several,
        ))
    }

    fn owned_by(&self, owner: OwnerId) -> zklock::Result<bool> {
        self.locks().iter().try_fold(true, |all, lock| Ok(internal::owned_by(lock, owner)? && all))
    }

    fn name(&self) -> String {
        "these locks".to_owned()
    }
}

/// Several locks that are acquired together: all of them, or none.
///
/// >>> with zklock.MultiLock([lock, catalogue.write_lock]) as leases:
/// ...     len(leases)
/// 2
///
/// The locks can be of any kinds. All zklock programs acquire them in the same order, so two programs cannot
/// deadlock. They sort the locks by the path from the ensemble's root, and equal paths by the names of the
/// servers. The order can differ only for the same path on two ensembles, if the programs use different
/// server names for these ensembles. A lock that is listed twice is acquired once. The write half of a
/// read/write lock is acquired before the read half. One timeout covers all locks. If one cannot be acquired,
/// the earlier ones are released. If one is lost while the call waits for another, all are released and
/// acquired again.
///
/// The owner is the thread, as for the single locks. If an owner already holds one of the locks, but not a
/// lock that precedes it in the order, acquiring raises `BadArgument`, because it would break the order.
///
/// Raise `BadArgument` for an empty list, and for a non-reentrant lock that is listed twice. Also raise it if
/// the same path is listed as two kinds of lock, or through two clients of one ensemble. If two clients have
/// different host names for the same ensemble, the acquire detects that and raises `BadArgument`.
#[pyclass(frozen, weakref, extends = Acquirable, module = "zklock")]
pub(crate) struct MultiLock {
    inner: Arc<zklock::MultiLock>,
    /// The locks, as given.
    members: Py<PyTuple>,
}

#[pymethods]
impl MultiLock {
    #[new]
    fn new(py: Python<'_>, locks: &Bound<'_, PyAny>) -> Result<PyClassInitializer<Self>> {
        const EXPECTED: &str = "a list of locks, each a Mutex, a Semaphore or a half of a ReadWriteLock";
        let mut members = Vec::new();
        let wrong = |given: &Bound<'_, PyAny>| wrong_type("locks", EXPECTED, given);
        for lock in locks.try_iter().map_err(|_| wrong(locks))? {
            let lock = lock?;
            if lock.is_instance_of::<ReadWriteLock>() {
                let message = "locks: a ReadWriteLock is two locks; pass its read_lock or its write_lock";
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

    /// Visits the locks for the garbage collector, because they can be part of a reference cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.members)
    }

    /// Clears nothing, because the base class already breaks every reference cycle.
    #[expect(clippy::unused_self, reason = "the interpreter calls it with one")]
    fn __clear__(&self) {}

    /// The paths of the locks, in the order of acquisition.
    #[getter]
    fn paths(&self) -> Vec<&str> {
        self.inner.locks().iter().map(zklock::AnyLock::path).collect()
    }

    /// The calling thread's newest unreleased leases of this object, or None.
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
