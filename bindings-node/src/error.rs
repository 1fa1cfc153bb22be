//! Core's errors on their way to JavaScript.

use std::time::Duration;

use napi::JsError;
use zklock::binding::{Language, Spelling};

/// JavaScript's units and names.
pub const NODE: Language =
    Language { name: "node", unit: Duration::from_millis(1), spelling: Spelling::Camel };

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
