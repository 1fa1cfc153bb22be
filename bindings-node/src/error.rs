//! Core's errors on their way to JavaScript.

use napi::JsError;

/// What an exported function fails with.
pub struct Failure {
    code: &'static str,
    message: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl From<zklock::Error> for Failure {
    fn from(error: zklock::Error) -> Self {
        Self { code: error.code(), message: error.to_string() }
    }
}

/// Has napi throw it, with core's stable code.
impl From<Failure> for JsError<&'static str> {
    fn from(Failure { code, message }: Failure) -> Self {
        napi::Error::new(code, message).into()
    }
}

/// An argument out of its range that only this binding can see.
pub fn bad_argument(argument: &str, problem: &str) -> Failure {
    Failure { code: zklock::ErrorKind::BadArgument.code(), message: format!("{argument}: {problem}") }
}
