//! `zklock.Election`, `zklock.Leadership` and `zklock.Candidate`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use zklock::ErrorKind;
use zklock::internal::{self, Acquired, AcquiredStack, Escaped, Exit, campaign, collectable, error};

use crate::args::arguments::{PYTHON, Timeout, bounded_timeout};
use crate::args::checked::{Flag, Number};
use crate::args::names;
use crate::args::names::{Id, Path};
use crate::args::text::Text;
use crate::bridge::asyncio_tasks;
use crate::bridge::block_on::{block_on, block_to_own};
use crate::bridge::gevent::{Caller, caller};
use crate::bridge::owner::Owner;
use crate::bridge::pending::{IntoPython, Pending};
use crate::client_options::LockClientOptions;
use crate::errors::Result;
use crate::locks::acquire::raised;
use crate::locks::acquired::Level;
use crate::locks::client_arg::Source;
use crate::locks::lease::{Lease, pin};
use crate::locks::pickle::Recipe;
use crate::locks::scope;
use crate::locks::scope::Scope;
use crate::modules::{interned, is_only_reference};
use crate::notice::Notice;

/// A candidate in the election at a path. It can also be used only to observe the leader.
///
/// >>> election = zklock.Election(client, "/elections/scheduler", id="scheduler-1")
/// >>> with election.lead() as leadership:
/// ...     run_scheduler(leadership.fencing_token)
///
/// Candidates lead in the order in which the server queued them. An election is an exclusive lock, with all
/// guarantees of this library's locks. Services that use Curator's `LeaderLatch` take part in the same
/// election. `client`, `path` and `options` are the same as for `Mutex`.
///
/// `id` identifies the candidate to other clients. It is at most 1024 bytes long, can be empty, and need not
/// be unique. The default is `host:pid`.
///
/// An election object is one candidate, even if several threads campaign. Their campaigns share one node and
/// one leadership. The leadership ends when the last of them resigns. The election continues to lead even if
/// the program drops its `Leadership` objects without resigning. If the election object itself is dropped
/// while it leads, it resigns, with a `ResourceWarning`. The constructor sends nothing.
///
/// Raise `BadArgument` for a malformed argument.
#[pyclass(frozen, weakref, module = "zklock")]
pub(crate) struct Election {
    inner: zklock::Election,
    recipe: Recipe,
    /// The leaderships that have not ended yet.
    kept: Mutex<Vec<Kept>>,
}

/// A leadership, and the Python object that represents it.
type Kept = (Arc<dyn Acquired>, Py<PyAny>);

#[pymethods]
impl Election {
    #[new]
    #[pyo3(signature = (client, path, *, id=None, options=None))]
    fn new(
        py: Python<'_>,
        client: Source,
        path: Text<Path>,
        id: Option<Text<Id>>,
        options: Option<LockClientOptions>,
    ) -> Result<Self> {
        let id = id.map(String::from);
        let given = PyDict::new(py);
        given.set_item("id", &id)?;
        let source = client.with_options(options, &given)?;
        let recipe = Recipe::new(client.given(), &path, given);
        let inner = match id {
            Some(id) => zklock::Election::with_id(source, &path, id)?,
            None => zklock::Election::new(source, &path)?,
        };
        Ok(Self { inner, recipe, kept: Mutex::default() })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        slf.get().recipe.reduce(&slf.get_type())
    }

    /// The path of the election.
    #[getter]
    fn path(&self) -> &str {
        self.inner.path()
    }

    /// The candidate's id.
    #[getter]
    fn id(&self) -> String {
        self.inner.id()
    }

    /// Whether this candidate leads. Sends no request.
    ///
    /// It becomes false when the candidate resigns, or when its session might have expired. It is always
    /// false before another candidate can lead.
    #[getter]
    fn is_leader(&self) -> bool {
        self.inner.is_leader()
    }

