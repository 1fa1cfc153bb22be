//! `zklock.Lease`.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use zklock::ErrorKind;
use zklock::internal::{self, Escaped, collectable};

use crate::args::arguments::wait_limit;
use crate::args::checked::Number;
use crate::args::names;
use crate::bridge::block_on::block_on_for;
use crate::bridge::pending::{IntoPython, Pending};
use crate::errors::Result;
use crate::locks::acquired::Level;
use crate::notice::Notice;
use crate::transaction::Transaction;

/// Proof of holding a lock, returned by a successful acquire.
///
/// >>> with lock as lease:
/// ...     write_report(lease.fencing_token)
///
/// Every acquire returns its own lease. Those of one owner on one path share node, token and state; the
/// last one released frees the lock. Keep it, or its lock object, until it is released: a lease without
/// references is released, with a `ResourceWarning` and a warning in the log.
#[pyclass(frozen, subclass, weakref, extends = Level, module = "zklock")]
pub(crate) struct Lease(Arc<zklock::Lease>);

impl Lease {
    pub(crate) fn new(py: Python<'_>, inner: Arc<zklock::Lease>) -> PyResult<Py<Self>> {
        Py::new(py, Self::initializer(inner))
    }

    pub(crate) fn initializer(inner: Arc<zklock::Lease>) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Level(inner.clone())).add_subclass(Self(inner))
    }
}

impl IntoPython for zklock::Lease {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Lease::new(py, Arc::new(collectable(self)))?.into_py_any(py)
    }
}

#[pymethods]
impl Lease {
    /// The lock path, as given when the lock was created.
    #[getter]
    fn path(&self) -> &str {
        self.0.path()
    }

    /// The full path of the lock's node, below the client's chroot.
    #[getter]
    fn node(&self) -> String {
        self.0.node()
    }

    /// What it is held for: `mutex`, `read`, `write`, `permit` or `leadership`.
    #[getter]
    fn mode(&self) -> &'static str {
        self.0.mode().as_str()
    }

    /// A number that grows from holder to holder over the life of the ensemble.
    ///
    /// Pass it to the resource that the lock guards, and let the resource refuse smaller ones: a process
    /// that was paused cannot know that it lost the lock.
    #[getter]
    fn fencing_token(&self) -> i64 {
        self.0.fencing_token()
    }

    /// How many holds there were on this lease's node before its own.
    ///
    /// Holds that follow each other on one node, because of the options `cohort` and `linger`, have the same
    /// fencing token. The pair of token and hand-offs grows from holder to holder. 0 without these options.
    #[getter]
    fn handoffs(&self) -> u32 {
        self.0.handoffs()
    }

    /// The ZooKeeper session that owns the node.
    #[getter]
    fn session_id(&self) -> i64 {
        self.0.session_id()
    }

    /// The session time-out that the server granted, in seconds.
    ///
    /// For so long it may not hear from the client before it frees the lock.
    #[getter]
    fn session_timeout(&self) -> f64 {
        self.0.session_timeout().as_secs_f64()
    }

    /// `held`; `suspended` while the server is unreachable; `lost` for good; or `released`.
    ///
    /// A suspended lease is still valid, for `remaining` seconds: it is held again if the server answers in
    /// time, and lost if it does not. Sends nothing.
    #[getter]
    fn state(&self) -> &'static str {
        self.0.state().as_str()
    }

    /// For how many seconds no one else can get the lock, unless it is broken; 0 if lost or released.
    ///
    /// It runs out half the session time-out after the last write that the server acknowledged, and is
    /// extended while the server answers. Sends nothing.
    #[getter]
    fn remaining(&self) -> f64 {
        self.0.remaining().as_secs_f64()
    }

    /// Why the lease is lost, or None. Sends nothing.
    ///
    /// `term ended`, `session expired`, `node deleted`, `held too long` (after `max_hold`), or
    /// `client closed`; in a forked child, `inherited through fork`.
    #[getter]
    fn loss_reason(&self) -> Option<&'static str> {
        self.0.loss_reason().map(zklock::LossReason::as_str)
    }

    /// Have `callback` called with the lease, once, when it is lost; soon, if it already is.
    ///
    /// >>> lost = threading.Event()
    /// >>> with lock as lease:
    /// ...     notice = lease.on_lost(lambda lease: lost.set())
    ///
    /// It is called on the thread `zklock-callback`, where all callbacks wait for one another, and nothing
    /// else waits for them. What it raises goes to `sys.unraisablehook`. Where gevent runs, it is called in a
    /// greenlet of its own. Nothing is called once the lease is released. A callback that refers to the lease
    /// itself, and not to its argument, keeps the lease held.
    fn on_lost(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> Result<Notice> {
        let ended = slf.get().0.ended();
        Notice::of_lease(slf.as_any(), async move { ended.await.is_some() }, callback)
    }

    /// Have `callback` called with the lease, once, when another contender asks for the lock.
    ///
    /// >>> asked = threading.Event()
    /// >>> with lock as lease:
    /// ...     notice = lease.on_revoke(lambda lease: asked.set())
    ///
    /// It asks with `Client.revoke`, or Curator's `Revoker`; a request that was made before this call
    /// counts. The lease stays held: the holder decides whether to release it. How it is called: see
    /// `on_lost`.
    fn on_revoke(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> Result<Notice> {
        let revoked = slf.get().0.revoked();
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
    #[pyo3(signature = (timeout=Number::of(-1.0)), text_signature = "($self, timeout=-1)")]
    fn wait_lost(&self, py: Python<'_>, timeout: Option<Number<names::Timeout>>) -> Result<bool> {
        let limit = wait_limit(timeout)?;
        Ok(block_on_for(py, self.0.ended(), limit, None)?.flatten().is_some())
    }

    /// Begin a transaction that is carried out only while the lock is held. Sends nothing.
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().set_data("/state", b"done").commit()
    fn transaction(&self) -> Transaction {
        Transaction::new(self.0.transaction())
    }

    fn __repr__(&self) -> String {
        self.describe("Lease")
    }
}

impl Lease {
    /// Its `repr`, as one of this class.
    pub(crate) fn describe(&self, class: &str) -> String {
        let state = match self.0.check().err().map(|error| error.kind()) {
            Some(ErrorKind::NotHeld) => "released",
            Some(ErrorKind::Forked) => "inherited through fork",
            _ => self.0.state().as_str(),
        };
        format!("<zklock.{class} {} {state}, token {}>", Escaped(&self.0.node()), self.0.fencing_token())
    }
}

/// Note in `Client.health()` that something keeps a lease until it is released or lost.
#[pyfunction]
pub(crate) fn pin(lease: &Lease) {
    internal::pin(&lease.0);
}

/// Begin to wait for the end of the hold: whether it is lost.
#[pyfunction]
pub(crate) fn start_wait_lost(py: Python<'_>, lease: &Lease) -> Result<Pending> {
    let ended = lease.0.ended();
    Pending::start(py, async move { Ok(ended.await.is_some()) })
}
