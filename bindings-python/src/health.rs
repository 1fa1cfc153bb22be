//! `zklock.Health`, and dumps.

use std::os::fd::BorrowedFd;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use zklock::internal::{Escaped, bad_argument, dump_with_callers};

use crate::args::checked::{Integer, wrong_type};
use crate::args::names;
use crate::bridge::callers;
use crate::errors::{Failure, Result};
use crate::owner_info::OwnerReport;

/// How a client is at this moment, with what in it waits and holds. Does not change.
///
/// >>> with lock:
/// ...     client.health().holds[0].path
/// '/locks/report'
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct Health {
    /// As `Client.state`.
    state: &'static str,
    /// The last ZooKeeper session, 0 if there has been none.
    session_id: i64,
    /// The server of the current connection, as `hosts` names it, with its port; or None.
    server: Option<String>,
    /// The session time-out that the server granted, in seconds; before that the one that is asked for.
    session_timeout: f64,
    /// How long ago, in seconds, the last proof of the session was sent: a write that was acknowledged.
    ///
    /// None without a session, and before its first proof. A client that holds nothing and waits for
    /// nothing proves nothing, and this grows.
    last_proof: Option<f64>,
    /// What is left of the session's term, in seconds, after which its leases are lost; or 0.
    remaining: f64,
    /// Whether the library's thread let go of its queues within a tenth of a second.
    ///
    /// If not, the machine is badly overloaded, or there is a bug; `waits` and `holds` are empty then.
    responsive: bool,
    /// The attempts that wait for a lock, by path.
    waits: Vec<WaitReport>,
    /// The holds, by path.
    holds: Vec<HoldReport>,
}

impl From<zklock::Health> for Health {
    fn from(health: zklock::Health) -> Self {
        Self {
            state: health.state.as_str(),
            session_id: health.session_id,
            server: health.server,
            session_timeout: health.session_timeout.as_secs_f64(),
            last_proof: health.last_proof.map(|age| age.as_secs_f64()),
            remaining: health.remaining.as_secs_f64(),
            responsive: health.responsive,
            waits: health.waits.into_iter().map(WaitReport::from).collect(),
            holds: health.holds.into_iter().map(HoldReport::from).collect(),
        }
    }
}

#[pymethods]
impl Health {
    fn __repr__(&self) -> String {
        let Self { state, waits, holds, .. } = self;
        format!("<zklock.Health {state} waits={} holds={}>", waits.len(), holds.len())
    }
}

/// An attempt to acquire a lock that has neither succeeded nor failed yet.
///
/// >>> for wait in client.health().waits:
/// ...     print(wait.path, wait.age, wait.behind)
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct WaitReport {
    /// The lock's path.
    path: String,
    /// `mutex`, `read`, `write`, `permit` or `leadership`.
    mode: &'static str,
    /// The label of the lock or of its client, of an election the candidate's id; or None.
    label: Option<String>,
    /// How long the caller has waited, in seconds.
    age: f64,
    /// The full path of its node; None as long as it has none, as without a connection.
    node: Option<String>,
    /// Whether it waits in its client's line for a lock with `cohort`: without a node.
    ///
    /// Other clients do not see it. One node of the client stands in the queue for the whole line;
    /// `position` and `behind` are those of that node.
    in_cohort: bool,
    /// How many stand before it in the queue, as far as is known; None as long as it has no node.
    position: Option<usize>,
    /// The full path of the node that it waits for: the nearest that it cannot hold together with.
    ///
    /// None if none is known; and for a permit, which waits for any of those that hold one.
    behind: Option<String>,
    /// The owner that asked for it.
    owner: OwnerReport,
}

impl From<zklock::WaitReport> for WaitReport {
    fn from(wait: zklock::WaitReport) -> Self {
        Self {
            path: wait.path,
            mode: wait.mode.as_str(),
            label: wait.label,
            age: wait.age.as_secs_f64(),
            node: wait.node,
            in_cohort: wait.in_cohort,
            position: wait.position,
            behind: wait.behind,
            owner: (&wait.owner).into(),
        }
    }
}

#[pymethods]
impl WaitReport {
    fn __repr__(&self) -> String {
        format!("<zklock.WaitReport {} {}, {:.1} s>", Escaped(&self.path), self.mode, self.age)
    }
}