    /// Become a candidate, wait until it leads, and return the leadership.
    ///
    /// >>> leadership = election.campaign(timeout=5)
    /// >>> leadership.resign()
    ///
    /// `timeout` is in seconds, and covers connecting, queueing and waiting together. With -1 or None the
    /// call waits without a limit, even across a loss of the connection or the session. With 0 the candidate
    /// leads only if there is no other candidate. `connect_timeout` has the same meaning as in
    /// `Lock.acquire()`.
    ///
    /// Raise `LockTimeout` if it does not lead in time. Raise `BadArgument` if a kazoo contender is in the
    /// queue, because kazoo's elections do not see zklock's candidates. Otherwise raise the same exceptions
    /// as `Lock.acquire()`. Ctrl-C withdraws the candidate.
    #[pyo3(
        signature = (timeout=Number::of(-1.0), *, connect_timeout=None),
        text_signature = "($self, timeout=-1, *, connect_timeout=None)"
    )]
    fn campaign(
        &self,
        py: Python<'_>,
        timeout: Option<Number<names::Timeout>>,
        connect_timeout: Option<Number<names::ConnectTimeout>>,
    ) -> Result<Py<Leadership>> {
        let leadership = self.begin(py, bounded_timeout(true, timeout, connect_timeout)?)?;
        keep(self, leadership.bind(py), leadership.clone_ref(py).into_any());
        Ok(leadership)
    }

    /// Return a context manager that campaigns, and resigns at the end of the block.
    ///
    /// >>> with election.lead(timeout=5):
    /// ...     election.is_leader
    /// True
    ///
    /// `timeout` and `connect_timeout` are in seconds, as in `campaign()`. The end of the block raises
    /// `LockLost` if the leadership was lost meanwhile.
    #[pyo3(
        signature = (timeout=Number::of(-1.0), *, connect_timeout=None),
        text_signature = "($self, timeout=-1, *, connect_timeout=None)"
    )]
    fn lead(
        slf: Py<Self>,
        timeout: Option<Number<names::Timeout>>,
        connect_timeout: Option<Number<names::ConnectTimeout>>,
    ) -> Result<Lead> {
        let timeout = bounded_timeout(true, timeout, connect_timeout)?;
        Ok(Lead { election: slf, timeout, entered: AcquiredStack::new(true) })
    }

    /// Lead whenever possible: campaign, call `body` with the leadership, resign, and campaign again.
    ///
    /// >>> election.run(schedule)
    ///
    /// If the leadership is lost, `body` must return: it can detect the loss with `leadership.check()` or
    /// `on_lost`. Then the election campaigns again. If leaderships last less than five seconds, the election
    /// pauses between them so that other candidates can lead. The pauses become longer, up to six seconds.
    /// After `ConnectionFailed` it also pauses, and campaigns again.
    ///
    /// Return when the client is closed or drained. If `body` raises an exception, resign and raise it. The
    /// only exception that is not raised is the `LockLost` of this leadership: it leads to the next campaign.
    /// Also raise the other errors of `campaign()`. Ctrl-C ends the call.
    fn run(slf: &Bound<'_, Self>, body: &Bound<'_, PyAny>) -> Result<()> {
        slf.py().import("zklock._rounds")?.call_method1("run", (slf, body))?;
        Ok(())
    }

    /// Return the candidate that leads or is about to lead, or None if there is no candidate.
    ///
    /// >>> with election.lead():
    /// ...     election.leader().id
    /// 'scheduler-1'
    ///
    /// This takes three round trips. The answer can be out of date when it arrives, so use the fencing token
    /// to protect actions that only the leader may perform. Raise the same exceptions as `Lock.locked()`.
    fn leader(&self, py: Python<'_>) -> Result<Option<Candidate>> {
        Ok(block_on(py, self.inner.leader())??.map(Candidate::from))
    }

    /// Return the candidates, in the order in which they lead. Raise the same exceptions as `leader()`.
    ///
    /// >>> with election.lead():
    /// ...     [candidate.position for candidate in election.candidates()]
    /// [0]
    fn candidates(&self, py: Python<'_>) -> Result<Vec<Candidate>> {
        let candidates = block_on(py, self.inner.candidates())??;
        Ok(candidates.into_iter().map(Candidate::from).collect())
    }

    /// Call `callback` with the current leader (a `Candidate` or None), now and after each change.
    ///
    /// >>> notice = election.on_leader(lambda leader: print("leads:", leader))
    /// >>> notice.cancel()
    ///
    /// The caller need not be a candidate. The client watches only one node, regardless of the number of
    /// candidates. If the leader changes several times in quick succession, only the last change might be
    /// reported. The observation continues, and keeps the client open, until the notice is cancelled or the
    /// client is closed. See `Lease.on_lost` for how callbacks are called.
    fn on_leader(&self, py: Python<'_>, callback: Py<PyAny>) -> Result<Notice> {
        Notice::of_election(py, self.inner.observe(), callback)
    }

    fn __repr__(&self) -> String {
        let leads = if self.inner.is_leader() { ", leading" } else { "" };
        format!("<zklock.Election {} as {}{leads}>", Escaped(self.inner.path()), Escaped(&self.inner.id()))
    }
}

impl Election {
    fn begin(&self, py: Python<'_>, timeout: zklock::Timeout) -> Result<Py<Leadership>> {
        if !self.inner.is_leader() {
            asyncio_tasks::admit(py)?;
        }
        let (election, caller) = (self.inner.clone(), Caller::find(py)?.named(py)?);
        let leadership = block_to_own(py, async move { campaign(&election, &caller, timeout).await })??;
        Ok(Leadership::new(py, leadership)?)
    }
}

