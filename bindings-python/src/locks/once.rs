//! `Mutex.once()` and `Mutex.once_per()`, which run a function once per *slot*. A slot is a key or a period
//! of time. A *turn* is one run of the function while the lock is held.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use zklock::ErrorKind;
use zklock::internal::{OwnerId, Site, error, once};

use crate::args::arguments::{PYTHON, Timeout};
use crate::args::checked::Number;
use crate::args::names;
use crate::args::text::Text;
use crate::bridge::asyncio_tasks;
use crate::bridge::block_on::{admit, block_on, block_to_own};
use crate::bridge::gevent::Caller;
use crate::bridge::owner::Owner;
use crate::bridge::pending::{IntoPython, Pending};
use crate::errors::{Failure, Result};
use crate::locks::acquire::{Acquirable, raised};
use crate::locks::lease::Lease;
use crate::locks::mutex;

/// A validated slot, with the choice to record it before or after the body.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Slot {
    slot: once::Slot,
    record: once::Record,
}

#[pymethods]
impl Slot {
    /// Return the slot with this name.
    #[staticmethod]
    pub(crate) fn key(key: Text<names::SlotKey>, record: Text<names::Record>) -> Result<Self> {
        Ok(Self { slot: once::Slot::key(key)?, record: once::parse_record(&record)? })
    }

    /// Return the current slot of a period, in seconds.
    #[staticmethod]
    pub(crate) fn per(period: Number<names::Period>, record: Text<names::Record>) -> Result<Self> {
        let period = PYTHON.duration("period", period.0)?;
        Ok(Self { slot: once::Slot::per(period)?, record: once::parse_record(&record)? })
    }
}

/// One run of a slot's body while the lock is held.
///
/// It is a context manager: the end of its block records the slot, unless the block raises an exception.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Turn {
    inner: Mutex<Option<once::Turn>>,
    lease: Py<Lease>,
    /// The lock object, the owner and the call site of a blocking call. Not used by `zklock.aio`.
    scope: OnceLock<(Py<mutex::Mutex>, OwnerId, Site)>,
}

impl Turn {
    fn new(py: Python<'_>, turn: once::Turn) -> PyResult<Self> {
        let lease = Lease::new(py, Arc::clone(turn.lease()))?;
        Ok(Self { inner: Mutex::new(Some(turn)), lease, scope: OnceLock::new() })
    }

    fn take(&self) -> zklock::Result<once::Turn> {
        let turn = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        turn.ok_or_else(|| error(ErrorKind::NotHeld, "this turn is over"))
    }

    fn lock<'a>(lock: &'a Bound<'_, mutex::Mutex>) -> &'a Acquirable {
        lock.as_super().as_super().get()
    }
}

#[pymethods]
impl Turn {
    /// The lease under which the body runs.
    #[getter]
    fn lease(&self, py: Python<'_>) -> Py<Lease> {
        self.lease.clone_ref(py)
    }

    /// Start to record the slot (unless it was recorded before the body) and to release the lock.
    fn start_record(&self, py: Python<'_>) -> Result<Pending> {
        Pending::start(py, self.take()?.record())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<Lease>> {
        if let Some((lock, owner, site)) = self.scope.get() {
            Self::lock(lock.bind(py)).push_scope(py, *owner, self.lease.clone_ref(py), *site)?;
        }
        Ok(self.lease.clone_ref(py))
    }

    #[pyo3(signature = (*exception), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> Result<()> {
        let raised = raised(exception);
        if let Some((lock, owner, site)) = self.scope.get() {
            Self::lock(lock.bind(py)).pop_scope(py, *owner, *site);
        }
        if raised.is_some() {
            // The rest of the exit is the same as for the lease.
            let level = self.lease.bind(py).as_super().get();
            return Ok(level.leave_scope(py, raised.as_ref())?);
        }
        Ok(block_on(py, self.take()?.record())??)
    }
}

impl IntoPython for Option<once::Turn> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Some(turn) => Turn::new(py, turn)?.into_py_any(py),
            None => Ok(py.None()),
        }
    }
}

/// Begins a turn of the slot for an owner.
fn turn(
    lock: &Bound<'_, mutex::Mutex>,
    owner: zklock::Owner,
    slot: &Slot,
    timeout: &Timeout,
) -> impl Future<Output = zklock::Result<Option<once::Turn>>> + Send + use<> {
    let lock = lock.as_super().get().inner.clone();
    let (slot, record, timeout) = (slot.slot.clone(), slot.record, timeout.0);
    async move { once::begin(&lock, &owner, &slot, timeout, record).await }
}

/// Acquire the lock for a run of the body on the calling thread. Return None if the slot is already recorded.
#[pyfunction]
pub(crate) fn begin_turn(
    lock: &Bound<'_, mutex::Mutex>,
    slot: &Slot,
    timeout: &Timeout,
) -> Result<Option<Turn>> {
    let py = lock.py();
    let acquirable = Turn::lock(lock);
    let caller = Caller::find(py)?;
    let owner = caller.owner();
    let in_event_loop = acquirable.check_for_event_loop(py, owner)?;
    admit(py)?;
    let Some(begun) = block_to_own(py, turn(lock, caller.named(py)?, slot, timeout))?? else {
        return Ok(None);
    };
    let turn = Turn::new(py, begun)?;
    if in_event_loop {
        asyncio_tasks::remember(py, &turn.lease.clone_ref(py).into_any())?;
    }
    let site = acquirable.new_site(py)?;
    let scope = (lock.clone().unbind(), owner, site);
    turn.scope.set(scope).map_err(|_| Failure::from(error(ErrorKind::NotHeld, "this turn has begun")))?;
    Ok(Some(turn))
}

/// Start to acquire for a turn of a task.
#[pyfunction]
pub(crate) fn start_turn(
    lock: &Bound<'_, mutex::Mutex>,
    owner: &Owner,
    slot: &Slot,
    timeout: &Timeout,
) -> Result<Pending> {
    let py = lock.py();
    Pending::start(py, turn(lock, owner.caller(py)?, slot, timeout))
}
