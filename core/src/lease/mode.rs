//! The modes in which a lock can be held.

use std::fmt;

use crate::queue::Kind;

/// The mode in which a lock is held or requested.
///
/// ```
/// use zklock::LockMode;
///
/// assert_eq!(LockMode::Write.as_str(), "write");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockMode {
    /// A mutex.
    Mutex,
    /// A read lock, which several readers can hold at the same time.
    Read,
    /// A write lock, which excludes all other holders.
    Write,
    /// One permit of a semaphore. The semaphore's internal mutex, which is held while permits are
    /// acquired, has this mode too.
    Permit,
    /// Leadership of an election.
    Leadership,
}

impl LockMode {
    /// Returns the name of the mode. It is the same in all languages.
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