/// The state of `Election.run()`, which repeats rounds: a campaign, a leadership and a pause.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Rounds {
    election: zklock::Election,
    rounds: Mutex<internal::Rounds>,
}

impl Rounds {
    /// Locks the state. Ignores poisoning, because a panic cannot leave a partial change.
    fn rounds(&self) -> MutexGuard<'_, internal::Rounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits before the next campaign.
    fn pausing(&self, seconds: f64) -> Result<impl Future<Output = zklock::Result<()>> + Send + 'static> {
        let (election, time) = (self.election.clone(), PYTHON.duration("seconds", seconds)?);
        Ok(async move { internal::Rounds::pause(&election, time).await })
    }
}

#[pymethods]
impl Rounds {
    #[new]
    fn new(election: &Election) -> Result<Self> {
        Ok(Self { election: internal::Rounds::election(&election.inner)?, rounds: Mutex::default() })
    }

    /// Return whether the client is closed, so that no further campaign is possible.
    fn are_over(&self) -> bool {
        internal::Rounds::are_over(&self.election)
    }

    /// Record that a leadership has begun.
    fn begin(&self) {
        self.rounds().begin();
    }

    /// Record that the leadership is over. Return the seconds to pause before the next campaign.
    fn end(&self) -> f64 {
        self.rounds().end().as_secs_f64()
    }

    /// Return the seconds to pause after a failed campaign, or None if the client is closed.
    ///
    /// Raise the failure if the next campaign would fail in the same way.
    fn fail(&self, failure: &Bound<'_, PyAny>) -> Result<Option<f64>> {
        let py = failure.py();
        let code: String = failure.getattr(interned!(py, "code")?)?.extract()?;
        let raised = || PyErr::from_value(failure.clone());
        let kind = *ErrorKind::ALL.iter().find(|kind| kind.code() == code).ok_or_else(raised)?;
        let failed = error(kind, failure.str()?.to_string());
        let pause = self.rounds().fail(self.election.path(), failed).map_err(|_| raised())?;
        Ok(pause.map(|pause| pause.as_secs_f64()))
    }

    /// Wait `seconds` before the next campaign. Return earlier if the client is closed.
    fn pause(&self, py: Python<'_>, seconds: f64) -> Result<()> {
        Ok(block_on(py, Box::pin(self.pausing(seconds)?))??)
    }

    /// Start to wait before the next campaign.
    fn start_pause(&self, py: Python<'_>, seconds: f64) -> Result<Pending> {
        Pending::start(py, self.pausing(seconds)?)
    }
}

/// The result of `Election.lead()`. It can be entered more than once.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Lead {
    election: Py<Election>,
    timeout: zklock::Timeout,
    entered: AcquiredStack<(), Scope>,
}

#[pymethods]
impl Lead {
    fn __enter__(&self, py: Python<'_>) -> Result<Py<Leadership>> {
        let site = scope::site(py, 0)?;
        let leadership = self.election.get().begin(py, self.timeout)?;
        let level = leadership.bind(py).as_super().as_super().clone();
        let kept = Scope::of_caller(py, leadership.clone_ref(py).into_any())?;
        self.entered.push(caller(py)?, level.get().0.clone(), (), Some((site, kept)));
        Ok(leadership)
    }

    #[pyo3(signature = (*exception), text_signature = "($self, kind, value, trace, /)")]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> Result<()> {
        let (raised, site) = (raised(exception), scope::site(py, 0)?);
        let exit = Exit { owner: caller(py)?, site, only: false };
        let left = scope::leave(py, &self.entered, &exit, raised.is_some(), "thread", "this election")?;
        let Some(leadership) = left else { return Ok(()) };
        let level = leadership.bind(py).cast::<Level>().map_err(PyErr::from)?;
        Ok(level.get().leave_scope(py, raised.as_ref())?)
    }
}

/// The leadership that `Election.campaign()` returns: a `Lease` of the election's lock.
///
/// >>> with election.lead() as leadership:
/// ...     leadership.check()
///
/// The election keeps a reference to the leadership until it is resigned or lost, so the program can drop its
/// own.
#[pyclass(frozen, extends = Lease, module = "zklock")]
pub(crate) struct Leadership;

impl Leadership {
    fn new(py: Python<'_>, leadership: zklock::Leadership) -> PyResult<Py<Self>> {
        let lease = Arc::new(collectable(leadership.into()));
        Py::new(py, Lease::initializer(lease).add_subclass(Self))
    }
}

