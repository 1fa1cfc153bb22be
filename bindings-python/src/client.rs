//! `zklock.Client`.

use std::pin::Pin;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use zklock::internal::{ClientHandle, parse_count};

use crate::args::arguments::drain_time;
use crate::args::checked::{Auth, FilePath, Flag, Integer, Number, Sasl, TlsFiles};
use crate::args::names;
use crate::args::names::{Acl, Hosts, Label, Node, ParentAcl, Path};
use crate::args::text::Text;
use crate::bridge::block_on::block_on;
use crate::bridge::log;
use crate::bridge::pending::Pending;
use crate::bridge::trio;
use crate::client_options::GivenClientOptions;
use crate::errors::Result;
use crate::health::Health;
use crate::node_data::NodeData;
use crate::notice::Notice;
use crate::stats::Stats;

/// A connection to a ZooKeeper ensemble. All locks created on the client share it.
///
/// >>> with zklock.Client("zk1:2181,zk2:2181/chroot") as client:
/// ...     lock = zklock.Mutex(client, "/locks/report")
///
/// `hosts` names the servers: `host[:port]`, separated by commas, with an optional chroot at the end. The
/// default is the environment variable `ZKLOCK_HOSTS`, or else `127.0.0.1:2181`. Times are in seconds. If the
/// servers receive nothing from this process for `session_timeout`, they free its locks. Operators can see
/// `label` in the data of the lock nodes, next to host, process and language. With `identify=False` the nodes
/// contain none of this.
///
/// `auth` is a list of credentials that the client sends to the servers. Each is a pair of scheme and
/// credential, such as `("digest", "user:password")`. A server accepts any password of the scheme `digest`: a
/// wrong password causes an error only when a node refuses access. `auth_file` is a file with one credential
/// per line: `digest:USER:PASSWORD` or `sasl:USER:PASSWORD`. The client refuses a file that users other than
/// its owner can access.
///
/// `acl` sets the permissions of the nodes and lock directories that the client creates. `"open"`, the
/// default, permits everything to everyone. `"creator"` permits everything to clients with the same
/// credentials. Or give rules in the syntax of ZooKeeper's command line, such as
/// `"digest:user:hash:cdrwa,world:anyone:r"`. `parent_acl` sets the permissions of the parents of lock
/// directories. By default other clients can also read the parents and create nodes in them. A refused
/// request raises `AuthFailed`.
///
/// `sasl` is a user and a password for DIGEST-MD5. If a server refuses them, the client raises `AuthFailed`
/// immediately. With `sasl`, the identity in the rules of an `acl` is `sasl:user`, not `digest:user:hash`.
/// `tls` encrypts the connections. The client logs a warning if it sends credentials to another machine
/// without encryption.
///
/// Operators can set missing arguments through environment variables: `ZKLOCK_AUTH_FILE`, `ZKLOCK_ACL`,
/// `ZKLOCK_PARENT_ACL`, `ZKLOCK_TLS_CA` (with `ZKLOCK_TLS_CERT` and `ZKLOCK_TLS_KEY`) and
/// `ZKLOCK_SESSION_TIMEOUT` (`10s`, or a number of seconds; the default is 10 s). If any argument gives
/// credentials, `ZKLOCK_AUTH_FILE` is ignored. An empty variable counts as unset.
///
/// `max_frame` is the size of the largest reply that the client reads, in bytes. A listing needs up to 256
/// bytes per name. If a reply is larger, only its request fails: a lock directory whose listing exceeds
/// `max_frame` cannot be locked or inspected.
///
/// The constructor connects. It raises `ConnectionFailed` if no server answers within `connect_timeout`. It
/// raises `BadArgument` for a malformed argument, before it sends anything.
///
/// The client closes when nothing uses it any more, and when the process exits. A child process that inherits
/// the client through fork must create its own: the inherited one raises `Forked`.
///
/// With `connect=False` the constructor sends nothing. The client connects on first use, separately in each
/// process. So a module can create such a client and its locks before a server forks its workers, and they
/// work in each worker. A lease still belongs to the process that acquired it.
#[pyclass(frozen, weakref, module = "zklock")]
pub(crate) struct Client {
    pub(crate) inner: ClientHandle,
}

