//! [`Error`], the library's only error type, and [`ErrorKind`], whose stable codes are the same in
//! every language.

pub(crate) mod blockers;
pub(crate) mod deadlock;
pub(crate) mod loss_reason;
pub(crate) mod server_report;
pub(crate) mod timeout_reason;
pub(crate) mod timestamp;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

pub(crate) use zklock_transport::escape;

use self::blockers::Blockers;
use self::deadlock::Deadlock;
use self::server_report::{ServerReport, Servers};
use self::timeout_reason::{FullQueue, TimeoutReason};
use crate::error::loss_reason::LossReason;
use crate::queue::contender::Contender;

/// The category of an error, for programs that react to it.
///
/// ```
/// use zklock::{ClientOptions, ErrorKind};
///
/// let error = ClientOptions::new(Some("localhost:0")).unwrap_err();
/// match error.kind() {
///     ErrorKind::BadArgument => println!("{error}"),
///     kind => unreachable!("{kind:?}"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock was not acquired before the deadline. The contender has left the queue.
    LockTimeout,
    /// The lease is no longer valid: its session ended, its node was deleted, or its client was closed.
    LockLost,
    /// There is nothing to release: the caller does not hold the lock, or has already released this lease.
    NotHeld,
    /// An owner that holds the read lock requested the write lock. It would wait forever for its
    /// own read lock.
    UpgradeRefused,
    /// No server replied in time.
    ConnectionFailed,
    /// The server refused the credentials, or the credentials do not permit the operation.
    AuthFailed,
    /// An argument is out of range or refers to something that does not exist. [`Error::argument`]
    /// and the message name the argument. The call has sent no request, or has only read the node
    /// that the argument names, and has left no node behind. The one exception is a shared count
    /// that disappears while a call uses it.
    BadArgument,
    /// The client was closed.
    ClientClosed,
    /// The handle was created in another process and inherited through `fork`. Create a new client
    /// in this process.
    Forked,
    /// The sequence counter of the lock directory is nearly exhausted. Delete the idle directory, or use another path.
    SequenceExhausted,
    /// Another contender on this path uses a different number of permits. The message states both
    /// numbers. This contender has left the queue.
    PermitsMismatch,
    /// One operation of a transaction cannot be executed, so none of them was executed.
    TransactionFailed,
}

impl ErrorKind {
    /// All kinds, in the order of their documentation.
    pub const ALL: &'static [Self] = &[
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

    /// Returns the stable code, which is the same in all languages.
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

/// Shows the kind's stable code.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The error of every operation. It has a kind for programs and a message that says what happened
/// and what to do next. All unprintable characters in the message are escaped, including those from
/// a node's name, a path, or a server's reply.
///
/// ```
/// let error = zklock::ClientOptions::new(Some("localhost:0")).unwrap_err();
/// assert_eq!((error.code(), error.argument()), ("BAD_ARGUMENT", Some("hosts")));
/// ```
///
/// An error also contains details for programs: [`servers`](Self::servers),
/// [`blockers`](Self::blockers), [`deadlock`](Self::deadlock),
/// [`timeout_reason`](Self::timeout_reason), [`loss_reason`](Self::loss_reason),
/// [`failed_operation`](Self::failed_operation). Its [`source`](StdError::source) is either the
/// operating system's error or a report of the problems at the servers. With only one server, that
/// report is a [`ServerReport`].
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    argument: Option<Cow<'static, str>>,
    message: Cow<'static, str>,
    details: Details,
}

/// Details for programs, in addition to the kind.
#[derive(Clone, Debug)]
enum Details {
    None,
    Servers(Servers),
    TimedOut(TimedOut),
    Lost(LossReason),
    /// `denied` is `true` if an access control list forbids the operation.
    Operation {
        failed: Arc<FailedOperation>,
        denied: bool,
    },
    Cause(Arc<dyn StdError + Send + Sync>),
}

/// The details of a timeout.
#[derive(Clone, Debug)]
struct TimedOut {
    reason: TimeoutReason,
    servers: Option<Servers>,
    blockers: Option<Arc<Blockers>>,
    full: Option<Arc<FullQueue>>,
}

