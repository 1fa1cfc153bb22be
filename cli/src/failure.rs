//! The failure of a command: its exit status and its message.

use zklock::{Error, ErrorKind, TimeoutReason};

/// The command line is wrong (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// No server can be reached (`EX_UNAVAILABLE`).
pub(crate) const UNREACHABLE: u8 = 69;
/// An unexpected problem, such as a failed system call or an invalid reply (`EX_SOFTWARE`).
pub(crate) const INTERNAL: u8 = 70;
/// The lock is taken (`EX_TEMPFAIL`: try again).
pub(crate) const CONFLICT: u8 = 75;
/// The credentials are refused or insufficient (`EX_NOPERM`).
pub(crate) const DENIED: u8 = 77;
/// The lock was lost while the command ran. `sysexits.h` does not use this number.
pub(crate) const LOST: u8 = 79;
/// The command exists but cannot be run, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist, as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// The failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// The message for standard error; `None` if the user already knows the problem.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// Returns the failure for an error of the operating system.
    pub(crate) fn system(doing: &str, error: &impl std::fmt::Display) -> Self {
        Self::new(INTERNAL, format!("{doing}: {error}"))
    }

    /// Returns the failure of a command that a signal ended, with the exit status that a shell
    /// reports.
    pub(crate) fn signal(signal: i32) -> Self {
        Self { code: after_signal(signal), message: None }
    }
}

/// Returns the exit status for an end by a signal.
pub(crate) fn after_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            // Report a taken lock only if a server has replied. Otherwise it is unknown whether the
            // lock is taken.
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
