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

/// A connection to a ZooKeeper ensemble, shared by the locks created on it.
///
/// >>> with zklock.Client("zk1:2181,zk2:2181/chroot") as client:
/// ...     lock = zklock.Mutex(client, "/locks/report")
///
/// `hosts` names the servers: `host[:port]`, separated by commas, with an optional chroot at the end.
/// The default is the environment variable `ZKLOCK_HOSTS`, or else `127.0.0.1:2181`. Times are in
/// seconds. Servers that have not heard from this process for `session_timeout` free its locks. `label`
/// is shown to operators in the data of the nodes, beside host, process and language; `identify=False`
/// leaves all of that out.
///
/// `auth` is a list of credentials to show to the servers: pairs of scheme and credential, such as
/// `("digest", "user:password")`. `acl` says who may do what with the nodes and lock directories that the
/// client creates: `"open"`, the default, permits everything to everyone; `"creator"` permits everything
/// to those who show the same credentials; or give rules in the syntax of ZooKeeper's own command line,
/// such as `"digest:user:hash:cdrwa,world:anyone:r"`. `parent_acl` says it for the parents of lock
/// directories; by default others may also read them, and create nodes there. What is not permitted
/// raises `AuthFailed`. A server accepts any password of the scheme `digest`; a wrong one shows only when
/// a node refuses access. `auth_file` is a file of credentials, one a line: `digest:USER:PASSWORD` or
/// `sasl:USER:PASSWORD`. A file that others than its owner can use is refused.
///
/// `sasl` is a user and a password for DIGEST-MD5; if a server refuses them, `AuthFailed` is raised at
/// once. In the rules of an `acl` the identity is then `sasl:user`, not `digest:user:hash`. `tls` encrypts
/// the connections. Credentials that go to another machine without it are worth a warning in the log.
///
/// Settings left out come from environment variables, as operators set them: `ZKLOCK_AUTH_FILE`,
/// `ZKLOCK_ACL`, `ZKLOCK_PARENT_ACL`, `ZKLOCK_TLS_CA` (with `ZKLOCK_TLS_CERT` and `ZKLOCK_TLS_KEY`) and
/// `ZKLOCK_SESSION_TIMEOUT` (`10s`, or a number of seconds; without it 10 s). Credentials of any kind
/// replace those of `ZKLOCK_AUTH_FILE`. An empty variable counts as unset.
///
/// `max_frame` is the largest reply to read, in bytes; lists may have a name for every 256 of them. A larger
/// reply fails the request that it answers, and no other: a lock directory with more children cannot be
/// locked or looked at.
///
/// Connects, or raises `ConnectionFailed` if no server answers within `connect_timeout`. Raises
/// `BadArgument` for a malformed argument, before anything is sent.
///
/// The client closes when nothing uses it any more, and at the end of the process. A child process that
/// inherits it through fork must make its own: the inherited one raises `Forked`.
///
/// With `connect=False` it sends nothing yet. It connects when it is first used, and so does every child
/// process, for itself: what a module creates before a server forks its workers, on such a client, works
/// in the workers. Leases still belong to the process that acquired them.
///
/// >>> client = zklock.Client("zk1:2181,zk2:2181", connect=False)
/// >>> lock = zklock.Mutex(client, "/locks/report")
/// >>> client.state
/// 'idle'
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

    /// Wait until there is a session, and return the client. For one with `connect=False`.
    ///
    /// >>> client = zklock.Client("zk1:2181,zk2:2181", connect=False).connect()
    ///
    /// Raises `ConnectionFailed` if no server answers within `connect_timeout`, and `AuthFailed`.
    fn connect(slf: PyRef<'_, Self>) -> Result<PyRef<'_, Self>> {
        slf.wait_until_connected(slf.py())?;
        Ok(slf)
    }

    /// `connecting`, `connected`, `suspended` (disconnected; the session may survive) or `closed`.
    ///
    /// Before the first use, with `connect=False`, `idle`. In a forked child of the process to which the
    /// client belongs, `forked`.
    #[getter]
    fn state(&self) -> &'static str {
        self.inner.state().as_str()
    }

    /// The current ZooKeeper session.
    #[getter]
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }

    /// The session time-out that the server granted, in seconds; before that the one that is asked for.
    ///
    /// A server that has not heard from this process for so long frees its locks.
    #[getter]
    fn session_timeout(&self) -> f64 {
        self.inner.session_timeout().as_secs_f64()
    }

    /// The servers and the chroot, as a connect string: every server with its port.
    #[getter]
    fn hosts(&self) -> String {
        self.inner.hosts()
    }

    /// Have `callback` called with the new state whenever it changes, until the client is `closed`.
    ///
    /// >>> notice = client.on_state(lambda state: print("now", state))
    ///
    /// It reports on the connection, not on locks: for those see `Lease.on_lost`, also for how it is
    /// called.
    fn on_state(&self, py: Python<'_>, callback: Py<PyAny>) -> Result<Notice> {
        Notice::of_client(py, self.inner.states(), callback)
    }

    /// What the client has done since it was created. Sends nothing, and works for a closed client too.
    ///
    /// >>> client.stats().acquisitions
    /// 0
    fn stats(&self) -> Stats {
        self.inner.stats().into()
    }

    /// How the client is at this moment, and what in it waits and holds.
    ///
    /// >>> client.health().state
    /// 'connected'
    ///
    /// For health checks, and for finding out what a program that hangs waits for. Sends nothing, waits for
    /// no server, and works for a client that is closed, disconnected, not yet connected or inherited
    /// through fork.
    fn health(&self, py: Python<'_>) -> Health {
        py.detach(|| self.inner.health()).into()
    }

    /// Ask a contender to give up its lock, as Curator's `Revoker` does.
    ///
    /// >>> with lock as lease:
    /// ...     client.revoke(lease.node)
    ///
    /// `node` is the full path of its node below the client's chroot: `Contender.node` or `Lease.node`. A
    /// holder is notified if it listens, as with `Lease.on_revoke`, and may ignore it.
    ///
    /// Raises `NotHeld` if there is no such node, `BadArgument` if it is not a contender's, `AuthFailed`,
    /// and `ConnectionFailed`.
    fn revoke(&self, py: Python<'_>, node: Text<Node>) -> Result<()> {
        Ok(block_on(py, self.inner.revoke(&node))??)
    }

    /// Take away a contender's lock, or its place in the queue, by deleting its node. For operators.
    ///
    /// >>> for contender in lock.contenders():
    /// ...     if contender.host == "retired.example.org":
    /// ...         client.break_lock(contender.node)
    ///
    /// A holder that is connected to the server learns of its loss within moments, but perhaps after the
    /// next one was granted the lock. Raises what `revoke` raises.
    fn break_lock(&self, py: Python<'_>, node: Text<Node>) -> Result<()> {
        Ok(block_on(py, self.inner.break_lock(&node))??)
    }

    /// The data of the node at `path` and its version, or None if there is no node.
    ///
    /// >>> client.get("/report/state") is None
    /// True
    ///
    /// `path` is absolute, below the client's chroot. One read; the server may lag behind others, so let a
    /// transaction check the version before it writes what depends on it:
    ///
    /// >>> with lock as lease:
    /// ...     lease.transaction().create("/report", b"1").commit()
    /// ...     found = client.get("/report")
    /// ...     grown = found.data + b"2"
    /// ...     lease.transaction().set_data("/report", grown, found.version).commit()
    ///
    /// Raises `BadArgument` for a malformed path, `AuthFailed`, and `ConnectionFailed`.
    fn get(&self, py: Python<'_>, path: Text<Path>) -> Result<Option<NodeData>> {
        Ok(block_on(py, self.inner.get(&path))??.map(NodeData::from))
    }

    /// Set the number in the node at `path` that semaphores with this `shared_count` have as permits.
    ///
    /// >>> client.set_shared_count("/settings/upstream", 5)
    /// >>> shared = "/settings/upstream"
    /// >>> slots = zklock.Semaphore(client, "/locks/upstream", shared_count=shared)
    ///
    /// Creates the node if there is none, in the form of Curator's `SharedCount`. Semaphores that wait learn
    /// of it; a smaller number takes no permit away from those that hold one. Raises `BadArgument` for a
    /// malformed path or a number out of range, `AuthFailed`, and `ConnectionFailed`: the number may or may
    /// not have been set then.
    fn set_shared_count(&self, py: Python<'_>, path: Text<Path>, count: Integer<names::Count>) -> Result<()> {
        let count = parse_count("count", count.0)?;
        Ok(block_on(py, self.inner.set_shared_count(&path, count))??)
    }

    /// Close the client: its leases are lost, its waiters fail, and its nodes go with its session.
    ///
    /// >>> client.close()
    ///
    /// Waits until the server has acknowledged it, for two seconds at most. Closing again waits
    /// for the same end.
    ///
    /// With `drain`, in seconds, it closes as soon as it holds nothing any more, or after that time:
    ///
    /// >>> client.close(drain=10)
    ///
    /// Until then leases stay valid, and their owners may enter again. Every other acquire raises
    /// `ClientClosed` at once, also one that waits already, and one inside of a running scope. Interrupted
    /// by Ctrl-C, it goes on draining. Called again, the earlier end counts: `close()` ends the draining.
    ///
    /// A scope that calls it, also in a signal handler, waits for itself: call it on another thread.
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
        // Inherited through fork, it is the parent's to close.
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

