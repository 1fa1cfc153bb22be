//! `zklock.Contender`.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zklock::internal::Escaped;

use crate::owner_info::OwnerInfo;

/// One contender in the queue of a lock, as returned by `Lock.contenders()`. Immutable.
///
/// >>> with lock:
/// ...     lock.contenders()[0].language
/// 'python'
#[pyclass(frozen, get_all, eq, from_py_object, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct Contender {
    /// Position in the queue, from 0. Position 0 holds the lock.
    ///
    /// Readers and holders of permits at later positions can hold the lock at the same time.
    position: usize,
    /// The full path of the node, below the client's chroot. It has the same form as `Lease.node`.
    node: String,
    /// Whether the contender requests the read lock, which it can hold together with other readers.
    reader: bool,
    /// The ZooKeeper session that owns the node.
    session_id: i64,
    /// The zxid that created the node.
    ///
    /// It is also the fencing token that the contender's lease has, or will have once it is granted. There is
    /// one exception: if a writer keeps only its read lock, it gets a new node, but its lease keeps the old
    /// token.
    fencing_token: i64,
    /// The host name of the contender, or None if zklock did not create the node.
    ///
    /// In that case, the properties that follow are also None.
    host: Option<String>,
    /// The process id of the contender.
    pid: Option<u32>,
    /// The language of the contender's program: `python`, `node` or `rust`.
    language: Option<String>,
    /// The label of the contender's lock or client, or None.
    label: Option<String>,
    /// The time at which the contender joined the queue, by its own clock, in seconds since 1970.
    since: Option<f64>,
    /// Whether the holder was asked to give up the lock, and has received that request.
    revoked: Option<bool>,
    /// The option `cohort` of its lock, or None.
    ///
    /// This is the maximum number of consecutive holds on the node before the next node in the queue gets the
    /// lock. The client's other waiters have no nodes, and so do not appear in the list of contenders.
    cohort: Option<u32>,
    /// The option `linger` of its lock, in seconds, or None.
    ///
    /// The client can keep the node for this time after a release. The node itself does not show whether the
    /// lock is still held.
    linger: Option<f64>,
    /// The owner inside the contender's program, such as a thread or a task.
    owner: Option<OwnerInfo>,
    /// The node's data, unchanged, from any program. Empty if it was not read.
    ///
    /// The client does not read data that is longer than 4 KiB, or that it has no permission to read. Once 16
    /// MiB have been read for a listing, it reads no more data.
    data: Cow<'static, [u8]>,
    /// The size of the node's data in bytes, whether or not the data was read.
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

/// The fields in pickled form. Contenders can be pickled because errors contain them, and errors are passed
/// between processes.
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