#[pymethods]
impl Client {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "by keyword")]
    #[pyo3(
        signature = (hosts=None, *, session_timeout=None, connect_timeout=Number::of(10.0), auth=None, auth_file=None, acl=None, parent_acl=None, sasl=None, tls=None, label=None, identify=Flag::of(true), max_frame=Integer::of(16_777_216), connect=Flag::of(true)),
        text_signature = "(hosts=None, *, session_timeout=None, connect_timeout=10.0, auth=None, auth_file=None, acl=None, parent_acl=None, sasl=None, tls=None, label=None, identify=True, max_frame=16777216, connect=True)"
    )]
    fn new(
        py: Python<'_>,
        hosts: Option<Text<Hosts>>,
        session_timeout: Option<Number<names::SessionTimeout>>,
        connect_timeout: Number<names::ConnectTimeout>,
        auth: Option<Auth>,
        auth_file: Option<FilePath<names::AuthFile>>,
        acl: Option<Text<Acl>>,
        parent_acl: Option<Text<ParentAcl>>,
        sasl: Option<Sasl>,
        tls: Option<TlsFiles>,
        label: Option<Text<Label>>,
        identify: Flag<names::Identify>,
        max_frame: Integer<names::MaxFrame>,
        connect: Flag<names::Connect>,
    ) -> Result<Self> {
        let given = GivenClientOptions {
            session_timeout,
            connect_timeout,
            auth,
            auth_file,
            acl,
            parent_acl,
            sasl,
            tls,
            label,
            identify,
            max_frame,
        };
        let options = given.at(hosts.as_deref())?;
        if !connect.0 {
            return Ok(Self { inner: ClientHandle::of_each_process(options) });
        }
        let client = Self { inner: ClientHandle::one(options) };
        client.wait_until_connected(py)?;
        Ok(client)
    }

    /// Wait until there is a session, and return the client.
    ///
    /// Use this method for a client that was created with `connect=False`.
    ///
    /// >>> client = zklock.Client("zk1:2181,zk2:2181", connect=False).connect()
    ///
    /// Raise `ConnectionFailed` if no server answers within `connect_timeout`, and `AuthFailed` if the
    /// servers refuse the credentials.
    fn connect(slf: PyRef<'_, Self>) -> Result<PyRef<'_, Self>> {
        slf.wait_until_connected(slf.py())?;
        Ok(slf)
    }

    /// One of `connecting`, `connected`, `suspended` and `closed`.
    ///
    /// A suspended client is disconnected, but its session might survive. With `connect=False` the state is
    /// `idle` before the first use. In a forked child of the process that owns the client, it is `forked`.
    #[getter]
    fn state(&self) -> &'static str {
        self.inner.state().as_str()
    }

    /// The current ZooKeeper session.
    #[getter]
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }

    /// The session timeout in seconds: the requested timeout until a server has granted one.
    ///
    /// If the server receives nothing from this process for that time, it frees the process's locks.
    #[getter]
    fn session_timeout(&self) -> f64 {
        self.inner.session_timeout().as_secs_f64()
    }

    /// The servers and the chroot, as a connect string in which every server has its port.
    #[getter]
    fn hosts(&self) -> String {
        self.inner.hosts()
    }

    /// Call `callback` with the new state at each change, until the client is `closed`.
    ///
    /// >>> notice = client.on_state(lambda state: print("now", state))
    ///
    /// The callback reports the state of the connection. To learn that a lock was lost, use `Lease.on_lost`,
    /// which also describes how callbacks are called.
    fn on_state(&self, py: Python<'_>, callback: Py<PyAny>) -> Result<Notice> {
        Notice::of_client(py, self.inner.states(), callback)
    }

    /// Return the statistics of the client since it was created.
    ///
    /// >>> client.stats().acquisitions
    /// 0
    ///
    /// Send no request. This also works for a closed client.
    fn stats(&self) -> Stats {
        self.inner.stats().into()
    }

    /// Return the current state of the client, with its waiters and holds.
    ///
    /// >>> client.health().state
    /// 'connected'
    ///
    /// This is for health checks, and to find out why a program hangs. It sends no request and waits for no
    /// server. It also works for a client that is closed, disconnected, not yet connected or inherited
    /// through fork.
    fn health(&self, py: Python<'_>) -> Health {
        py.detach(|| self.inner.health()).into()
    }

    /// Ask a contender to give up its lock, as Curator's `Revoker` does.
    ///
    /// >>> with lock as lease:
    /// ...     client.revoke(lease.node)
    ///
    /// `node` is the full path of the contender's node below the client's chroot: `Contender.node` or
    /// `Lease.node`. A holder that listens, for example with `Lease.on_revoke`, receives the request, and can
    /// ignore it.
    ///
    /// Raise `NotHeld` if there is no such node, `BadArgument` if it is not a contender's node, `AuthFailed`,
    /// and `ConnectionFailed`.
    fn revoke(&self, py: Python<'_>, node: Text<Node>) -> Result<()> {
        Ok(block_on(py, self.inner.revoke(&node))??)
    }

    /// Take away a contender's lock or its position in the queue, by deleting its node. For operators.
    ///
    /// >>> for contender in lock.contenders():
    /// ...     if contender.host == "retired.example.org":
    /// ...         client.break_lock(contender.node)
    ///
    /// A connected holder is notified of its loss almost immediately, but the next waiter might receive the
    /// lock before that. Raise the same exceptions as `revoke`.
    fn break_lock(&self, py: Python<'_>, node: Text<Node>) -> Result<()> {
        Ok(block_on(py, self.inner.break_lock(&node))??)
    }

    /// Return the data and the version of the node at `path`, or None if there is no node.
    ///
    /// >>> client.get("/report/state") is None
    /// True
    ///
    /// `path` is absolute, below the client's chroot. This is a single read, and the server might lag behind
    /// other servers. Before you write data that depends on it, let a transaction check the version:
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().create("/report", b"1").commit()
    /// ...     found = client.get("/report")
    /// ...     grown = found.data + b"2"
    /// ...     lease.transaction().set_data("/report", grown, found.version).commit()
    ///
    /// Raise `BadArgument` for a malformed path, `AuthFailed`, and `ConnectionFailed`.
    fn get(&self, py: Python<'_>, path: Text<Path>) -> Result<Option<NodeData>> {
        Ok(block_on(py, self.inner.get(&path))??.map(NodeData::from))
    }

    /// Set the number of permits of all semaphores whose `shared_count` is the node at `path`.
    ///
    /// >>> client.set_shared_count("/settings/upstream", 5)
    /// >>> shared = "/settings/upstream"
    /// >>> slots = zklock.Semaphore(client, "/locks/upstream", shared_count=shared)
    ///
    /// Create the node if it does not exist, in the format of Curator's `SharedCount`. Waiting semaphores see
    /// the change. A smaller number takes no permit away from a holder. Raise `BadArgument` for a malformed
    /// path or a number out of range, `AuthFailed`, and `ConnectionFailed`. After `ConnectionFailed`, the
    /// number may or may not have been set.
    fn set_shared_count(&self, py: Python<'_>, path: Text<Path>, count: Integer<names::Count>) -> Result<()> {
        let count = parse_count("count", count.0)?;
        Ok(block_on(py, self.inner.set_shared_count(&path, count))??)
    }

    /// Close the client: its leases are lost, its waiters fail, and its nodes are removed.
    ///
    /// >>> client.close()
    ///
    /// Wait until the server has acknowledged the close, for two seconds at most. A second call waits for the
    /// same close.
    ///
    /// With `drain`, the client first waits until it holds nothing, for at most that many seconds:
    ///
    /// >>> client.close(drain=10)
    ///
    /// Until then leases stay valid, and their owners can re-enter. Every other acquire raises `ClientClosed`
    /// immediately. That includes acquires that already wait, and acquires inside a running scope. If Ctrl-C
    /// interrupts the call, the client continues to drain. A second call can only shorten the drain:
    /// `close()` ends it.
    ///
    /// Do not drain inside a `with` block of a lock, not even in a signal handler: the drain would wait for
    /// the end of that block. Call it on another thread.
    #[pyo3(signature = (drain=None))]
    fn close(&self, py: Python<'_>, drain: Option<Number<names::Drain>>) -> Result<()> {
        let time = drain_time(drain)?;
        Ok(block_on(py, close(&self.inner, time))??)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<()> {
        // Ignore an error: if the client was inherited through fork, only the parent can close it.
        block_on(py, self.inner.close())?.ok();
        Ok(())
    }

    fn __repr__(&self) -> String {
        let (hosts, state) = (self.inner.shown_hosts(), self.inner.state().as_str());
        match self.inner.session_id() {
            0 => format!("<zklock.Client {hosts}, {state}>"),
            session => format!("<zklock.Client {hosts}, {state}, session {session:#x}>"),
        }
    }
}

