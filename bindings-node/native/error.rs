//! Core's errors on their way to JavaScript.

use std::time::Duration;

use napi::JsError;
use napi_derive::napi;
use zklock::internal::{Language, Spelling};

/// JavaScript's units and names.
pub const NODE: Language =
    Language { name: "node", unit: Duration::from_millis(1), spelling: Spelling::Camel };

use crate::contender::NativeContender;

/// What happened at one server.
#[napi(object, object_from_js = false)]
pub struct NativeServerReport {
    pub server: String,
    pub problem: &'static str,
    pub detail: String,
}

impl From<&zklock::ServerReport> for NativeServerReport {
    fn from(report: &zklock::ServerReport) -> Self {
        let zklock::ServerReport { server, problem, detail, .. } = report;
        Self { server: server.clone(), problem: problem.as_str(), detail: detail.clone() }
    }
}

/// What an error has for programs, beside its code.
#[napi(object, object_from_js = false)]
pub struct NativeDetails {
    pub servers: Vec<NativeServerReport>,
    pub blockers: Vec<NativeContender>,
    pub deadlock: Option<NativeDeadlock>,
    pub reason: Option<&'static str>,
    /// The place of an operation that failed in its transaction, and its path.
    pub operation: Option<(u32, String)>,
}

/// Two owners that waited for each other.
#[napi(object, object_from_js = false)]
pub struct NativeDeadlock {
    pub held: String,
    pub waited: String,
    pub other: NativeContender,
}

impl From<zklock::Deadlock> for NativeDeadlock {
    fn from(deadlock: zklock::Deadlock) -> Self {
        let zklock::Deadlock { held, waited, other, .. } = deadlock;
        Self { held, waited, other: other.into() }
    }
}

impl From<&zklock::Error> for NativeDetails {
    fn from(error: &zklock::Error) -> Self {
        Self {
            servers: error.servers().iter().map(Into::into).collect(),
            blockers: NativeContender::all(error.blockers().to_vec()),
            deadlock: error.deadlock().cloned().map(Into::into),
            reason: (error.loss_reason().map(zklock::LossReason::as_str))
                .or(error.timeout_reason().map(zklock::TimeoutReason::as_str)),
            operation: error
                .failed_operation()
                .map(|failed| (u32::try_from(failed.index).unwrap_or(u32::MAX), failed.path.clone())),
        }
    }
}

/// The error of an exported function.
pub struct Failure {
    pub code: &'static str,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl From<zklock::Error> for Failure {
    fn from(error: zklock::Error) -> Self {
        Self { code: error.code(), message: NODE.spell(error).to_string() }
    }
}

/// Makes napi throw it, with core's stable code.
impl From<Failure> for JsError<&'static str> {
    fn from(Failure { code, message }: Failure) -> Self {
        napi::Error::new(code, message).into()
    }
}
