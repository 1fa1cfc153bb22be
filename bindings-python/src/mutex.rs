//! `zklock.Mutex`.

use pyo3::prelude::*;
use zklock::binding::{lock_options, parse_naming};

use crate::errors::Result;
use crate::lock::Lock;
use crate::source::Source;

/// A fair, exclusive lock that queues as Curator's `InterProcessMutex` does.
///
/// >>> lock = zklock.Mutex(client, "/locks/report")
/// >>> with lock as lease:
/// ...     write_report(lease.fencing_token)
///
/// `path` is absolute, below the client's chroot; missing directories are created when needed. Two lock
/// objects on one client and path are one lock. Creating one sends nothing.
///
/// With a hosts string for `client`, the process's one client for these hosts is used, created at the
/// first acquire and closed at the end of the process. Such a lock works after a fork too.
///
/// By default it works as `threading.RLock` does. With `reentrant=False` it works as `threading.Lock`
/// does: an acquire by the thread that holds it waits, or times out, and any thread may release it:
///
/// >>> baton = zklock.Mutex(client, "/locks/baton", reentrant=False)
/// >>> baton.acquire()
/// True
/// >>> threading.Thread(target=baton.release).start()
///
/// `label` is shown to operators in the data of the nodes. `naming` decides which other clients
/// understand the nodes: `"curator"`, or `"kazoo"` where kazoo services cannot set
/// `extra_lock_patterns`.
///
/// Raises `BadArgument` for a malformed argument.
#[pyclass(frozen, extends = Lock, module = "zklock")]
pub(crate) struct Mutex;

#[pymethods]
impl Mutex {
    #[new]
    #[pyo3(
        signature = (client, path, *, reentrant=true, label=None, naming="curator")
    )]
    fn new(
        client: Source,
        path: &str,
        reentrant: bool,
        label: Option<String>,
        naming: &str,
    ) -> Result<PyClassInitializer<Self>> {
        let options = lock_options(label).reentrant(reentrant).naming(parse_naming(naming)?);
        let inner = zklock::Mutex::with_options(client.0, path, options)?;
        Ok(Lock::new(inner, "Mutex", reentrant).add_subclass(Self))
    }
}
