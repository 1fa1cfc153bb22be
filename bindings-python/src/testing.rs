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

/// A ZooKeeper server in this process, for tests and development only. Production is Apache ZooKeeper.
///
/// >>> with zklock.testing.Server() as server:
/// ...     with zklock.Mutex(server.hosts, "/locks/report") as lease:
/// ...         lease.state
/// 'held'
///
/// It runs on a thread of its own, `zklock-server`, keeps its nodes in memory, and listens on
/// 127.0.0.1, on a free port unless one is given. What it does not have is in `docs/testing.md`, above
/// all an ensemble: a test with it is no evidence of what happens when servers fail.
///
/// Methods may be called from any thread, greenlet or coroutine: none waits for a client. After `stop`
/// they raise `RuntimeError`. A child process that inherits the server through fork cannot use it
/// (`Forked`), nor harm it; its clients can connect to it.
///
/// Raises `OSError` if the port is taken, and `BadArgument` for what is no port.
#[pyclass(frozen, name = "Server", module = "zklock.testing")]
pub(crate) struct Server {
    inner: TestServer,
    origin: ForkGuard,
}

/// A client, a lease, or anything else that has a session, or the id of one.
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
            Err(_) => Err(Failure::from(bad_argument("client", "is no session id: too many bits")).into()),
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

    /// Where it listens, as a client wants it: `127.0.0.1:` and the port, also after `stop`.
    #[getter]
    fn hosts(&self) -> String {
        self.inner.hosts()
    }

    /// End a session now, as if its client had been silent for too long; False if there is none.
    ///
    /// >>> lock.acquire()
    /// True
    /// >>> lease = lock.lease
    /// >>> server.expire(lease)
    /// True
    /// >>> lease.wait_lost(timeout=5)
    /// True
    ///
    /// Its locks are free and its nodes are gone when this returns; its client hears of it a moment later,
    /// and goes on in a new session. `client` is a `Client` or a `Lease`, of `zklock` or `zklock.aio`, or
    /// the id of a session. Raises `BadArgument` for a client that has not connected yet.
    #[pyo3(signature = (client))]
    fn expire(&self, py: Python<'_>, client: Session) -> Result<bool> {
        self.call(py, |server| server.expire(client.0))
    }

    /// Cut a client's connection; False if it had none. Its session lives on, with its locks.
    ///
    /// >>> server.disconnect(client)
    /// True
    ///
    /// What was on its way to the client is lost. It may connect again at once, and does. `client` is what
    /// `expire` takes.
    #[pyo3(signature = (client))]
    fn disconnect(&self, py: Python<'_>, client: Session) -> Result<bool> {
        self.call(py, |server| server.disconnect(client.0))
    }

    /// Fall silent until `resume`, as a server that hangs or is cut off by the network.
    ///
    /// >>> server.pause()
    /// >>> lock.acquire(timeout=0.1)
    /// False
    /// >>> server.resume()
    ///
    /// Connections stay open, but nothing is read, answered or sent; new ones are accepted, and hear
    /// nothing. The sessions' time stands still, so that none expires meanwhile; leases end on their own
    /// side, when their `remaining` time is over. `expire`, `tree` and the others work; a client whose
    /// session is expired hears of it after the pause.
    fn pause(&self, py: Python<'_>) -> Result<()> {
        self.call(py, TestServer::pause)
    }

    /// End a pause. What was received meanwhile is done, and what was to be sent is sent.
    ///
    /// >>> server.pause()
    /// >>> server.resume()
    ///
    /// Does nothing without a pause.
    fn resume(&self, py: Python<'_>) -> Result<()> {
        self.call(py, TestServer::resume)
    }

    /// Send every reply and event this many seconds later, and in order; 0 ends it.
    ///
    /// >>> server.latency(0.05)
    ///
    /// A round trip then takes at least that long. What is on its way already keeps its delay. A day is the
    /// longest. Raises `BadArgument` below zero.
    #[pyo3(signature = (seconds))]
    fn latency(&self, py: Python<'_>, seconds: Number<names::Seconds>) -> Result<()> {
        let delay = PYTHON.duration("seconds", seconds.0)?;
        self.call(py, |server| server.latency(delay))
    }

    /// Return all nodes but ZooKeeper's own: their data, by their paths.
    ///
    /// >>> with lock as lease:
    /// ...     lease.node in server.tree()
    /// True
    fn tree(&self, py: Python<'_>) -> Result<BTreeMap<String, Vec<u8>>> {
        self.call(py, TestServer::tree)
    }

    /// End it: the port and all connections are closed, the nodes are gone. Does nothing the second time.
    ///
    /// >>> server.stop()
    ///
    /// Clients see a server that went away, and look for it until they are closed. Leaving a `with` block
    /// stops it too, and so does the end of the last reference to it.
    fn stop(&self, py: Python<'_>) -> Result<()> {
        self.call(py, TestServer::stop)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> Result<()> {
        // A child that was forked within the block leaves it as well.
        if self.origin.is_here() { self.stop(py) } else { Ok(()) }
    }

    fn __repr__(&self) -> String {
        format!("<zklock.testing.Server {}>", self.inner.hosts())
    }
}

impl Server {
    /// With the interpreter free for other threads: the server's thread never waits for it.
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
