//! `zklock.testing.Server`.

use std::collections::BTreeMap;
use std::io;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyInt;
use zklock::ErrorKind;
use zklock::internal::{ForkGuard, bad_argument, error};
use zklock_embedded::{Settings, TestServer};

use crate::args::arguments::PYTHON;
use crate::args::checked::{Integer, Number};
use crate::args::names;
use crate::errors::{Failure, Result};
use crate::modules::interned;

/// A ZooKeeper server in this process, for tests and development only.
///
/// >>> with zklock.testing.Server() as server:
/// ...     with zklock.Mutex(server.hosts, "/locks/report") as lease:
/// ...         lease.state
/// 'held'
///
/// The server runs on a separate thread, `zklock-server`, and keeps its nodes in memory. It listens on
/// 127.0.0.1, on a free port unless one is given. `docs/testing.md` lists the features that it lacks. The
/// most important one is an ensemble: tests cannot show how a program behaves when some servers fail. In
/// production, use Apache ZooKeeper.
///
/// The methods can be called from any thread, greenlet or coroutine: none of them waits for a client. After
/// `stop` they raise `RuntimeError`. A child process that inherits the server through fork cannot use it
/// (`Forked`), and cannot harm it. Clients in the child can connect to it.
///
/// Raise `OSError` if the port is taken, and `BadArgument` for an invalid port.
#[pyclass(frozen, name = "Server", module = "zklock.testing")]
pub(crate) struct Server {
    inner: TestServer,
    origin: ForkGuard,
}

/// A session id. It is converted from an object that has a session, such as a client or a lease, or from the
/// id itself.
struct Session(i64);

