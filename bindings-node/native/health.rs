//! Converts health reports to plain JavaScript objects, and exports dumps.

use std::time::Duration;

use napi::bindgen_prelude::BigInt;
use napi_derive::napi;
use zklock::internal::{bad_argument, dump_on_descriptor};

use crate::error::Result;
use crate::owner::NativeOwner;

#[napi(object, object_from_js = false)]
pub struct NativeHealth {
    pub state: &'static str,
    pub session_id: BigInt,
    pub server: Option<String>,
    pub session_timeout: f64,
    pub last_proof: Option<f64>,
    pub remaining: f64,
    pub responsive: bool,
    pub waits: Vec<NativeWaitReport>,
    pub holds: Vec<NativeHoldReport>,
}

#[napi(object, object_from_js = false)]
pub struct NativeWaitReport {
    pub path: String,
    pub mode: &'static str,
    pub label: Option<String>,
    pub owner: NativeOwner,
    pub age: f64,
    pub node: Option<String>,
    pub in_cohort: bool,
    pub position: Option<i64>,
    pub behind: Option<String>,
}

#[napi(object, object_from_js = false)]
pub struct NativeHoldReport {
    pub path: String,
    pub mode: &'static str,
    pub label: Option<String>,
    pub owner: NativeOwner,
    pub age: f64,
    pub node: String,
    pub fencing_token: BigInt,
    pub levels: i64,
    pub pinned: bool,
    pub state: &'static str,
    pub remaining: f64,
}

impl From<zklock::Health> for NativeHealth {
    fn from(health: zklock::Health) -> Self {
        Self {
            state: health.state.as_str(),
            session_id: BigInt::from(health.session_id),
            server: health.server,
            session_timeout: milliseconds(health.session_timeout),
            last_proof: health.last_proof.map(milliseconds),
            remaining: milliseconds(health.remaining),
            responsive: health.responsive,
            waits: health.waits.into_iter().map(NativeWaitReport::from).collect(),
            holds: health.holds.into_iter().map(NativeHoldReport::from).collect(),
        }
    }
}

impl From<zklock::WaitReport> for NativeWaitReport {
    fn from(wait: zklock::WaitReport) -> Self {
        Self {
            path: wait.path,
            mode: wait.mode.as_str(),
            label: wait.label,
            owner: wait.owner.into(),
            age: milliseconds(wait.age),
            node: wait.node,
            in_cohort: wait.in_cohort,
            position: wait.position.map(number),
            behind: wait.behind,
        }
    }
}

impl From<zklock::HoldReport> for NativeHoldReport {
    fn from(hold: zklock::HoldReport) -> Self {
        Self {
            path: hold.path,
            mode: hold.mode.as_str(),
            label: hold.label,
            owner: hold.owner.into(),
            age: milliseconds(hold.age),
            node: hold.node,
            fencing_token: BigInt::from(hold.fencing_token),
            levels: number(hold.levels),
            pinned: hold.pinned,
            state: hold.state.as_str(),
            remaining: milliseconds(hold.remaining),
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns all waits and holds of the process as text.
#[napi]
pub fn dump() -> String {
    zklock::dump()
}

/// Makes a signal, given by number, write the dump to a file descriptor.
///
/// # Errors
/// `BAD_ARGUMENT`.
#[napi]
pub fn dump_on(signal: i32, file: i32) -> Result<()> {
    if file < 0 {
        return Err(bad_argument("file", "is not open").into());
    }
    Ok(dump_on_descriptor(signal, file).map_err(|problem| match problem.raw_os_error() {
        None => bad_argument("signal", problem),
        Some(_) => bad_argument("file", problem),
    })?)
}
