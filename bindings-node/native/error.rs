//! Converts core errors to JavaScript.

use std::time::Duration;

use napi::JsError;
use napi_derive::napi;
use zklock::internal::{Language, Spelling};

/// JavaScript's time unit and naming style.
pub const NODE: Language =
    Language { name: "node", unit: Duration::from_millis(1), spelling: Spelling::Camel };

use crate::contender::NativeContender;

/// The result of the last attempt to use one server.
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

/// The machine-readable details of an error, in addition to its code.
#[napi(object, object_from_js = false)]
pub struct NativeDetails {
    pub servers: Vec<NativeServerReport>,
    pub blockers: Vec<NativeContender>,
    pub deadlock: Option<NativeDeadlock>,
    pub reason: Option<&'static str>,
    /// Index and path of the failed operation of a transaction.
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

/// Makes napi throw the error with the core's stable code.
impl From<Failure> for JsError<&'static str> {
    fn from(Failure { code, message }: Failure) -> Self {
        napi::Error::new(code, message).into()
    }
}