#[pymethods]
impl Leadership {
    /// Let the next candidate lead. This is another name for `release()`.
    ///
    /// >>> with election.lead() as leadership:
    /// ...     leadership.resign()
    #[pyo3(
        signature = (wait=Flag::of(true), timeout=None),
        text_signature = "($self, wait=True, timeout=None)"
    )]
    fn resign(
        slf: &Bound<'_, Self>,
        wait: Flag<names::Wait>,
        timeout: Option<Number<names::Timeout>>,
    ) -> Result<()> {
        slf.as_super().as_super().get().release(slf.py(), wait, timeout)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        slf.as_super().get().describe("Leadership")
    }
}

impl IntoPython for zklock::Leadership {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Leadership::new(py, self)?.into_py_any(py)
    }
}

/// One candidate of an election, as found by `Election.candidates()`. Immutable.
///
/// >>> with election.lead():
/// ...     election.leader().position
/// 0
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(PartialEq)]
pub(crate) struct Candidate {
    /// Position in the queue, from 0. The candidate at position 0 leads.
    position: usize,
    /// The candidate's id. Empty if it has none, if it exceeds 4 KiB, or if it cannot be read.
    id: String,
    /// The full path of the node, below the client's chroot. It has the same form as `Lease.node`.
    node: String,
    /// The ZooKeeper session that owns the node.
    session_id: i64,
    /// The fencing token of its leadership, now or once it leads.
    fencing_token: i64,
}

impl From<zklock::Candidate> for Candidate {
    fn from(candidate: zklock::Candidate) -> Self {
        let zklock::Candidate { position, id, node, session_id, fencing_token, .. } = candidate;
        Self { position, id, node, session_id, fencing_token }
    }
}

impl IntoPython for Option<zklock::Candidate> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.map(Candidate::from).into_py_any(py)
    }
}

impl IntoPython for Vec<zklock::Candidate> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.into_iter().map(Candidate::from).collect::<Vec<_>>().into_py_any(py)
    }
}

#[pymethods]
impl Candidate {
    fn __repr__(&self) -> String {
        format!("<zklock.Candidate {} {} {}>", self.position, Escaped(&self.id), Escaped(&self.node))
    }
}

/// Start to campaign.
#[pyfunction]
pub(crate) fn start_campaign(
    py: Python<'_>,
    election: &Election,
    owner: Option<&Owner>,
    timeout: &Timeout,
) -> Result<Pending> {
    let (election, timeout, caller) = (election.inner.clone(), timeout.0, scope::caller_of(py, owner)?);
    Pending::start(py, async move { campaign(&election, &caller, timeout).await })
}

/// Store a leadership and its Python object in the election until the leadership is resigned or lost.
///
/// The election continues to lead even if the program drops its references.
#[pyfunction]
pub(crate) fn keep(election: &Election, leadership: &Bound<'_, Leadership>, handle: Py<PyAny>) {
    let py = leadership.py();
    let lease: &Bound<'_, Lease> = leadership.as_super();
    pin(lease.get());
    let level = Arc::clone(&lease.as_super().get().0);
    let mut kept = election.kept.lock().unwrap_or_else(PoisonError::into_inner);
    // Keep one leadership to which the program has no reference: it is enough to continue to lead. Drop any
    // more, which would accumulate in a program that campaigns repeatedly.
    let mut spare = false;
    let is_needed = |(level, handle): &Kept| {
        level.is_held() && !(is_only_reference(py, handle) && std::mem::replace(&mut spare, true))
    };
    let (left, gone) = std::mem::take(&mut *kept).into_iter().partition::<Vec<_>, _>(is_needed);
    *kept = left;
    kept.push((level, handle));
    drop(kept);
    drop(gone);
}

/// Start to query the leader.
#[pyfunction]
pub(crate) fn start_leader(py: Python<'_>, election: &Election) -> Result<Pending> {
    let election = election.inner.clone();
    Pending::start(py, async move { election.leader().await })
}

/// Start to query the candidates.
#[pyfunction]
pub(crate) fn start_candidates(py: Python<'_>, election: &Election) -> Result<Pending> {
    let election = election.inner.clone();
    Pending::start(py, async move { election.candidates().await })
}

/// The current leader, followed by each change.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Leaders(Arc<Mutex<zklock::Leaders>>);

/// Create an observer of the leader. It sends no request before the first wait for a leader.
#[pyfunction]
pub(crate) fn observe(election: &Election) -> Leaders {
    Leaders(Arc::new(Mutex::new(election.inner.observe())))
}

/// Start to wait for the next leader. If the wait is abandoned, the next wait still reports the change.
#[pyfunction]
pub(crate) fn start_next_leader(py: Python<'_>, leaders: &Leaders) -> Result<Pending> {
    let leaders = Arc::clone(&leaders.0);
    let next = std::future::poll_fn(move |context| {
        leaders.lock().unwrap_or_else(PoisonError::into_inner).poll_next(context)
    });
    Pending::start(py, next)
}
