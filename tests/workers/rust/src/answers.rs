//! The lines of replies: results of commands, leases, and errors.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Value, json};
use tokio::task::spawn_local;
use zklock::{
    Contender, Error, Health, Histogram, HoldReport, Lease, ServerReport, Stats, Transport, WaitReport,
};

use crate::write;

/// A reply without its id.
pub(crate) type Answer = Result<Value, Failure>;

pub(crate) enum Failure {
    Lock(Error),
    Suite(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Suite(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

pub(crate) fn unknown(what: &str, name: &str) -> Failure {
    Failure::Suite(format!("no {what} is called {name}"))
}

/// Returns the reply line for an error, with the error's message and structured details.
pub(crate) fn told(error: &Error) -> Value {
    let mut line = json!({
        "event": "error", "code": error.code(), "type": format!("{:?}", error.kind()), "message": error.to_string(),
    });
    let told = |report: &ServerReport| json!([report.server, report.problem.as_str()]);
    if !error.servers().is_empty() {
        line["servers"] = error.servers().iter().map(told).collect();
        line["cause"] = std::error::Error::source(error).map(ToString::to_string).into();
    }
    let told = |blocker: &Contender| {
        let about = blocker.about.as_ref();
        json!({
            "position": blocker.position,
            "node": blocker.node,
            "session": blocker.session_id.to_string(),
            "pid": about.map(|about| about.pid),
            "label": about.and_then(|about| about.label.as_deref()),
        })
    };
    if !error.blockers().is_empty() {
        line["blockers"] = error.blockers().iter().map(told).collect();
    }
    if let Some(deadlock) = error.deadlock() {
        let zklock::Deadlock { held, waited, other, .. } = deadlock;
        line["deadlock"] = json!({ "held": held, "waited": waited, "node": other.node });
    }
    let lost = error.loss_reason().map(zklock::LossReason::as_str);
    if let Some(reason) = lost.or(error.timeout_reason().map(zklock::TimeoutReason::as_str)) {
        line["reason"] = reason.into();
    }
    line
}

pub(crate) fn answer(id: &Value, answer: Answer) {
    let mut line = match answer {
        Ok(line) => line,
        Err(Failure::Lock(error)) => told(&error),
        Err(Failure::Suite(message)) => json!({"event": "error", "type": "Worker", "message": message}),
    };
    line["id"] = id.clone();
    write(line);
}

/// Adds a lease's properties to a line.
pub(crate) fn tell(line: &mut Value, lease: &Lease) {
    line["node"] = lease.node().into();
    line["token"] = lease.fencing_token().to_string().into();
    line["handoffs"] = lease.handoffs().into();
    line["session"] = lease.session_id().to_string().into();
    line["remaining"] = lease.remaining().as_secs_f64().into();
}

/// Writes a line when a lease is lost.
pub(crate) fn tell_loss(name: String, leases: &[Rc<Lease>]) {
    let Some(lost) = leases.first().map(|lease| lease.lost()) else { return };
    spawn_local(async move {
        let reason = lost.await;
        write(json!({"event": "lost", "lease": name, "reason": reason.as_str()}));
    });
}

/// Returns a client's statistics, with times in seconds.
pub(crate) fn stats(stats: &Stats) -> Value {
    let requests: HashMap<_, _> = stats.requests.iter().map(|(kind, count)| (kind.as_str(), count)).collect();
    let losses: HashMap<_, _> =
        stats.losses_by_reason.iter().map(|(reason, count)| (reason.as_str(), count)).collect();
    json!({
        "transport": stats.transport.map(Transport::as_str), "acquisitions": stats.acquisitions, "contended": stats.contended,
        "handoffs": stats.handoffs, "retakes": stats.retakes, "busy": stats.busy, "timeouts": stats.timeouts, "losses": stats.losses, "wait": histogram(&stats.wait),
        "hold": histogram(&stats.hold), "requests": requests, "sessions": stats.sessions,
        "reconnections": stats.reconnections, "losses_by_reason": losses,
    })
}

/// Returns a client's health, with times in seconds.
pub(crate) fn health(health: &Health) -> Value {
    let wait = |wait: &WaitReport| {
        json!({
            "path": wait.path, "mode": wait.mode.as_str(), "label": wait.label, "age": wait.age.as_secs_f64(),
            "node": wait.node, "in_cohort": wait.in_cohort, "position": wait.position, "behind": wait.behind,
        })
    };
    let hold = |hold: &HoldReport| {
        json!({
            "path": hold.path, "mode": hold.mode.as_str(), "label": hold.label, "age": hold.age.as_secs_f64(),
            "node": hold.node, "token": hold.fencing_token.to_string(), "levels": hold.levels, "pinned": hold.pinned,
            "state": hold.state.as_str(), "remaining": hold.remaining.as_secs_f64(),
        })
    };
    json!({
        "state": health.state.as_str(), "session": health.session_id.to_string(), "server": health.server,
        "session_timeout": health.session_timeout.as_secs_f64(),
        "last_proof": health.last_proof.map(|age| age.as_secs_f64()),
        "remaining": health.remaining.as_secs_f64(), "responsive": health.responsive,
        "waits": health.waits.iter().map(wait).collect::<Vec<_>>(),
        "holds": health.holds.iter().map(hold).collect::<Vec<_>>(),
    })
}

pub(crate) fn histogram(histogram: &Histogram) -> Value {
    let buckets: Vec<_> =
        histogram.buckets.iter().map(|(bound, count)| (bound.as_secs_f64(), count)).collect();
    json!({
        "count": histogram.count, "sum": histogram.sum.as_secs_f64(), "max": histogram.max.as_secs_f64(),
        "buckets": buckets,
    })
}
