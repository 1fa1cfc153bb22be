//! A *scope* is one execution of a `with` block. This module finds the scope that ends when a block ends,
//! even if several blocks use the same lock object. It also detects scopes whose owners have ended.

use std::sync::{Arc, Weak};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zklock::ErrorKind;
use zklock::internal::{self, AcquiredStack, Exit, Exited, Frame, OwnerId, error};

use crate::bridge::gevent;
use crate::bridge::owner::Owner;
use crate::errors::Result;
use crate::locks::acquired::Level;
use crate::modules::interned;

/// Flags that mark the code of generators and asynchronous generators. Different owners can run the same
/// generator, one after the other.
const GENERATOR: u32 = 0x20 | 0x200;

/// The place at which a scope is entered or left.
///
/// It consists of the Python frame and the number of the `Hold` object (0 for the lock itself).
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Site(pub(crate) internal::Site);

#[pymethods]
impl Site {
    #[new]
    #[pyo3(signature = (frame, through=0))]
    fn new(frame: &Bound<'_, PyAny>, through: u64) -> PyResult<Self> {
        site_of(frame, through).map(Self)
    }
}

/// Returns the site of the Python code that calls the current function.
pub(crate) fn site(py: Python<'_>, through: u64) -> PyResult<internal::Site> {
    let nowhere = internal::Site { frame: Frame { address: 0, code: 0 }, moves: false, through };
    calling_frame(py).map_or(Ok(nowhere), |frame| site_of(&frame, through))
}

fn calling_frame(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the thread is attached. The frame, if there is one, is borrowed from the running thread.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, pyo3::ffi::PyEval_GetFrame().cast()) }
}

fn frame_of(frame: &Bound<'_, PyAny>) -> PyResult<(Frame, u32)> {
    let py = frame.py();
    let code = frame.getattr(interned!(py, "f_code")?)?;
    let flags = code.getattr(interned!(py, "co_flags")?)?.extract()?;
    Ok((Frame { address: frame.as_ptr() as usize, code: code.as_ptr() as usize }, flags))
}

fn site_of(frame: &Bound<'_, PyAny>, through: u64) -> PyResult<internal::Site> {
    let (frame, flags) = frame_of(frame)?;
    Ok(internal::Site { frame, moves: flags & GENERATOR != 0, through })
}

/// Returns `true` if the frame is on the call stack of this thread or greenlet.
fn runs(py: Python<'_>, frame: Frame) -> bool {
    let mut next = calling_frame(py);
    while let Some(running) = next {
        if frame_of(&running).is_ok_and(|(running, _)| running == frame) {
            return true;
        }
        next = running.getattr("f_back").ok().filter(|back| !back.is_none());
    }
    false
}

/// The owner of a scope, in a form that shows whether it has ended.
pub(crate) enum ScopeOwner {
    /// A thread: a weak reference that expires when the thread ends.
    Thread(Weak<()>),
    /// A greenlet: a weak reference to it.
    Greenlet(Py<PyAny>),
    /// A task: the scope object of `zklock.aio`.
    Task(Py<PyAny>),
}

/// An object that is dropped when its thread ends. It is stored in a dictionary of the thread, which Python
/// clears before `join()` returns.
#[pyclass(frozen, module = "zklock._zklock")]
struct Mark(Arc<()>);

impl ScopeOwner {
    /// Returns the calling thread or greenlet.
    pub(crate) fn caller(py: Python<'_>) -> PyResult<Self> {
        if let Some(greenlet) = gevent::reference(py)? {
            return Ok(Self::Greenlet(greenlet));
        }
        // SAFETY: the thread is attached. The dictionary is borrowed from the running thread.
        let state = unsafe { Bound::from_borrowed_ptr_or_opt(py, pyo3::ffi::PyThreadState_GetDict()) };
        let Some(state) = state else { return Ok(Self::Thread(Arc::downgrade(&Arc::new(())))) };
        let (state, key) = (state.cast_into::<PyDict>()?, interned!(py, "zklock")?);
        if let Some(mark) = state.get_item(key)? {
            return Ok(Self::Thread(Arc::downgrade(&mark.cast::<Mark>()?.get().0)));
        }
        let mark = Arc::new(());
        let weak = Arc::downgrade(&mark);
        state.set_item(key, Mark(mark).into_pyobject(py)?)?;
        Ok(Self::Thread(weak))
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Thread(mark) => Self::Thread(Weak::clone(mark)),
            Self::Greenlet(reference) => Self::Greenlet(reference.clone_ref(py)),
            Self::Task(scope) => Self::Task(scope.clone_ref(py)),
        }
    }

    /// Returns `true` if the owner has ended. Returns `false` if that cannot be determined.
    fn has_ended(&self, py: Python<'_>) -> bool {
        let ended = match self {
            Self::Thread(mark) => return mark.strong_count() == 0,
            Self::Greenlet(reference) => reference
                .bind(py)
                .call0()
                .and_then(|greenlet| Ok(greenlet.is_none() || greenlet.getattr("dead")?.is_truthy()?)),
            Self::Task(scope) => scope.bind(py).call_method0("has_ended").and_then(|ended| ended.is_truthy()),
        };
        ended.unwrap_or(false)
    }
}