/// A hold.
///
/// >>> with lock:
/// ...     for hold in client.health().holds:
/// ...         print(hold.path, hold.mode, hold.levels, hold.state)
/// /locks/report mutex 1 held
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct HoldReport {
    /// The lock's path.
    path: String,
    /// `mutex`, `read`, `write`, `permit` or `leadership`.
    mode: &'static str,
    /// The label of the lock or of its client, of an election the candidate's id; or None.
    label: Option<String>,
    /// How long it has lasted, in seconds.
    age: f64,
    /// The full path of its node.
    node: String,
    /// Its fencing token.
    fencing_token: i64,
    /// Its leases that have not been released: one for each acquire by its owner.
    levels: usize,
    /// Whether something keeps one of them until it ends: an election, or a lock of kazoo's.
    pinned: bool,
    /// The state of its leases: `held`, `suspended` or `lost`.
    state: &'static str,
    /// For how many seconds no one else can get the lock, unless it is broken.
    remaining: f64,
    /// The owner that asked for it.
    owner: OwnerReport,
}

impl From<zklock::HoldReport> for HoldReport {
    fn from(hold: zklock::HoldReport) -> Self {
        Self {
            path: hold.path,
            mode: hold.mode.as_str(),
            label: hold.label,
            age: hold.age.as_secs_f64(),
            node: hold.node,
            fencing_token: hold.fencing_token,
            levels: hold.levels,
            pinned: hold.pinned,
            state: hold.state.as_str(),
            remaining: hold.remaining.as_secs_f64(),
            owner: (&hold.owner).into(),
        }
    }
}

#[pymethods]
impl HoldReport {
    fn __repr__(&self) -> String {
        format!(
            "<zklock.HoldReport {} {}, {:.1} s, {}>",
            Escaped(&self.path),
            self.mode,
            self.age,
            self.state
        )
    }
}

/// All waits and holds of this process, client by client, as text for people: for a program that hangs.
///
/// >>> print(zklock.dump())
/// zklock ..., process ...
///
/// Each names the thread, task or greenlet that asked for the lock, and the line of the program where that
/// is now: `by owner 1 (thread MainThread at app.py:12 in main)`.
///
/// The text may change; programs read `Client.health()`. Sends nothing, and waits for no server.
#[pyfunction]
pub(crate) fn dump(py: Python<'_>) -> String {
    let callers = callers::all(py);
    py.detach(|| dump_with_callers(&|owner| callers.get(&owner).cloned()))
}

/// Have a signal write what `dump()` returns to a file: like `faulthandler.register`, for locks.
///
/// >>> import signal
/// >>> zklock.dump_on(signal.SIGUSR1)
///
/// `file` is an open file or the number of a file descriptor; by default `sys.stderr`. It may be closed
/// afterwards. A thread of its own writes, without the interpreter, so it works while every thread of the
/// program is blocked. It names owners, but no lines: `faulthandler` does. A handler for the signal that
/// is there already runs as well; one that is set later replaces this. In a forked child the signal does
/// nothing until it is registered there too.
///
/// Raises `BadArgument` for a signal that cannot be used, and `OSError` for a file that cannot.
#[pyfunction]
#[pyo3(signature = (signum, file=None), text_signature = "(signum, file=None)")]
pub(crate) fn dump_on(
    py: Python<'_>,
    signum: Integer<names::Signum>,
    file: Option<Bound<'_, PyAny>>,
) -> Result<()> {
    let file = match file {
        Some(file) => file,
        None => py.import("sys")?.getattr("stderr")?,
    };
    let number: i32 = if file.is_instance_of::<PyInt>() {
        file.extract()
            .map_err(|_| Failure::from(bad_argument("file", "is the number of no file descriptor")))?
    } else {
        let Some(fileno) = file.getattr_opt("fileno")? else {
            return Err(wrong_type("file", "an open file or the number of a file descriptor", &file).into());
        };
        fileno.call0()?.extract()?
    };
    if number < 0 {
        return Err(bad_argument("file", "is not open").into());
    }
    // SAFETY: only duplicated, at once; a number that stands for no open file is then an error.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    // A number that is no signal is refused, however large.
    let signum = i32::try_from(signum.0).unwrap_or(i32::MAX);
    zklock::dump_on(signum, &file).map_err(|error| {
        if error.kind() == std::io::ErrorKind::InvalidInput && error.raw_os_error().is_none() {
            bad_argument("signum", error).into()
        } else {
            PyOSError::new_err((error.raw_os_error(), error.to_string())).into()
        }
    })
}