/// A client that connects when it is first used, in every process.
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

/// Begin to connect.
#[pyfunction]
pub(crate) fn start_connect(py: Python<'_>, client: &Client) -> Result<Pending> {
    log::ask(py)?;
    let client = client.inner.clone();
    Pending::start(py, async move { client.ready().await })
}

/// Begin to ask a contender to give its lock up.
#[pyfunction]
pub(crate) fn start_revoke(py: Python<'_>, client: &Client, node: Text<Node>) -> Result<Pending> {
    let client = client.inner.clone();
    Pending::start(py, async move { client.revoke(&node).await })
}

/// Begin to delete a contender's node.
#[pyfunction]
pub(crate) fn start_break_lock(py: Python<'_>, client: &Client, node: Text<Node>) -> Result<Pending> {
    let client = client.inner.clone();
    Pending::start(py, async move { client.break_lock(&node).await })
}

/// Begins to close a client, at once or when it is drained.
fn close(
    client: &ClientHandle,
    drain: Option<Duration>,
) -> Pin<Box<dyn Future<Output = zklock::Result<()>> + Send>> {
    match drain {
        Some(time) => Box::pin(client.drain(time)),
        None => Box::pin(client.close()),
    }
}

/// Begin to close.
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

/// Begin to read a node.
#[pyfunction]
pub(crate) fn start_get(py: Python<'_>, client: &Client, path: Text<Path>) -> Result<Pending> {
    let client = client.inner.clone();
    Pending::start(py, async move { client.get(&path).await })
}

/// Begin to set a shared count.
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
