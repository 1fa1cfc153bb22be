//! `zklock.Health`, and dumps.

use std::io::ErrorKind;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use zklock::internal::{Escaped, bad_argument, dump_on_descriptor, dump_with_callers};

use crate::args::checked::{Integer, wrong_type};
use crate::args::names;
use crate::bridge::callers;
use crate::errors::{Failure, Result};
use crate::owner_info::OwnerReport;

/// The state of a client at one moment, with its waiters and holds. Immutable.
///
/// >>> with lock:
/// ...     client.health().holds[0].path
/// '/locks/report'
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct Health {
    /// The same as `Client.state`.
    state: &'static str,
    /// The last ZooKeeper session, or 0 if there has been none.
    session_id: i64,
    /// The server of the current connection, with its port, in the form used in `hosts`, or None.
    server: Option<String>,
    /// The session timeout that the server granted, in seconds. Until then, the requested timeout.
    session_timeout: f64,
    /// The time in seconds since the client sent the last write that the server has acknowledged.
    ///
    /// Such a write proves that the session is alive. None without a session, and before the first such
    /// write. A client that holds nothing and waits for nothing sends none, so this value grows.
    last_proof: Option<f64>,
    /// The time in seconds until the leases are lost if no server answers. 0 if no lease can be valid.
    remaining: f64,
    /// Whether the library's thread answered within 0.1 seconds.
    ///
    /// If not, the machine is heavily overloaded, or there is a bug. `waits` and `holds` are then empty.
    responsive: bool,
    /// The pending acquires, by path.
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

/// An acquire that has neither succeeded nor failed yet.
///
/// >>> for wait in client.health().waits:
/// ...     print(wait.path, wait.age, wait.behind)
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct WaitReport {
    /// The path of the lock.
    path: String,
    /// `mutex`, `read`, `write`, `permit` or `leadership`.
    mode: &'static str,
    /// The label of the lock or its client, or the candidate's id in an election; or None.
    label: Option<String>,
    /// The time that the caller has waited, in seconds.
    age: f64,
    /// The full path of the waiter's node, or None if it has no node, for example without a connection.
    node: Option<String>,
    /// Whether the caller waits in its client's local queue, for a lock with `cohort`, and so has no node.
    ///
    /// Other clients do not see such a waiter. One node of the client represents the whole local queue, and
    /// `position` and `behind` refer to that node.
    in_cohort: bool,
    /// The known number of contenders ahead of the node in the queue. None if there is no node.
    position: Option<usize>,
    /// The full path of the nearest node that cannot share the lock with the waiter.
    ///
    /// None if no such node is known. Also None for a semaphore, where a waiter waits for any of the holders.
    behind: Option<String>,
    /// The owner that requested the lock.
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

/// A hold of a lock.
///
/// >>> with lock:
/// ...     for hold in client.health().holds:
/// ...         print(hold.path, hold.mode, hold.levels, hold.state)
/// /locks/report mutex 1 held
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct HoldReport {
    /// The path of the lock.
    path: String,
    /// `mutex`, `read`, `write`, `permit` or `leadership`.
    mode: &'static str,
    /// The label of the lock or its client, or the candidate's id in an election; or None.
    label: Option<String>,
    /// The age of the hold, in seconds.
    age: f64,
    /// The full path of the hold's node.
    node: String,
    /// The fencing token of the hold.
    fencing_token: i64,
    /// The number of leases that have not been released: one for each acquire by the owner.
    levels: usize,
    /// Whether an election or a kazoo lock keeps one of its leases until the lease is released or lost.
    pinned: bool,
    /// The state of its leases: `held`, `suspended` or `lost`.
    state: &'static str,
    /// The time in seconds during which no other client can get the lock, unless an operator breaks it.
    remaining: f64,
    /// The owner that requested the lock.
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

/// Return a readable list of all waiters and holds of this process, by client.
///
/// >>> print(zklock.dump())
/// zklock ..., process ...
///
/// Use it to find out why a program hangs. Each entry names the thread, task or greenlet that requested the
/// lock, and the line that it is executing: `by owner 1 (thread MainThread at app.py:12 in main)`.
///
/// The format of the text can change, so use `Client.health()` in a program. The call sends no request, and
/// waits for no server.
#[pyfunction]
pub(crate) fn dump(py: Python<'_>) -> String {
    let callers = callers::all(py);
    py.detach(|| dump_with_callers(&|owner| callers.get(&owner).cloned()))
}

/// Make a signal write the text of `dump()` to a file, like `faulthandler.register`.
///
/// >>> import signal
/// >>> zklock.dump_on(signal.SIGUSR1)
///
/// `file` is an open file or a file descriptor; the default is `sys.stderr`. You can close it after this
/// call. A separate thread writes the dump without the interpreter, so it works while every thread of the
/// program is blocked. The dump names owners, but not the lines that they are executing: use `faulthandler`
/// to see these. An existing handler for the signal still runs. A handler that is set later replaces this
/// one. In a forked child the signal does nothing until you register it there too.
///
/// Raise `BadArgument` for an unusable signal, and `OSError` for an unusable file. Windows has no signal that
/// asks for a dump: raise `OSError` there.
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
        file.extract().map_err(|_| Failure::from(bad_argument("file", "is not a file descriptor")))?
    } else {
        let Some(fileno) = file.getattr_opt("fileno")? else {
            return Err(wrong_type("file", "an open file or the number of a file descriptor", &file).into());
        };
        fileno.call0()?.extract()?
    };
    if number < 0 {
        return Err(bad_argument("file", "is not open").into());
    }
    // A number that does not fit into an `i32` becomes `i32::MAX`, which is refused because it is not a
    // signal.
    let signum = i32::try_from(signum.0).unwrap_or(i32::MAX);
    dump_on_descriptor(signum, number).map_err(|error| match (error.kind(), error.raw_os_error()) {
        (ErrorKind::InvalidInput, None) => bad_argument("signum", error).into(),
        (ErrorKind::Unsupported, None) => PyOSError::new_err(error.to_string()).into(),
        (_, number) => PyOSError::new_err((number, error.to_string())).into(),
    })
}