impl Client {
    fn wait_until_connected(&self, py: Python<'_>) -> Result<()> {
        trio::refuse(py)?;
        log::ask(py)?;
        Ok(block_on(py, self.inner.ready())??)
    }
}

/// Create a client that connects on first use, in each process.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the class")]
#[pyo3(signature = (hosts, session_timeout, connect_timeout, auth, auth_file, acl, parent_acl, sasl, tls, label, identify, max_frame))]
pub(crate) fn lazy_client(
    hosts: Option<Text<Hosts>>,
    session_timeout: Option<Number<names::SessionTimeout>>,
    connect_timeout: Number<names::ConnectTimeout>,
    auth: Option<Auth>,
    auth_file: Option<FilePath<names::AuthFile>>,
    acl: Option<Text<Acl>>,
    parent_acl: Option<Text<ParentAcl>>,
    sasl: Option<Sasl>,
    tls: Option<TlsFiles>,
    label: Option<Text<Label>>,
    identify: Flag<names::Identify>,
    max_frame: Integer<names::MaxFrame>,
) -> Result<Client> {
    let given = GivenClientOptions {
        session_timeout,
        connect_timeout,
        auth,
        auth_file,
        acl,
        parent_acl,
        sasl,
        tls,
        label,
        identify,
        max_frame,
    };
    let options = given.at(hosts.as_deref())?;
    Ok(Client { inner: ClientHandle::of_each_process(options) })
}

