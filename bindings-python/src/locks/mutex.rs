//! `zklock.Mutex`.

use pyo3::prelude::*;
use zklock::internal::GivenOptions;

use crate::args::arguments::PYTHON;
use crate::args::checked::{Flag, Number};
use crate::args::names;
use crate::args::names::{Label, Naming, Path};
use crate::args::text::Text;
use crate::errors::Result;
use crate::locks::client_arg::Source;
use crate::locks::lock::Lock;
use crate::locks::pickle::{Recipe, keywords};

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
/// first acquire and closed at the end of the process; None stands for the hosts that
/// `zklock.Client` uses by default. Such a lock works after a fork too. For other options than the
/// defaults, create it on a client with `connect=False`.
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
/// `max_hold` is for how long the lock may be held, in seconds from the grant on, however often it is
/// entered again. Then the lease is lost (`loss_reason` is `"held too long"`) and the next contender gets
/// the lock. Without it a program that hangs keeps its locks for ever, for the heartbeat goes on. Stop on
/// this loss as on any other: nothing else ends what the program does under the lock.
///
/// >>> lock = zklock.Mutex(client, "/locks/report", max_hold=3600)
///
/// Raises `BadArgument` for a malformed argument.
#[pyclass(frozen, extends = Lock, module = "zklock")]
pub(crate) struct Mutex;

#[pymethods]
impl Mutex {
    #[new]
    #[pyo3(
        signature = (client, path, *, reentrant=Flag::of(true), label=None, naming=Text::of("curator"), max_hold=None),
        text_signature = "(client, path, *, reentrant=True, label=None, naming='curator', max_hold=None)"
    )]
    fn new(
        py: Python<'_>,
        client: Source,
        path: Text<Path>,
        reentrant: Flag<names::Reentrant>,
        label: Option<Text<Label>>,
        naming: Text<Naming>,
        max_hold: Option<Number<names::MaxHold>>,
    ) -> Result<PyClassInitializer<Self>> {
        let given = GivenOptions {
            reentrant: Some(reentrant.0),
            label: label.map(String::from),
            naming: Some(naming.into()),
            max_hold: max_hold.map(|seconds| seconds.0),
        };
        let recipe = Recipe::new(client.given, &path, keywords(py, &given)?);
        let options = PYTHON.lock_options(given)?;
        let inner = zklock::Mutex::with_options(client.inner, &path, options)?;
        Ok(Lock::new(inner, "Mutex", reentrant.0, recipe).add_subclass(Self))
    }
}
