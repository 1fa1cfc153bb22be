//! The functions with which `zklock.aio` acquires and releases a lock.

use pyo3::prelude::*;
use zklock::internal::Exit;

use crate::args::arguments::{ReleaseTimeout, Timeout};
use crate::bridge::block_on;
use crate::bridge::owner::Owner;
use crate::bridge::pending::{IntoPython, Pending};
use crate::errors::Result;
use crate::locks::acquire::{Acquirable, StartedAcquire};
use crate::locks::acquired::Level;
use crate::locks::lock_levels::Handle;
use crate::locks::scope::{Scope, ScopeOwner, Site};
use crate::locks::{acquired, scope};

/// Acquire the lock for `owner`. Return a lease if the owner already holds the lock, else a pending acquire.
#[pyfunction]
pub(crate) fn start_acquire(
    py: Python<'_>,
    lock: &Acquirable,
    owner: &Owner,
    timeout: &Timeout,
) -> Result<Py<PyAny>> {
    block_on::begin(py)?;
    Ok(match lock.target.request(owner.id, &|| owner.caller(py), timeout.0)? {
        StartedAcquire::Granted(lease) => lease.into_python(py)?,
        StartedAcquire::Pending(operation, steps) => {
            Py::new(py, Pending::start_operation(py, operation, steps)?)?.into_any()
        }
    })
}

/// Store an acquire of `owner`. `handle` is its Python object, and `scope` is the scope that it entered, if
/// any.
#[pyfunction]
#[pyo3(signature = (lock, owner, level, handle, scope))]
pub(crate) fn push(
    py: Python<'_>,
    lock: &Acquirable,
    owner: &Owner,
    level: &Level,
    handle: Py<PyAny>,
    scope: Option<(PyRef<'_, Site>, Py<PyAny>)>,
) {
    let scope = scope.map(|(site, scope)| (site.0, Scope::new(scope.clone_ref(py), ScopeOwner::Task(scope))));
    if scope.is_none() {
        owner.record_use(&lock.levels);
    }
    lock.levels.push(owner.id, level.0.clone(), Handle::Made(handle), scope);
}

/// Return the object of the owner's newest unreleased acquire. For a non-reentrant lock, return the newest
/// one of any owner.
#[pyfunction]
pub(crate) fn newest(py: Python<'_>, lock: &Acquirable, owner: &Owner) -> Result<Option<Py<PyAny>>> {
    lock.newest(py, owner.id)
}

/// Remove the acquire that `newest` would return, and release it like `start_release`. Raise `NotHeld` if
/// there is none.
#[pyfunction]
pub(crate) fn release_newest(
    py: Python<'_>,
    lock: &Acquirable,
    owner: &Owner,
    timeout: &ReleaseTimeout,
) -> Result<Option<Pending>> {
    let taken = lock.levels.take_acquired(owner.id);
    let (acquired, _left) = taken.ok_or_else(|| lock.not_held(owner.id, "task"))?;
    acquired::begin_release(py, &*acquired, timeout)
}

/// End the scope that the program leaves at this site, and return it. Return None if there is no such scope.
///
/// `only` is true if the program has entered this `Hold` only once: at most one scope can then match.
#[pyfunction]
#[pyo3(signature = (lock, owner, site, only, raised))]
pub(crate) fn leave(
    py: Python<'_>,
    lock: &Acquirable,
    owner: Option<&Owner>,
    site: &Site,
    only: bool,
    raised: bool,
) -> Result<Option<Py<PyAny>>> {
    let exit = Exit { owner: scope::of_task(owner), site: site.0, only };
    scope::leave(py, &lock.levels, &exit, raised, "task", &lock.target.name())
}

/// Return whether `owner` holds the lock. For a non-reentrant lock, return whether it is held through this
/// object.
#[pyfunction]
pub(crate) fn owned_by(lock: &Acquirable, owner: &Owner) -> Result<bool> {
    lock.owned_by(owner.id)
}
