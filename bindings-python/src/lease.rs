//! `zklock.Lease`.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use zklock::ErrorKind;

use crate::arguments::wait_limit;
use crate::errors::Failure;
use crate::levels::Level;
use crate::notice::Notice;
use crate::pending::{IntoPython, Pending};
use crate::transaction::Transaction;
use crate::wait::{block_on, block_on_for};

/// Proof of holding a lock, returned by a successful acquire.
#[pyclass(frozen, weakref, module = "zklock")]
pub(crate) struct Lease {
    pub(crate) inner: zklock::Lease,
}

impl IntoPython for zklock::Lease {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Lease { inner: self }.into_py_any(py)
    }
}

impl Lease {
    fn refusal(&self) -> Option<ErrorKind> {
        self.inner.check().err().map(|error| error.kind())
    }

    /// That the lock is lost, if it is.
    pub(crate) fn loss(&self) -> Option<zklock::Error> {
        self.inner.check().err().filter(|error| error.kind() == ErrorKind::LockLost)
    }

    /// Releases at the end of a scope: silent if the body did it already, or if a forked child inherited the scope.
    pub(crate) fn leave_scope(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let loss = self.loss();
        block_on(py, self.inner.release())?.ok();
        after_scope(py, loss, raised)
    }
}

/// If the lock was lost in the scope, raises that from what the body raised; but not in the place of what ends a
/// thread or a generator, nor of a loss that the body has noticed itself.
pub(crate) fn after_scope(
    py: Python<'_>,
    loss: Option<zklock::Error>,
    raised: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let Some(loss) = loss.map(|loss| PyErr::from(Failure::from(loss))) else { return Ok(()) };
    if let Some(raised) = raised {
        let wins = !raised.is_instance_of::<PyException>() || raised.is_instance(&loss.get_type(py))?;
        if wins {
            return Ok(());
        }
        loss.set_cause(py, Some(PyErr::from_value(raised.clone())));
    }
    Err(loss)
}

impl Level for Lease {
    /// There is something left when the lock was lost, and there is not for what a forked child inherited.
    fn is_open(&self) -> bool {
        !matches!(self.refusal(), Some(ErrorKind::NotHeld | ErrorKind::Forked))
    }

    fn is_held(&self) -> bool {
        self.refusal().is_none()
    }
}

#[pymethods]
impl Lease {
    /// The lock path.
    #[getter]
    fn path(&self) -> &str {
        self.inner.path()
    }

    /// The full path of the lock's node.
    #[getter]
    fn node(&self) -> String {
        self.inner.node()
    }

    /// A number that grows from holder to holder, for the resource that the lock guards.
    #[getter]
    fn fencing_token(&self) -> i64 {
        self.inner.fencing_token()
    }

    /// The ZooKeeper session that owns the node.
    #[getter]
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }

    /// Whether the lease still proves anything: held, suspended, lost, or released.
    #[getter]
    fn state(&self) -> &'static str {
        self.inner.state().as_str()
    }

    /// For how many seconds nobody else can have the lock, whatever happens.
    #[getter]
    fn remaining(&self) -> f64 {
        self.inner.remaining().as_secs_f64()
    }

    /// Why the lease is lost, if it is.
    #[getter]
    fn loss_reason(&self) -> Option<&'static str> {
        self.inner.loss_reason().map(zklock::LossReason::as_str)
    }

    /// Have `callback` called when the lease is lost, with the lease.
    fn on_lost(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> Result<Notice, Failure> {
        let ended = slf.get().inner.ended();
        Notice::of_lease(slf.as_any(), async move { ended.await.is_some() }, callback)
    }

    /// Have `callback` called when somebody asks for the lock to be given up, with the lease.
    fn on_revoke(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> Result<Notice, Failure> {
        let revoked = slf.get().inner.revoked();
        Notice::of_lease(
            slf.as_any(),
            async move {
                revoked.await;
                true
            },
            callback,
        )
    }

    /// Wait until the lease is lost; False if it was released first, or the time is up.
    #[pyo3(signature = (timeout=-1.0), text_signature = "($self, timeout=-1)")]
    fn wait_lost(&self, py: Python<'_>, timeout: Option<f64>) -> Result<bool, Failure> {
        let limit = wait_limit(timeout)?;
        Ok(block_on_for(py, self.inner.ended(), limit)?.flatten().is_some())
    }

    /// Begin a transaction that is carried out only while the lock is held.
    fn transaction(&self) -> Transaction {
        Transaction::new(self.inner.transaction())
    }

    /// Raise `LockLost` unless the lock is still held. Sends nothing.
    fn check(&self) -> Result<(), Failure> {
        Ok(self.inner.check()?)
    }

    /// Release this level, from any thread, once.
    #[pyo3(signature = (wait=true))]
    pub(crate) fn release(&self, py: Python<'_>, wait: bool) -> Result<(), Failure> {
        if wait {
            Ok(block_on(py, self.inner.release())??)
        } else {
            Ok(self.inner.release_in_background()?)
        }
    }

    fn __repr__(&self) -> String {
        let state = match self.refusal() {
            Some(ErrorKind::NotHeld) => "released",
            Some(ErrorKind::Forked) => "inherited through fork",
            _ => self.inner.state().as_str(),
        };
        format!("<zklock.Lease {} {state}, token {}>", self.inner.node(), self.inner.fencing_token())
    }
}

/// Release, and begin to wait for the acknowledgement.
#[pyfunction]
pub(crate) fn start_release(py: Python<'_>, lease: &Bound<'_, Lease>) -> Result<Pending, Failure> {
    let released = lease.get().inner.release();
    Pending::start(py, released)
}

/// Begin to wait for the end of the hold: whether it is lost.
#[pyfunction]
pub(crate) fn start_wait_lost(py: Python<'_>, lease: &Bound<'_, Lease>) -> Result<Pending, Failure> {
    let ended = lease.get().inner.ended();
    Pending::start(py, async move { Ok(ended.await.is_some()) })
}

/// Whether there is something left to release.
#[pyfunction]
pub(crate) fn is_open(lease: &Bound<'_, Lease>) -> bool {
    lease.get().is_open()
}

/// Whether the lock is held, through this lease.
#[pyfunction]
pub(crate) fn is_held(lease: &Bound<'_, Lease>) -> bool {
    lease.get().is_held()
}