impl<'a, 'py> FromPyObject<'a, 'py> for Session {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let id = if object.is_instance_of::<PyInt>() {
            object.extract::<i64>()
        } else {
            let given = object.get_type().fully_qualified_name()?;
            let wrong = move |_| {
                PyTypeError::new_err(format!("client must be a client, a lease or a session id, not {given}"))
            };
            object.getattr(interned!(object.py(), "session_id")?).map_err(wrong)?.extract::<i64>()
        };
        match id {
            Ok(0) => {
                Err(Failure::from(bad_argument("client", "has no session: it has not connected yet")).into())
            }
            Ok(id) => Ok(Self(id)),
            Err(_) => {
                Err(Failure::from(bad_argument("client", "is not a session id: it has more than 64 bits"))
                    .into())
            }
        }
    }
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (port=Integer::of(0)), text_signature = "(port=0)")]
    fn new(py: Python<'_>, port: Integer<names::Port>) -> Result<Self> {
        let port = port.0;
        let Ok(number) = u16::try_from(port) else {
            return Err(
                bad_argument("port", format_args!("must be between 0 and 65535, but is {port}")).into()
            );
        };
        let started = py.detach(|| {
            if number == 0 {
                return TestServer::start();
            }
            TestServer::start_on(("127.0.0.1", number), Settings::random())
        });
        let failed = |error: io::Error| {
            let message = format!("cannot listen on 127.0.0.1:{port}: {error}");
            match error.raw_os_error() {
                Some(code) => PyOSError::new_err((code, message)),
                None => PyOSError::new_err(message),
            }
        };
        Ok(Self { inner: started.map_err(failed)?, origin: ForkGuard::new() })
    }

    /// The connect string for a client: `127.0.0.1:` and the port. It stays the same after `stop`.
    #[getter]
    fn hosts(&self) -> String {
        self.inner.hosts()
    }

    /// Expire a session now, as if its client had been silent for too long. Return False if there is none.
    ///
    /// >>> lock.acquire()
    /// True
    /// >>> lease = lock.lease
    /// >>> server.expire(lease)
    /// True
    /// >>> lease.wait_lost(timeout=5)
    /// True
    ///
    /// When this returns, the session's locks are free and its nodes are deleted. A moment later its client
    /// learns that the session has expired, and continues in a new session. `client` is a `Client` or a
    /// `Lease`, of `zklock` or `zklock.aio`, or the id of a session. Raise `BadArgument` for a client that
    /// has not connected yet.
    #[pyo3(signature = (client))]
    fn expire(&self, py: Python<'_>, client: Session) -> Result<bool> {
        self.call(py, |server| server.expire(client.0))
    }

    /// Close a client's connection. Return False if it had none. Its session stays alive, with its locks.
    ///
    /// >>> server.disconnect(client)
    /// True
    ///
    /// Messages on their way to the client are lost. The client reconnects immediately. `client` is the same
    /// as in `expire`.
    #[pyo3(signature = (client))]
    fn disconnect(&self, py: Python<'_>, client: Session) -> Result<bool> {
        self.call(py, |server| server.disconnect(client.0))
    }

    /// Stop answering until `resume`, like a server that hangs or that the network cuts off.
    ///
    /// >>> server.pause()
    /// >>> lock.acquire(timeout=0.1)
    /// False
    /// >>> server.resume()
    ///
    /// Connections stay open, but the server reads, answers and sends nothing. It accepts new connections,
    /// and does not answer them either. The session clocks stop, so no session expires meanwhile. Leases are
    /// lost on the client's side, when their `remaining` time has elapsed. `expire`, `tree` and the other
    /// methods still work. If a session is expired during the pause, its client is notified after the pause.
    fn pause(&self, py: Python<'_>) -> Result<()> {
        self.call(py, TestServer::pause)
    }

    /// End a pause: process the requests received meanwhile, and send the held-back replies and events.
    ///
    /// >>> server.pause()
    /// >>> server.resume()
    ///
    /// Without a pause, the call does nothing.
    fn resume(&self, py: Python<'_>) -> Result<()> {
        self.call(py, TestServer::resume)
    }

    /// Delay every reply and event by this many seconds, in order. 0 removes the delay.
    ///
    /// >>> server.latency(0.05)
    ///
    /// A round trip then takes at least that long. Messages that are already on their way keep their delay.
    /// The maximum is one day. Raise `BadArgument` for a negative number.
    #[pyo3(signature = (seconds))]
    fn latency(&self, py: Python<'_>, seconds: Number<names::Seconds>) -> Result<()> {
        let delay = PYTHON.duration("seconds", seconds.0)?;
        self.call(py, |server| server.latency(delay))
    }

    /// Return all nodes except ZooKeeper's own: a dictionary from path to data.
    ///
    /// >>> with lock as lease:
    /// ...     lease.node in server.tree()
    /// True
    fn tree(&self, py: Python<'_>) -> Result<BTreeMap<String, Vec<u8>>> {
        self.call(py, TestServer::tree)
    }

    /// Stop the server: close the port and all connections, and drop the nodes.
    ///
    /// >>> server.stop()
    ///
    /// A second call does nothing. Clients see that the server is gone, and try to reconnect until they are
    /// closed. Leaving a `with` block also stops the server, and so does dropping the last reference to it.
    fn stop(&self, py: Python<'_>) -> Result<()> {
        self.call(py, TestServer::stop)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> Result<()> {
        // Check the process, because a child that was forked within the block also leaves the block.
        if self.origin.is_here() { self.stop(py) } else { Ok(()) }
    }

    fn __repr__(&self) -> String {
        format!("<zklock.testing.Server {}>", self.inner.hosts())
    }
}

impl Server {
    /// Runs `call` while other threads can use the interpreter. The server's thread never waits for the
    /// interpreter.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&TestServer) -> io::Result<T> + Send,
    ) -> Result<T> {
        if !self.origin.is_here() {
            let message =
                "this server runs in the process that this one was forked from; start one in this process";
            return Err(error(ErrorKind::Forked, message).into());
        }
        Ok(py.detach(|| call(&self.inner)).map_err(|error| PyRuntimeError::new_err(error.to_string()))?)
    }
}