/// Start to connect.
#[pyfunction]
pub(crate) fn start_connect(py: Python<'_>, client: &Client) -> Result<Pending> {
    log::ask(py)?;
    let client = client.inner.clone();
    Pending::start(py, async move { client.ready().await })
}

/// Start to ask a contender to give up its lock.
#[pyfunction]
pub(crate) fn start_revoke(py: Python<'_>, client: &Client, node: Text<Node>) -> Result<Pending> {
    let client = client.inner.clone();
    Pending::start(py, async move { client.revoke(&node).await })
}

/// Start to delete a contender's node.
#[pyfunction]
pub(crate) fn start_break_lock(py: Python<'_>, client: &Client, node: Text<Node>) -> Result<Pending> {
    let client = client.inner.clone();
    Pending::start(py, async move { client.break_lock(&node).await })
}

/// Starts to close a client: immediately, or when it is drained.
fn close(
    client: &ClientHandle,
    drain: Option<Duration>,
) -> Pin<Box<dyn Future<Output = zklock::Result<()>> + Send>> {
    match drain {
        Some(time) => Box::pin(client.drain(time)),
        None => Box::pin(client.close()),
    }
}

/// Start to close.
#[pyfunction]
#[pyo3(signature = (client, drain))]
pub(crate) fn start_close(
    py: Python<'_>,
    client: &Client,
    drain: Option<Number<names::Drain>>,
) -> Result<Pending> {
    let closed = close(&client.inner, drain_time(drain)?);
    Pending::start(py, closed)
}

/// Start to read a node.
#[pyfunction]
pub(crate) fn start_get(py: Python<'_>, client: &Client, path: Text<Path>) -> Result<Pending> {
    let client = client.inner.clone();
    Pending::start(py, async move { client.get(&path).await })
}

/// Start to set a shared count.
#[pyfunction]
pub(crate) fn start_set_shared_count(
    py: Python<'_>,
    client: &Client,
    path: Text<Path>,
    count: Integer<names::Count>,
) -> Result<Pending> {
    let (client, count) = (client.inner.clone(), parse_count("count", count.0)?);
    Pending::start(py, async move { client.set_shared_count(&path, count).await })
}
