//! `zklock.Stats`.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zklock::{LossReason, RequestKind, Transport};

/// The statistics of a client since it was created: a snapshot of numbers that only grow.
///
/// >>> with lock:
/// ...     client.stats().acquisitions
/// 1
///
/// A *hold* begins with a grant and ends with its last release, or with its loss. A re-entry is not counted,
/// because it starts no hold and sends no request. Each permit of a semaphore is a hold.
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct Stats {
    /// The transport that the client uses: `zklock`, or `stock` (sockets and timers of other crates).
    ///
    /// None before the first session.
    transport: Option<&'static str>,
    /// Holds that began.
    acquisitions: u64,
    /// Acquisitions that had to wait for another contender.
    contended: u64,
    /// Hand-offs from one holder in this client to the next, without a request: see `cohort`.
    handoffs: u64,
    /// Acquisitions that reused a node that the client had kept, without a request: see `linger`.
    retakes: u64,
    /// Acquires that found the lock taken, and did not or could not wait.
    busy: u64,
    /// Acquires that timed out.
    timeouts: u64,
    /// Holds that were lost, except by closing the client.
    losses: u64,
    /// Losses by reason. The keys are the values of `Lease.loss_reason`.
    ///
    /// Reasons with a count of 0 are included. The reasons `client closed` and `inherited through fork` are
    /// not counted, and not included.
    losses_by_reason: BTreeMap<&'static str, u64>,
    /// Sessions that began. More than one means that a session was lost.
    sessions: u64,
    /// Connections that were lost and replaced within a session.
    reconnections: u64,
    /// Durations of the acquisitions, from the call to the grant.
    wait: Histogram,
    /// Durations of the holds that have ended.
    hold: Histogram,
    /// Requests for locks, by purpose: `create`, `list`, `watch`, `delete` and so on.
    ///
    /// Every purpose is present, even if its count is 0. Requests of the session itself are not included:
    /// pings, opening and closing the session, and setting or removing watches on a server.
    requests: BTreeMap<&'static str, u64>,
}

impl From<zklock::Stats> for Stats {
    fn from(stats: zklock::Stats) -> Self {
        Self {
            transport: stats.transport.map(Transport::as_str),
            acquisitions: stats.acquisitions,
            contended: stats.contended,
            handoffs: stats.handoffs,
            retakes: stats.retakes,
            busy: stats.busy,
            timeouts: stats.timeouts,
            losses: stats.losses,
            losses_by_reason: by_name(stats.losses_by_reason, LossReason::as_str),
            sessions: stats.sessions,
            reconnections: stats.reconnections,
            wait: stats.wait.into(),
            hold: stats.hold.into(),
            requests: by_name(stats.requests, RequestKind::as_str),
        }
    }
}

fn by_name<K>(counts: BTreeMap<K, u64>, name: fn(K) -> &'static str) -> BTreeMap<&'static str, u64> {
    counts.into_iter().map(|(key, count)| (name(key), count)).collect()
}

#[pymethods]
impl Stats {
    /// Return all numbers as a dictionary that `json.dumps` accepts. Times are in seconds.
    ///
    /// >>> with lock:
    /// ...     client.stats().as_dict().get("acquisitions")
    /// 1
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        all.set_item("transport", self.transport)?;
        all.set_item("acquisitions", self.acquisitions)?;
        all.set_item("contended", self.contended)?;
        all.set_item("handoffs", self.handoffs)?;
        all.set_item("retakes", self.retakes)?;
        all.set_item("busy", self.busy)?;
        all.set_item("timeouts", self.timeouts)?;
        all.set_item("losses", self.losses)?;
        all.set_item("losses_by_reason", &self.losses_by_reason)?;
        all.set_item("sessions", self.sessions)?;
        all.set_item("reconnections", self.reconnections)?;
        all.set_item("wait", self.wait.as_dict(py)?)?;
        all.set_item("hold", self.hold.as_dict(py)?)?;
        all.set_item("requests", &self.requests)?;
        Ok(all)
    }

    fn __repr__(&self) -> String {
        let Self { acquisitions, contended, busy, timeouts, losses, .. } = self;
        format!(
            "<zklock.Stats acquisitions={acquisitions} contended={contended} busy={busy} timeouts={timeouts} losses={losses}>"
        )
    }
}

/// A distribution of durations in seconds, in the form of a Prometheus histogram.
///
/// >>> with lock:
/// ...     client.stats().wait.count
/// 1
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct Histogram {
    /// The number of durations.
    count: u64,
    /// The sum of all durations.
    sum: f64,
    /// The longest duration.
    max: f64,
    /// Upper bounds in ascending order, each with the number of durations that do not exceed it.
    ///
    /// The bounds are 1, 2 and 5 times every power of ten from 100 µs to 1,000 s. Longer durations appear
    /// only in `count`.
    buckets: Vec<(f64, u64)>,
}

impl From<zklock::Histogram> for Histogram {
    fn from(histogram: zklock::Histogram) -> Self {
        let buckets = histogram.buckets.into_iter().map(|(bound, count)| (bound.as_secs_f64(), count));
        Self {
            count: histogram.count,
            sum: histogram.sum.as_secs_f64(),
            max: histogram.max.as_secs_f64(),
            buckets: buckets.collect(),
        }
    }
}

#[pymethods]
impl Histogram {
    /// Return all numbers as a dictionary of plain values. Times are in seconds.
    ///
    /// >>> with lock:
    /// ...     client.stats().wait.as_dict().get("count")
    /// 1
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        all.set_item("count", self.count)?;
        all.set_item("sum", self.sum)?;
        all.set_item("max", self.max)?;
        all.set_item("buckets", &self.buckets)?;
        Ok(all)
    }

    fn __repr__(&self) -> String {
        format!("<zklock.Histogram count={} sum={} max={}>", self.count, self.sum, self.max)
    }
}
