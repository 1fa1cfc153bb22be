//! `zklock.Contender`.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zklock::internal::Escaped;

use crate::owner_info::OwnerInfo;

/// One contender in the queue of a lock, as `Lock.contenders()` found it. Does not change.
///
/// >>> with lock:
/// ...     lock.contenders()[0].language
/// 'python'
#[pyclass(frozen, get_all, eq, from_py_object, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct Contender {
    /// Its place, from 0. The first holds; so do the readers or permits behind it that fit.
    position: usize,
    /// The full path of its node, below the client's chroot, as `Lease.node` is.
    node: String,
    /// Whether it wants to hold together with other readers.
    reader: bool,
    /// The ZooKeeper session that owns the node.
    session_id: i64,
    /// The zxid that created its node.
    ///
    /// It is the fencing token of its lease, now or when it is granted; except after a downgrade: the
    /// reader has a node of its own, but its lease keeps the writer's token.
    fencing_token: i64,
    /// The name of its host; None, like everything that follows, if the node is not zklock's.
    host: Option<String>,
    /// Its process.
    pid: Option<u32>,
    /// The language of its program: `python`, `node` or `rust`.
    language: Option<String>,
    /// The label of its lock or client, or None if it has none.
    label: Option<String>,
    /// When it began to contend, by its own clock, in seconds since 1970 as `time.time()` counts them.
    since: Option<f64>,
    /// Whether it was asked to give up the lock while it held it, and has been told.
    revoked: Option<bool>,
    /// How many holds of its client may follow each other on the node before the queue gets its turn.
    ///
    /// None without the option `cohort`. Its waiters without nodes are in no list.
    cohort: Option<u32>,
    /// For how many seconds its client may keep the node after a release; None without `linger`.
    ///
    /// The node does not tell whether somebody holds through it now.
    linger: Option<f64>,
    /// The owner inside its program, such as a thread or a task.
    owner: Option<OwnerInfo>,
    /// The node's data, unchanged, whoever wrote it; empty if it was not read.
    ///
    /// What is longer than 4 KiB is not, nor what may not be read, nor anything once 16 MiB were read for one
    /// list.
    data: Cow<'static, [u8]>,
    /// How many bytes of data the node has, read or not.
    data_length: usize,
}

impl From<zklock::Contender> for Contender {
    fn from(contender: zklock::Contender) -> Self {
        let about = contender.about;
        let of =
            |field: fn(&zklock::ContenderInfo) -> &String| about.as_ref().map(|about| field(about).clone());
        let since = about.as_ref().map(|about| std::time::Duration::from_millis(about.since).as_secs_f64());
        Self {
            position: contender.position,
            node: contender.node,
            reader: contender.reader,
            session_id: contender.session_id,
            fencing_token: contender.fencing_token,
            host: of(|about| &about.host),
            pid: about.as_ref().map(|about| about.pid),
            language: of(|about| &about.language),
            label: about.as_ref().and_then(|about| about.label.clone()),
            since,
            revoked: about.as_ref().map(|about| about.revoked),
            cohort: about.as_ref().and_then(|about| about.cohort),
            linger: about.as_ref().and_then(|about| about.linger).map(|time| time.as_secs_f64()),
            owner: about.and_then(|about| about.owner).map(OwnerInfo::from),
            data: contender.data.into(),
            data_length: contender.data_length,
        }
    }
}

/// Its parts, for pickles: errors have contenders, and cross from process to process.
type Parts<'py> = (
    (usize, String, bool, i64, i64),
    (Option<String>, Option<u32>, Option<String>, Option<String>, Option<f64>, Option<bool>),
    (Option<u32>, Option<f64>),
    Option<OwnerInfo>,
    Bound<'py, PyBytes>,
    usize,
);

#[pymethods]
impl Contender {
    #[staticmethod]
    fn _of(parts: Parts<'_>) -> Self {
        let (place, about, sharing, owner, data, data_length) = parts;
        let (position, node, reader, session_id, fencing_token) = place;
        let (host, pid, language, label, since, revoked) = about;
        let (cohort, linger) = sharing;
        let data = data.as_bytes().to_vec().into();
        Self {
            position,
            node,
            reader,
            session_id,
            fencing_token,
            host,
            pid,
            language,
            label,
            since,
            revoked,
            cohort,
            linger,
            owner,
            data,
            data_length,
        }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Parts<'py>,))> {
        let place = (self.position, self.node.clone(), self.reader, self.session_id, self.fencing_token);
        let Self { host, pid, language, label, since, revoked, .. } = self;
        let about = (host.clone(), *pid, language.clone(), label.clone(), *since, *revoked);
        let owner = self.owner.clone();
        let sharing = (self.cohort, self.linger);
        let parts = (place, about, sharing, owner, PyBytes::new(py, &self.data), self.data_length);
        Ok((py.get_type::<Self>().getattr("_of")?, (parts,)))
    }

    fn __repr__(&self) -> String {
        let who = match (&self.host, self.pid) {
            (Some(host), Some(pid)) => format!(", process {pid} on {}", Escaped(host)),
            _ => String::new(),
        };
        let owner = self.owner.as_ref().map(|owner| format!(", owner {owner}")).unwrap_or_default();
        format!("<zklock.Contender {} {}{who}{owner}>", self.position, Escaped(&self.node))
    }
}
