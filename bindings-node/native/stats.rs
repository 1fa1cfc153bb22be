//! Converts the statistics of a client to plain JavaScript objects.

use std::collections::HashMap;
use std::time::Duration;

use napi_derive::napi;
use zklock::Transport;

#[napi(object, object_from_js = false)]
pub struct NativeStats {
    pub transport: Option<&'static str>,
    pub acquisitions: i64,
    pub contended: i64,
    pub handoffs: i64,
    pub retakes: i64,
    pub busy: i64,
    pub timeouts: i64,
    pub losses: i64,
    pub losses_by_reason: HashMap<String, i64>,
    pub sessions: i64,
    pub reconnections: i64,
    pub wait: NativeHistogram,
    pub hold: NativeHistogram,
    pub requests: HashMap<String, i64>,
}

#[napi(object, object_from_js = false)]
pub struct NativeHistogram {
    pub count: i64,
    pub sum: f64,
    pub max: f64,
    pub buckets: Vec<(f64, i64)>,
}

impl From<zklock::Stats> for NativeStats {
    fn from(stats: zklock::Stats) -> Self {
        let requests = stats.requests.iter().map(|(kind, count)| (kind.as_str().to_owned(), number(*count)));
        let losses = stats.losses_by_reason.iter();
        let losses = losses.map(|(reason, count)| (reason.as_str().to_owned(), number(*count)));
        Self {
            transport: stats.transport.map(Transport::as_str),
            acquisitions: number(stats.acquisitions),
            contended: number(stats.contended),
            handoffs: number(stats.handoffs),
            retakes: number(stats.retakes),
            busy: number(stats.busy),
            timeouts: number(stats.timeouts),
            losses: number(stats.losses),
            losses_by_reason: losses.collect(),
            sessions: number(stats.sessions),
            reconnections: number(stats.reconnections),
            requests: requests.collect(),
            wait: stats.wait.into(),
            hold: stats.hold.into(),
        }
    }
}

impl From<zklock::Histogram> for NativeHistogram {
    fn from(histogram: zklock::Histogram) -> Self {
        let buckets = histogram.buckets.into_iter();
        Self {
            count: number(histogram.count),
            sum: milliseconds(histogram.sum),
            max: milliseconds(histogram.max),
            buckets: buckets.map(|(bound, count)| (milliseconds(bound), number(count))).collect(),
        }
    }
}

/// Converts a count to a JavaScript number, which is exact up to 2^53.
fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
