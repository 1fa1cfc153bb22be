//! One error type; its kind has one stable code, the same string in every language.

use std::borrow::Cow;
use std::fmt;

/// What went wrong, coarsely enough to act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock was not acquired before the deadline. The contender has left the queue.
    LockTimeout,
    /// The lease no longer proves anything: its session ended, its node was deleted, or its client was closed.
    LockLost,
    /// There is nothing to release: the caller does not hold the lock, or released this lease before.
    NotHeld,
    /// A reader asked for the write lock while it reads; it would wait for itself for ever.
    UpgradeRefused,
    /// No server answered in time.
    ConnectionFailed,
    /// The server refused the credentials, or they do not permit the operation.
    AuthFailed,
    /// An argument is out of its range. The message names it. No request was sent, but those that looked at what the
    /// argument names; nobody is in a queue.
    BadArgument,
    /// The client has been closed.
    ClientClosed,
    /// The handle was made in another process and inherited through `fork`. Make a new client in this process.
    Forked,
    /// The lock directory's sequence counter is close to its end. Delete the idle directory, or use another path.
    SequenceExhausted,
    /// Another contender on this path uses a different number of permits. The message has both; the contender has left.
    PermitsMismatch,
    /// One of a transaction's operations cannot be carried out. None was.
    TransactionFailed,
}

impl ErrorKind {
    /// Every kind, in the order of their documentation.
    pub const ALL: [Self; 12] = [
        Self::LockTimeout,
        Self::LockLost,
        Self::NotHeld,
        Self::UpgradeRefused,
        Self::ConnectionFailed,
        Self::AuthFailed,
        Self::BadArgument,
        Self::ClientClosed,
        Self::Forked,
        Self::SequenceExhausted,
        Self::PermitsMismatch,
        Self::TransactionFailed,
    ];

    /// The stable code, the same in all languages.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::LockTimeout => "LOCK_TIMEOUT",
            Self::LockLost => "LOCK_LOST",
            Self::NotHeld => "NOT_HELD",
            Self::UpgradeRefused => "UPGRADE_REFUSED",
            Self::ConnectionFailed => "CONNECTION_FAILED",
            Self::AuthFailed => "AUTH_FAILED",
            Self::BadArgument => "BAD_ARGUMENT",
            Self::ClientClosed => "CLIENT_CLOSED",
            Self::Forked => "FORKED",
            Self::SequenceExhausted => "SEQUENCE_EXHAUSTED",
            Self::PermitsMismatch => "PERMITS_MISMATCH",
            Self::TransactionFailed => "TRANSACTION_FAILED",
        }
    }
}

/// The error of every operation: a kind to act upon, and a message that says what happened and what to do next.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
}

/// The result of every operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An argument out of its range; the message begins with the argument's name.
    pub(crate) fn bad_argument(argument: &str, problem: impl fmt::Display) -> Self {
        Self::new(ErrorKind::BadArgument, format!("{argument}: {problem}"))
    }

    pub(crate) fn client_closed() -> Self {
        Self::new(ErrorKind::ClientClosed, "the client has been closed; make a new one")
    }

    /// A write was sent, and no answer came.
    pub(crate) fn unanswered() -> Self {
        Self::new(
            ErrorKind::ConnectionFailed,
            "the server has not answered: what was asked may have been done or not; look, then try again",
        )
    }

    pub(crate) fn forked() -> Self {
        Self::new(
            ErrorKind::Forked,
            "this handle was inherited through fork and belongs to the parent process; make a new client in this process",
        )
    }

    pub(crate) fn not_held(message: &'static str) -> Self {
        Self::new(ErrorKind::NotHeld, message)
    }

    /// What went wrong, to act upon.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The kind's stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}
