//! `zklock.Stats`.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use zklock::Transport;

/// What a client did since it was made.
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct Stats {
    transport: Option<&'static str>,
    acquisitions: u64,
    contended: u64,
    busy: u64,
    timeouts: u64,
    losses: u64,
    wait: Histogram,
    hold: Histogram,
    requests: BTreeMap<&'static str, u64>,
}

impl From<zklock::Stats> for Stats {
    fn from(stats: zklock::Stats) -> Self {
        Self {
            transport: stats.transport.map(Transport::as_str),
            acquisitions: stats.acquisitions,
            contended: stats.contended,
            busy: stats.busy,
            timeouts: stats.timeouts,
            losses: stats.losses,
            wait: stats.wait.into(),
            hold: stats.hold.into(),
            requests: stats.requests.into_iter().map(|(kind, count)| (kind.as_str(), count)).collect(),
        }
    }
}

#[pymethods]
impl Stats {
    fn __repr__(&self) -> String {
        let Self { acquisitions, contended, busy, timeouts, losses, .. } = self;
        format!(
            "<zklock.Stats acquisitions={acquisitions} contended={contended} busy={busy} timeouts={timeouts} losses={losses}>"
        )
    }
}

/// How often something took how long.
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(Clone, PartialEq)]
pub(crate) struct Histogram {
    count: u64,
    sum: f64,
    max: f64,
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
    fn __repr__(&self) -> String {
        format!("<zklock.Histogram count={} sum={} max={}>", self.count, self.sum, self.max)
    }
}
