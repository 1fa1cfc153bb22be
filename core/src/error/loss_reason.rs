//! [`LossReason`]: why a lease was lost.

use std::fmt;

/// The reason why a lease was lost.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::LossReason;
///
/// let lease = zklock::Mutex::new(client, "/locks/report")?.acquire().await?;
/// match lease.lost().await {
///     LossReason::NodeDeleted => println!("an operator took the lock away"),
///     reason => println!("the lock is lost: {reason}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The client could not reach a server for half the session timeout. After that, the ensemble
    /// could give the lock to another client.
    TermEnded,
    /// The server ended or forgot the session.
    SessionExpired,
    /// Another client deleted the lock's node.
    NodeDeleted,
    /// The client was closed while it held the lock.
    ClientClosed,
    /// The lock was held for longer than its option `max_hold` allows.
    HeldTooLong,
    /// This process inherited the lease through `fork`. The parent process can still hold the lock.
    Forked,
}

impl LossReason {
    /// The loss reasons that have a counter. The other reasons are not accidents.
    pub(crate) const COUNTED: [Self; 4] =
        [Self::TermEnded, Self::SessionExpired, Self::NodeDeleted, Self::HeldTooLong];

    /// Returns the reason in words, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TermEnded => "term ended",
            Self::SessionExpired => "session expired",
            Self::NodeDeleted => "node deleted",
            Self::ClientClosed => "client closed",
            Self::HeldTooLong => "held too long",
            Self::Forked => "inherited through fork",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
