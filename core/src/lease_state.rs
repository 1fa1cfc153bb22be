//! The states of a lease.

use std::fmt;

/// Why a lease was lost.
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
    /// The server was unreachable for half the session time-out: from then on it could give the lock to another client.
    TermEnded,
    /// The server ended the session, or forgot it.
    SessionExpired,
    /// Another client deleted the lock's node.
    NodeDeleted,
    /// The client was closed while it held the lock.
    ClientClosed,
    /// The lock was held for longer than its option `max_hold` allows.
    HeldTooLong,
    /// This process inherited the lease through fork. The parent may still hold the lock.
    Forked,
}

impl LossReason {
    /// Those that are counted as losses: they are accidents.
    pub(crate) const COUNTED: [Self; 4] =
        [Self::TermEnded, Self::SessionExpired, Self::NodeDeleted, Self::HeldTooLong];

    /// The reason in words, the same in all languages.
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

/// The state of a lease.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::LeaseState;
///
/// let lease = zklock::Mutex::new(client, "/locks/report")?.acquire().await?;
/// if lease.state() == LeaseState::Suspended {
///     println!("begin nothing long now: {:?} are left", lease.remaining());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is held, but the server is unreachable. Held again if the server answers in time, otherwise lost.
    Suspended,
    /// The lock is lost, for good.
    Lost(LossReason),
    /// This lease was released. Other leases of the same hold may still be held.
    Released,
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl LeaseState {
    /// Every state, by number.
    const ALL: [Self; 9] = [
        Self::Held,
        Self::Suspended,
        Self::Released,
        Self::Lost(LossReason::TermEnded),
        Self::Lost(LossReason::SessionExpired),
        Self::Lost(LossReason::NodeDeleted),
        Self::Lost(LossReason::ClientClosed),
        Self::Lost(LossReason::HeldTooLong),
        Self::Lost(LossReason::Forked),
    ];

    /// For an atomic.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Suspended => 1,
            Self::Released => 2,
            Self::Lost(reason) => 3 + reason as u8,
        }
    }

    /// The state with this [`number`](Self::number).
    pub(crate) fn numbered(number: u8) -> Self {
        Self::ALL[usize::from(number)]
    }

    /// The state's name, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Suspended => "suspended",
            Self::Lost(_) => "lost",
            Self::Released => "released",
        }
    }

    /// Whether the lock is held, connected to the server or not.
    pub(crate) fn holds(self) -> bool {
        matches!(self, Self::Held | Self::Suspended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_number_of_its_own() {
        for (number, state) in (0..).zip(LeaseState::ALL) {
            assert_eq!((state.number(), LeaseState::numbered(number)), (number, state));
        }
    }
}