/// A scope that has not ended.
pub(crate) struct Scope {
    /// Its lease, or the scope object of `zklock.aio`.
    object: Py<PyAny>,
    owner: ScopeOwner,
}

impl Scope {
    pub(crate) fn new(object: Py<PyAny>, owner: ScopeOwner) -> Self {
        Self { object, owner }
    }

    /// Returns a scope of the calling owner, for a new lease.
    pub(crate) fn of_caller(py: Python<'_>, object: Py<PyAny>) -> PyResult<Self> {
        Ok(Self { object, owner: ScopeOwner::caller(py)? })
    }

    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)?;
        match &self.owner {
            ScopeOwner::Thread(_) => Ok(()),
            ScopeOwner::Greenlet(object) | ScopeOwner::Task(object) => visit.call(object),
        }
    }
}

/// Returns the object of the scope that this exit ends, or `None` if no scope of this lock object is running.
/// Fails if scopes are running but the exit belongs to none of them. If the block has raised an exception
/// (`raised`), the function returns `None` instead, because its error would replace that exception.
pub(crate) fn leave<H>(
    py: Python<'_>,
    levels: &AcquiredStack<H, Scope>,
    exit: &Exit,
    raised: bool,
    caller: &str,
    name: &str,
) -> Result<Option<Py<PyAny>>> {
    let owner = |scope: &Scope| scope.owner.clone_ref(py);
    let left = levels.leave(exit, owner, |frame| runs(py, frame), |owner| owner.has_ended(py));
    match left {
        Exited::Scope(_, scope) => Ok(Some(scope.object)),
        Exited::Others if !raised => Err(error(
            ErrorKind::NotHeld,
            format!(
                "this {caller} has no open scope of {name} that this exit could end; scopes of other owners \
                 continue. Exit a scope in the {caller} that entered it, or use a separate hold()"
            ),
        )
        .into()),
        Exited::Others | Exited::Nothing => Ok(None),
    }
}

/// The scopes of an object of `zklock.aio` that is not a lock.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Scopes(AcquiredStack<(), Scope>);

#[pymethods]
impl Scopes {
    #[new]
    fn new() -> Self {
        Self(AcquiredStack::new(true))
    }

    /// Store a scope that a task has entered.
    fn push(&self, owner: &Owner, level: &Level, scope: Py<PyAny>, site: &Site, py: Python<'_>) {
        let kept = Scope::new(scope.clone_ref(py), ScopeOwner::Task(scope));
        self.0.push(owner.id, level.0.clone(), (), Some((site.0, kept)));
    }

    /// Return the scope that an exit at this site ends.
    #[pyo3(signature = (owner, site, raised))]
    fn leave(
        &self,
        py: Python<'_>,
        owner: Option<&Owner>,
        site: &Site,
        raised: bool,
    ) -> Result<Option<Py<PyAny>>> {
        let exit = Exit { owner: of_task(owner), site: site.0, only: false };
        leave(py, &self.0, &exit, raised, "task", "this election")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.visit(|(), scope| scope.map_or(Ok(()), |scope| scope.visit(&visit)))
    }

    fn __clear__(&self) {
        self.0.clear();
    }
}

/// Returns the id of a task. Outside of tasks, returns a new id, which owns no lock.
pub(crate) fn of_task(owner: Option<&Owner>) -> OwnerId {
    owner.map_or_else(OwnerId::new, |owner| owner.id)
}

/// Returns the owner and name that other clients see while a task queues.
pub(crate) fn caller_of(py: Python<'_>, owner: Option<&Owner>) -> PyResult<zklock::Owner> {
    owner.map_or_else(|| Ok(zklock::Owner::new()), |owner| owner.caller(py))
}
