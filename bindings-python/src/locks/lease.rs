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
/// Every acquire returns a new lease. The leases that one owner has for one path share a node, token and
/// state. The last release frees the lock. Keep a reference to the lease, or to its lock object, until you
/// release it: a lease without references is released, with a `ResourceWarning` and a warning in the log.
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

    /// The mode of the hold: `mutex`, `read`, `write`, `permit` or `leadership`.
    #[getter]
    fn mode(&self) -> &'static str {
        self.0.mode().as_str()
    }

    /// A number that increases with each new holder, over the lifetime of the ensemble.
    ///
    /// Pass it to the resource that the lock protects, and let the resource refuse smaller tokens: a process
    /// that was paused cannot know that it has lost the lock.
    #[getter]
    fn fencing_token(&self) -> i64 {
        self.0.fencing_token()
    }

    /// The number of earlier holds on this lease's node.
    ///
    /// With the options `cohort` and `linger`, consecutive holds can share a node, and then have the same
    /// fencing token. The pair `(fencing_token, handoffs)` increases with each new holder. Without these
    /// options, `handoffs` is 0.
    #[getter]
    fn handoffs(&self) -> u32 {
        self.0.handoffs()
    }

    /// The ZooKeeper session that owns the node.
    #[getter]
    fn session_id(&self) -> i64 {
        self.0.session_id()
    }

    /// The session timeout that the server granted, in seconds.
    ///
    /// If the server receives nothing from the client for that time, it frees the lock.
    #[getter]
    fn session_timeout(&self) -> f64 {
        self.0.session_timeout().as_secs_f64()
    }

    /// One of `held`, `suspended` (while the server is unreachable), `lost` (permanently) and `released`.
    ///
    /// A suspended lease is still valid, for `remaining` seconds. If the server answers in that time, the
    /// lease is held again. Otherwise it is lost. Sends no request.
    #[getter]
    fn state(&self) -> &'static str {
        self.0.state().as_str()
    }

    /// The time in seconds for which no other client can get the lock, unless the lock's node is deleted.
    ///
    /// The time ends half a session timeout after the client sent the last write that the server
    /// acknowledged. Each further acknowledged write extends it. It is 0 if the lease is lost or released.
    /// Sends no request.
    #[getter]
    fn remaining(&self) -> f64 {
        self.0.remaining().as_secs_f64()
    }

    /// The reason for the loss, or None. Sends no request.
    ///
    /// The reason is `term ended`, `session expired`, `node deleted`, `held too long` (after `max_hold`) or
    /// `client closed`. In a forked child it is `inherited through fork`.
    #[getter]
    fn loss_reason(&self) -> Option<&'static str> {
        self.0.loss_reason().map(zklock::LossReason::as_str)
    }

    /// Call `callback` once with the lease when the lease is lost. If it is already lost, call it soon.
    ///
    /// >>> lost = threading.Event()
    /// >>> with lock as lease:
    /// ...     notice = lease.on_lost(lambda lease: lost.set())
    ///
    /// The callback runs on the thread `zklock-callback`. All callbacks share this thread, so a slow callback
    /// delays only other callbacks. An exception of a callback is passed to `sys.unraisablehook`. With
    /// gevent, each callback runs in a new greenlet. The callback is not called after the release of the
    /// lease. The callback should use its argument. If it referred to the variable `lease` instead, the lease
    /// could never be collected and released.
    fn on_lost(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> Result<Notice> {
        let ended = slf.get().0.ended();
        Notice::of_lease(slf.as_any(), async move { ended.await.is_some() }, callback)
    }

    /// Call `callback` once with the lease when another program asks the holder to give up the lock.
    ///
    /// >>> asked = threading.Event()
    /// >>> with lock as lease:
    /// ...     notice = lease.on_revoke(lambda lease: asked.set())
    ///
    /// `Client.revoke` and Curator's `Revoker` send such a request. A request that arrived before this call
    /// counts too. The lease stays held: the holder decides whether to release it. See `on_lost` for how
    /// callbacks are called.
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

    /// Wait until the lease is lost. Return False if it is released first, or after `timeout` seconds.
    ///
    /// >>> with lock as lease:
    /// ...     lease.wait_lost(timeout=0.1)
    /// False
    ///
    /// -1 and None wait without a limit. Raise `BadArgument` for any other timeout below zero.
    #[pyo3(signature = (timeout=Number::of(-1.0)), text_signature = "($self, timeout=-1)")]
    fn wait_lost(&self, py: Python<'_>, timeout: Option<Number<names::Timeout>>) -> Result<bool> {
        let limit = wait_limit(timeout)?;
        Ok(block_on_for(py, self.0.ended(), limit, None)?.flatten().is_some())
    }

    /// Create an empty transaction, without a request. The servers execute it only while the lock is held.
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
    /// Returns the `repr` of the lease, with this class name.
    pub(crate) fn describe(&self, class: &str) -> String {
        let state = match self.0.check().err().map(|error| error.kind()) {
            Some(ErrorKind::NotHeld) => "released",
            Some(ErrorKind::Forked) => "inherited through fork",
            _ => self.0.state().as_str(),
        };
        format!("<zklock.{class} {} {state}, token {}>", Escaped(&self.0.node()), self.0.fencing_token())
    }
}

/// Record that an election or a kazoo lock keeps this lease until it is released or lost.
///
/// `Client.health()` reports this as `pinned`.
#[pyfunction]
pub(crate) fn pin(lease: &Lease) {
    internal::pin(&lease.0);
}

/// Start to wait for the end of the hold. The outcome is true if the lock was lost, and false if it was
/// released.
#[pyfunction]
pub(crate) fn start_wait_lost(py: Python<'_>, lease: &Lease) -> Result<Pending> {
    let ended = lease.0.ended();
    Pending::start(py, async move { Ok(ended.await.is_some()) })
}
