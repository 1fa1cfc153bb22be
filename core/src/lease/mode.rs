//! The modes of a lock.

use std::fmt;

use crate::queue::Kind;

/// The mode in which a lock is held, or is to be.
///
/// ```
/// use zklock::LockMode;
///
/// assert_eq!(LockMode::Write.as_str(), "write");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockMode {
    /// As a mutex.
    Mutex,
    /// For reading: together with other readers.
    Read,
    /// For writing: alone.
    Write,
    /// As one of a semaphore's permits, or as the turn in which these are acquired.
    Permit,
    /// As the leader of an election.
    Leadership,
}

impl LockMode {
    /// Its name, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read",
            Self::Write => "write",
            Self::Permit => "permit",
            Self::Leadership => "leadership",
        }
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Kind> for LockMode {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Exclusive => Self::Mutex,
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            Kind::Permit(_) => Self::Permit,
            Kind::Lead => Self::Leadership,
        }
    }
}
