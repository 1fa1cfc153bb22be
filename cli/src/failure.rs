//! How a command fails: its exit status, and what it says.

use zklock::{Error, ErrorKind, TimeoutReason};

/// The command line is wrong (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// No server can be reached (`EX_UNAVAILABLE`).
pub(crate) const UNREACHABLE: u8 = 69;
/// What should not happen: the system refuses something, or an answer makes no sense (`EX_SOFTWARE`).
pub(crate) const INTERNAL: u8 = 70;
/// The lock is taken (`EX_TEMPFAIL`: try again).
pub(crate) const CONFLICT: u8 = 75;
/// The credentials are refused, or do not suffice (`EX_NOPERM`).
pub(crate) const DENIED: u8 = 77;
/// The lock was lost while the command ran. Beyond the range of `sysexits.h`, so it stands for nothing else.
pub(crate) const LOST: u8 = 79;
/// There is such a command, but it cannot be run, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command, as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// The end of a command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// What to say on the standard error; nothing where the user knows.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// The system refused something.
    pub(crate) fn system(doing: &str, error: &impl std::fmt::Display) -> Self {
        Self::new(INTERNAL, format!("{doing}: {error}"))
    }

    /// The end by a signal, with the status that a shell gives to it.
    pub(crate) fn signal(signal: i32) -> Self {
        Self { code: after_signal(signal), message: None }
    }
}

/// The exit status for an end by a signal.
pub(crate) fn after_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            // A wait that ended without a connection, or without an answer, says nothing about the lock.
            ErrorKind::LockTimeout
                if error.servers().is_empty()
                    && matches!(error.timeout_reason(), Some(TimeoutReason::Taken | TimeoutReason::Full)) =>
            {
                CONFLICT
            }
            ErrorKind::LockTimeout | ErrorKind::ConnectionFailed => UNREACHABLE,
            ErrorKind::LockLost => LOST,
            ErrorKind::AuthFailed => DENIED,
            ErrorKind::BadArgument | ErrorKind::PermitsMismatch | ErrorKind::NotHeld => USAGE,
            _ => INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}
