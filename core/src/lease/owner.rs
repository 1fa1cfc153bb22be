//! The owners of locks.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The owner of a lock. An owner can re-enter a lock that it holds.
///
/// If the same owner acquires the same path twice through the same client, it has two leases but
/// holds the lock only once.
///
/// Create one owner for each thread, task or other flow of control that acquires locks. A clone is
/// the same owner. Each owner has a [number](Self::number) and optionally a [name](Self::named).
/// Both are shown in health reports and error messages, and to other contenders.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{Mutex, Owner, Timeout};
///
/// let (lock, owner) = (Mutex::new(client, "/locks/report")?, Owner::named("nightly report"));
/// let outer = lock.acquire_as(&owner, Timeout::Forever).await?;
/// // Re-enters immediately, without a request.
/// let inner = lock.acquire_as(&owner, Timeout::Try).await?;
/// assert_eq!(inner.fencing_token(), outer.fencing_token());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Owner {
    id: OwnerId,
    name: Option<Arc<str>>,
}

impl Owner {
    /// Creates an owner without a name. It differs from all other owners.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults would be two different values")]
    pub fn new() -> Self {
        OwnerId::new().into()
    }

    /// Creates an owner with a name. It differs from all other owners, even from those with the
    /// same name.
    ///
    /// The name is for people who read reports. Other contenders see its first 64 bytes.
    #[must_use]
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        OwnerId::new().named(Some(name.into()))
    }

    /// Returns the number of the owner, which is unique in this process.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.id.0
    }

    /// Returns the name of the owner, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the owner's id, without the name.
    #[must_use]
    pub fn id(&self) -> OwnerId {
        self.id
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Owner {}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("number", &self.id.0).field("name", &self.name).finish()
    }
}

impl From<OwnerId> for Owner {
    fn from(id: OwnerId) -> Self {
        id.named(None)
    }
}

/// The identity of an owner, and the key of its holds and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u64);

impl OwnerId {
    /// Creates the id of a new owner.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults would be two different values")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the owner with this id and name.
    #[must_use]
    pub fn named(self, name: Option<Arc<str>>) -> Owner {
        Owner { id: self, name }
    }

    /// Returns the number of the owner.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_the_same_under_any_name() {
        let owner = Owner::named("a");
        assert_eq!(owner, owner.id().named(Some("b".into())));
        assert_ne!(owner, Owner::named("a"));
        assert_eq!(owner.name(), Some("a"));
        assert_eq!(Owner::new().name(), None);
    }
}
