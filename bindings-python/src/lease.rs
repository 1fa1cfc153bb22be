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
///
/// >>> with lock as lease:
/// ...     write_report(lease.fencing_token)
///
/// Every acquire gives a lease of its own. Those of one owner on one path share node, token and state;
/// the last one released frees the lock. A lease that nothing refers to any more is released.
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
    /// The lock path, as given when the lock was made.
    #[getter]
    fn path(&self) -> &str {
        self.inner.path()
    }

    /// The full path of the lock's node, below the client's chroot.
    #[getter]
    fn node(&self) -> String {
        self.inner.node()
    }

    /// A number that grows from holder to holder over the life of the ensemble.
    ///
    /// Hand it to the resource that the lock guards, and let the resource refuse smaller ones: a process
    /// that was paused cannot know that it lost the lock.
    #[getter]
    fn fencing_token(&self) -> i64 {
        self.inner.fencing_token()
    }

    /// The ZooKeeper session that owns the node.
    #[getter]
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }

    /// `held`; `suspended` while the server is out of reach; `lost` for good; or `released`.
    ///
    /// A suspended lease is still good, for `remaining` seconds: it is held again if the server answers in
    /// time, and lost if it does not. Sends nothing.
    #[getter]
    fn state(&self) -> &'static str {
        self.inner.state().as_str()
    }

    /// For how many seconds nobody else can have the lock, whatever happens; 0 if lost or released.
    ///
    /// It runs out half the session time-out after the last write that the server acknowledged, and is
    /// prolonged while the server answers. Sends nothing.
    #[getter]
    fn remaining(&self) -> f64 {
        self.inner.remaining().as_secs_f64()
    }

    /// Why the lease is lost, or None: `term ended`, `session expired`, `node deleted`, `client closed`.
    ///
    /// In a forked child, `inherited through fork`. Sends nothing.
    #[getter]
    fn loss_reason(&self) -> Option<&'static str> {
        self.inner.loss_reason().map(zklock::LossReason::as_str)
    }

    /// Have `callback` called with the lease, once, when it is lost; soon, if it already is.
    ///
    /// >>> lost = threading.Event()
    /// >>> with lock as lease:
    /// ...     notice = lease.on_lost(lambda lease: lost.set())
    ///
    /// It is called on the thread `zklock-deliver`, where all callbacks wait for one another: let it set an
    /// event or the like, and return. What it raises goes to `sys.unraisablehook`. Nothing is called once
    /// the lease is released. A callback that refers to the lease itself, and not to its argument, keeps
    /// the lease held.
    fn on_lost(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> Result<Notice, Failure> {
        let ended = slf.get().inner.ended();
        Notice::of_lease(slf.as_any(), async move { ended.await.is_some() }, callback)
    }

    /// Have `callback` called with the lease, once, when somebody asks for the lock to be given up.
    ///
    /// >>> asked = threading.Event()
    /// >>> with lock as lease:
    /// ...     notice = lease.on_revoke(lambda lease: asked.set())
    ///
    /// They ask with `Client.revoke`, or Curator's `Revoker`; a request that was made before this call
    /// counts. The lease stays held: the holder decides whether to release it. How it is called: see
    /// `on_lost`.
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

    /// Wait until the lease is lost; False if it was released first, or after `timeout` seconds.
    ///
    /// >>> with lock as lease:
    /// ...     lease.wait_lost(timeout=0.1)
    /// False
    ///
    /// -1 and None wait for ever. Raises `BadArgument` for any other time-out below zero.
    #[pyo3(signature = (timeout=-1.0), text_signature = "($self, timeout=-1)")]
    fn wait_lost(&self, py: Python<'_>, timeout: Option<f64>) -> Result<bool, Failure> {
        let limit = wait_limit(timeout)?;
        Ok(block_on_for(py, self.inner.ended(), limit)?.flatten().is_some())
    }

    /// Begin a transaction that is carried out only while the lock is held. Sends nothing.
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().set_data("/state", b"done").commit()
    fn transaction(&self) -> Transaction {
        Transaction::new(self.inner.transaction())
    }

    /// Return if the lock is held. Sends nothing.
    ///
    /// >>> with lock as lease:
    /// ...     lease.check()
    ///
    /// Raises `LockLost`, or `NotHeld` after a release.
    fn check(&self) -> Result<(), Failure> {
        Ok(self.inner.check()?)
    }

    /// Release this level, from any thread, once. The last level of a hold frees the lock.
    ///
    /// >>> with lock as lease:
    /// ...     lease.release(wait=False)
    ///
    /// Waits until the server has acknowledged it, or the session is over; with `wait=False` returns when
    /// the release is on its way. It never fails because of the network.
    ///
    /// Raises `NotHeld` the second time.
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
