//! Core's errors on their way to JavaScript.

use napi::Status;

/// What napi puts into the `code` of an error that it throws: core's stable code, or napi's own status.
pub struct Code(String);

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<Status> for Code {
    fn from(status: Status) -> Self {
        Self(status.as_ref().to_owned())
    }
}

pub type Result<T> = std::result::Result<T, napi::Error<Code>>;

/// An error to throw, with core's code.
pub fn thrown(error: &zklock::Error) -> napi::Error<Code> {
    napi::Error::new(Code(error.code().to_owned()), error.to_string())
}

/// An argument out of its range that only this binding can see.
pub fn bad_argument(argument: &str, problem: &str) -> napi::Error<Code> {
    napi::Error::new(Code(zklock::ErrorKind::BadArgument.code().to_owned()), format!("{argument}: {problem}"))
}
