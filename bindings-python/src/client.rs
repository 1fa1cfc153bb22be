//! `zklock.Client`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::Failure;
use crate::identity::{Identity, Secret, Tls, client_options};
use crate::log;
use crate::notice::Notice;
use crate::pending::Pending;
use crate::stats::Stats;
use crate::wait::block_on;

/// A connection to a ZooKeeper ensemble, shared by the locks made on it.
#[pyclass(frozen, weakref, module = "zklock")]
pub(crate) struct Client {
    pub(crate) inner: zklock::Client,
}

#[pymethods]
impl Client {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "by keyword")]
    #[pyo3(
        signature = (hosts=None, *, session_timeout=10.0, connect_timeout=10.0, auth=vec![], acl=None, sasl=None, tls=None, label=None),
        text_signature = "(hosts=None, *, session_timeout=10.0, connect_timeout=10.0, auth=(), acl=None, sasl=None, tls=None, label=None)"
    )]
    fn new(
        py: Python<'_>,
        hosts: Option<&str>,
        session_timeout: f64,
        connect_timeout: f64,
        auth: Vec<(String, Secret)>,
        acl: Option<String>,
        sasl: Option<(String, String)>,
        tls: Option<Tls>,
        label: Option<String>,
    ) -> Result<Self, Failure> {
        let client = lazy_client(hosts, session_timeout, connect_timeout, auth, acl, sasl, tls, label)?;
        log::ask(py);
        block_on(py, client.inner.ready())??;
        Ok(client)
    }

    /// Whether the client is in touch with the ensemble: connecting, connected, suspended or closed.
    #[getter]
    fn state(&self) -> &'static str {
        self.inner.state().as_str()
    }

    /// The current ZooKeeper session.
    #[getter]
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }

    /// Have `callback` called with the new state whenever it changes.
    fn on_state(&self, py: Python<'_>, callback: Py<PyAny>) -> Result<Notice, Failure> {
        Notice::of_client(py, self.inner.states(), callback)
    }

    /// What the client did since it was made. Sends nothing.
    fn stats(&self) -> Stats {
        self.inner.stats().into()
    }

    /// Ask a contender to give its lock up.
    fn revoke(&self, py: Python<'_>, node: &str) -> Result<(), Failure> {
        Ok(block_on(py, self.inner.revoke(node))??)
    }

    /// Delete a contender's node.
    fn break_lock(&self, py: Python<'_>, node: &str) -> Result<(), Failure> {
        Ok(block_on(py, self.inner.break_lock(node))??)
    }

    /// Close the client: its leases are lost, its waiters fail, and its nodes go with its session.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        Ok(block_on(py, self.inner.close())??)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        // Inherited through fork, it is the parent's to close.
        block_on(py, self.inner.close())?.ok();
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<zklock.Client {}, session {:#x}>", self.inner.state().as_str(), self.inner.session_id())
    }
}

/// A client that connects when it is first used.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the class")]
#[pyo3(signature = (hosts, session_timeout, connect_timeout, auth, acl, sasl, tls, label))]
pub(crate) fn lazy_client(
    hosts: Option<&str>,
    session_timeout: f64,
    connect_timeout: f64,
    auth: Vec<(String, Secret)>,
    acl: Option<String>,
    sasl: Option<(String, String)>,
    tls: Option<Tls>,
    label: Option<String>,
) -> Result<Client, Failure> {
    let identity = Identity { auth, acl, sasl, tls };
    let options = client_options(hosts, session_timeout, connect_timeout, identity, label)?;
    Ok(Client { inner: zklock::Client::new(options) })
}

/// Begin to connect.
#[pyfunction]
pub(crate) fn start_connect(py: Python<'_>, client: &Bound<'_, Client>) -> Result<Pending, Failure> {
    log::ask(py);
    let client = client.get().inner.clone();
    Pending::start(py, async move { client.ready().await })
}

/// Begin to ask a contender to give its lock up.
#[pyfunction]
pub(crate) fn start_revoke(
    py: Python<'_>,
    client: &Bound<'_, Client>,
    node: String,
) -> Result<Pending, Failure> {
    let client = client.get().inner.clone();
    Pending::start(py, async move { client.revoke(&node).await })
}

/// Begin to delete a contender's node.
#[pyfunction]
pub(crate) fn start_break_lock(
    py: Python<'_>,
    client: &Bound<'_, Client>,
    node: String,
) -> Result<Pending, Failure> {
    let client = client.get().inner.clone();
    Pending::start(py, async move { client.break_lock(&node).await })
}

/// Begin to close.
#[pyfunction]
pub(crate) fn start_close(py: Python<'_>, client: &Bound<'_, Client>) -> Result<Pending, Failure> {
    let closed = client.get().inner.close();
    Pending::start(py, closed)
}