/// The operation that made a transaction fail. See [`Error::failed_operation`].
///
/// ```no_run
/// # async fn example(lease: &zklock::Lease) {
/// let outcome = lease.transaction().create("/a", b"").delete("/b", None).commit().await;
/// if let Some(failed) = outcome.as_ref().err().and_then(|error| error.failed_operation()) {
///     println!("number {} at {}", failed.index, failed.path);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedOperation {
    /// Index of the operation in the transaction, from 0.
    pub index: usize,
    /// Path of the operation, as the caller gave it.
    pub path: String,
}

/// The result of every operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(argument) = &self.argument {
            write!(f, "{argument}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.details {
            Details::TimedOut(TimedOut { blockers: Some(blockers), .. }) => f.write_str(blockers.text()),
            _ => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.details {
            Details::Servers(servers) => servers.cause(),
            Details::TimedOut(TimedOut { servers, .. }) => servers.as_ref()?.cause(),
            Details::Cause(cause) => Some(&**cause),
            _ => None,
        }
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, argument: None, message: escape::message(message.into()), details: Details::None }
    }

    /// Adds the problems at the servers to this error.
    pub(crate) fn at_servers(mut self, servers: Servers) -> Self {
        match &mut self.details {
            Details::TimedOut(timed_out) => timed_out.servers = Some(servers),
            details => *details = Details::Servers(servers),
        }
        self
    }

    /// Returns the error of an attempt that timed out.
    pub(crate) fn timed_out(reason: TimeoutReason, message: impl Into<Cow<'static, str>>) -> Self {
        let details = Details::TimedOut(TimedOut { reason, servers: None, blockers: None, full: None });
        Self { details, ..Self::new(ErrorKind::LockTimeout, message) }
    }

    /// Returns the error of an acquire that is refused because the queue already has the maximum
    /// number of waiters.
    pub(crate) fn full(path: &str, waiting: usize) -> Self {
        let queue = FullQueue::new(path, waiting);
        let message = format!("{queue} (max_waiters); `contenders()` lists the contenders");
        let mut error = Self::timed_out(TimeoutReason::Full, message);
        if let Details::TimedOut(timed_out) = &mut error.details {
            timed_out.full = Some(Arc::new(queue));
        }
        error
    }

    /// Returns the full queue if this error reports one.
    pub(crate) fn full_queue(&self) -> Option<&FullQueue> {
        match &self.details {
            Details::TimedOut(timed_out) => timed_out.full.as_deref(),
            _ => None,
        }
    }

    /// Returns `true` if the acquire timed out and no reply explains the reason, for example
    /// because no server replied.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.timeout_reason(), Some(TimeoutReason::Unreachable | TimeoutReason::Unknown))
    }

    /// Replaces the timeout reason, if this is the error of an attempt that timed out.
    pub(crate) fn with_timeout_reason(mut self, reason: TimeoutReason) -> Self {
        if let Details::TimedOut(timed_out) = &mut self.details {
            timed_out.reason = reason;
        }
        self
    }

    /// Adds the contenders that blocked the attempt, if this is the error of an attempt that timed
    /// out. Their description is appended to the message.
    pub(crate) fn blocked_by(mut self, blockers: Blockers) -> Self {
        if let Details::TimedOut(timed_out) = &mut self.details {
            timed_out.blockers = Some(Arc::new(blockers));
        }
        self
    }

    /// Returns the error of a lost lock.
    pub(crate) fn lost(reason: LossReason, message: impl Into<Cow<'static, str>>) -> Self {
        Self { details: Details::Lost(reason), ..Self::new(ErrorKind::LockLost, message) }
    }

    /// Returns the error of a transaction whose operation at `index` failed. `denied` is `true` if
    /// the operation is not permitted.
    pub(crate) fn operation_failed(
        index: usize,
        path: &str,
        denied: bool,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let failed = Arc::new(FailedOperation { index, path: path.to_owned() });
        Self {
            details: Details::Operation { failed, denied },
            ..Self::new(ErrorKind::TransactionFailed, message)
        }
    }

    /// Adds the error that caused this one.
    pub(crate) fn because(self, cause: impl StdError + Send + Sync + 'static) -> Self {
        Self { details: Details::Cause(Arc::new(cause)), ..self }
    }

    /// Returns the error for an argument that is out of range. The message begins with the
    /// argument's name.
    pub(crate) fn bad_argument(argument: &str, problem: impl fmt::Display) -> Self {
        Self::new(ErrorKind::BadArgument, problem.to_string()).with_argument(argument)
    }

    pub(crate) fn client_closed() -> Self {
        Self::new(ErrorKind::ClientClosed, "the client has been closed; create a new one")
    }

    pub(crate) fn client_draining() -> Self {
        let message =
            "the client is draining: it acquires no new locks, and closes when its locks are released";
        Self::new(ErrorKind::ClientClosed, message)
    }

    /// Returns the error for a write that was sent and received no reply.
    pub(crate) fn unanswered() -> Self {
        Self::new(
            ErrorKind::ConnectionFailed,
            "the server has not answered: the operation may or may not have been applied; check before retrying",
        )
    }

    pub(crate) fn forked() -> Self {
        Self::new(
            ErrorKind::Forked,
            "this handle was inherited through fork and belongs to the parent process; create a new client in this process",
        )
    }

    pub(crate) fn not_held(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::NotHeld, message)
    }

    /// Returns the error for a lease that was already released.
    pub(crate) fn released() -> Self {
        Self::not_held("this lease has already been released")
    }

    /// Returns the category of the error, for programs that react to it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the kind's stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Returns the name of the argument that is out of range, with which the message also begins.
    /// `None` for an error that is not about an argument.
    #[must_use]
    pub fn argument(&self) -> Option<&str> {
        self.argument.as_deref()
    }

    /// Returns a report for each of the client's servers, in the order of `hosts`. Each report
    /// describes the problem at the last attempt to connect to that server. The list has entries if
    /// the connection failed, or if a [`LockTimeout`](ErrorKind::LockTimeout) happened while the
    /// client was not connected. It is empty for all other errors.
    #[must_use]
    pub fn servers(&self) -> &[ServerReport] {
        match &self.details {
            Details::Servers(Servers(reports))
            | Details::TimedOut(TimedOut { servers: Some(Servers(reports)), .. }) => reports,
            _ => &[],
        }
    }

    /// Returns the reason of a [`LockTimeout`](ErrorKind::LockTimeout), for example that the lock
    /// was taken or that no server replied. `None` for all other errors.
    #[must_use]
    pub fn timeout_reason(&self) -> Option<TimeoutReason> {
        match &self.details {
            Details::TimedOut(TimedOut { reason, .. }) => Some(*reason),
            _ => None,
        }
    }

    /// For a [`LockTimeout`](ErrorKind::LockTimeout), returns the contenders that were known to
    /// block the attempt when it timed out, in queue order. The client sends no request for this,
    /// so the list is short:
    /// - the two nearest contenders,
    /// - contenders of this client that hold the lock or wait ahead of the attempt,
    /// - for a semaphore, up to sixteen holders of permits.
    ///
    /// The list is empty if no such contender was known. It is always empty for an acquire that
    /// does not wait (a try), because a try does not read the other contenders' nodes.
    #[must_use]
    pub fn blockers(&self) -> &[Contender] {
        match &self.details {
            Details::TimedOut(TimedOut { blockers: Some(blockers), .. }) => blockers.contenders(),
            _ => &[],
        }
    }

    /// For a [`LockTimeout`](ErrorKind::LockTimeout) of an owner that holds other locks, returns
    /// the deadlock between two owners that the client found shortly before the timeout. The
    /// message ends with its description.
    ///
    /// The client searches for a deadlock only if the attempt has a timeout and its owner holds a
    /// mutex or half of a read/write lock through the same client. The search runs in the last
    /// quarter of the waiting time, but not earlier than one second before the timeout. It never
    /// makes an attempt wait longer.
    ///
    /// `None` does not prove that there is no deadlock. The replies might have arrived too late, or
    /// the deadlock might involve more than two owners. `zklock doctor --deadlocks` also finds such
    /// deadlocks.
    #[must_use]
    pub fn deadlock(&self) -> Option<&Deadlock> {
        match &self.details {
            Details::TimedOut(TimedOut { blockers: Some(blockers), .. }) => blockers.deadlock(),
            _ => None,
        }
    }

    /// For a [`LockLost`](ErrorKind::LockLost), returns the reason of the loss.
    #[must_use]
    pub fn loss_reason(&self) -> Option<LossReason> {
        match self.details {
            Details::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// For a [`TransactionFailed`](ErrorKind::TransactionFailed), returns the operation that could
    /// not be executed.
    #[must_use]
    pub fn failed_operation(&self) -> Option<&FailedOperation> {
        match &self.details {
            Details::Operation { failed, .. } => Some(failed),
            _ => None,
        }
    }

    /// Returns `true` if a transaction failed because one of its operations is not permitted.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self.details, Details::Operation { denied: true, .. })
    }

    /// Appends `origin` to the message.
    pub(crate) fn with_origin(self, origin: impl fmt::Display) -> Self {
        Self { message: format!("{}{origin}", self.message).into(), ..self }
    }

    /// Replaces the argument's name. A function uses this if it passes its own argument to another
    /// function, in which the argument has a different name.
    #[must_use]
    pub fn with_argument(self, argument: impl Into<String>) -> Self {
        Self { argument: Some(argument.into().into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_begins_with_the_arguments_name() {
        let error = Error::bad_argument("session_timeout", "must be more than zero");
        assert_eq!(error.argument(), Some("session_timeout"));
        assert_eq!(error.to_string(), "session_timeout: must be more than zero");
        let renamed = error.with_argument("sessionTimeout");
        assert_eq!(renamed.argument(), Some("sessionTimeout"));
        assert_eq!(renamed.to_string(), "sessionTimeout: must be more than zero");
    }

    #[test]
    fn what_the_system_said_is_the_cause() {
        let cause = std::io::Error::other("no room");
        let error = Error::client_closed().because(cause);
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no room"));
        assert!(error.clone().with_argument("a").source().is_some());
        assert!(Error::client_closed().source().is_none());
    }

    #[test]
    fn a_kind_is_shown_as_its_code_and_none_is_forgotten() {
        let mut codes: Vec<_> = ErrorKind::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(codes[0], "LOCK_TIMEOUT");
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
    }

    #[test]
    fn a_loss_has_its_reason_and_no_other_error_has() {
        let lost = Error::lost(LossReason::NodeDeleted, "lost");
        assert_eq!((lost.kind(), lost.loss_reason()), (ErrorKind::LockLost, Some(LossReason::NodeDeleted)));
        assert_eq!(Error::client_closed().loss_reason(), None);
        assert!(lost.servers().is_empty() && lost.blockers().is_empty());
    }

    #[test]
    fn a_time_out_keeps_its_reason_beside_servers_and_blockers() {
        let error = Error::timed_out(TimeoutReason::Taken, "taken");
        let error =
            error.at_servers(Servers::from(Vec::new())).blocked_by(Blockers::new(Vec::new(), "/l", ""));
        let error = error.with_argument("a").clone();
        assert_eq!(
            (error.kind(), error.timeout_reason()),
            (ErrorKind::LockTimeout, Some(TimeoutReason::Taken))
        );
        let unknown = error.with_timeout_reason(TimeoutReason::Unknown);
        assert_eq!(unknown.timeout_reason().map(TimeoutReason::as_str), Some("unknown"));
        assert_eq!(Error::client_closed().with_timeout_reason(TimeoutReason::Taken).timeout_reason(), None);
    }

    #[test]
    fn a_queue_that_is_full_is_told_without_the_name_of_the_option() {
        let shown = |waiting| {
            let error = Error::full("/l\n", waiting).with_argument("a");
            assert_eq!(error.timeout_reason(), Some(TimeoutReason::Full));
            let queue = error.full_queue().map(ToString::to_string).unwrap();
            assert_eq!(
                error.to_string(),
                format!("a: {queue} (max_waiters); `contenders()` lists the contenders")
            );
            queue
        };
        assert_eq!(shown(0), r#""/l\n" is full: it is taken, and no waiters are allowed"#);
        assert_eq!(shown(1), r#""/l\n" is full: 1 contender waits for it, and no more are allowed"#);
        assert_eq!(shown(2), r#""/l\n" is full: 2 contenders wait for it, and no more are allowed"#);
        assert!(Error::timed_out(TimeoutReason::Taken, "taken").full_queue().is_none());
    }

    #[test]
    fn other_errors_are_of_no_argument() {
        let error = Error::client_closed();
        assert_eq!(
            (error.argument(), error.to_string()),
            (None, "the client has been closed; create a new one".into())
        );
    }
}
