//! The owners of locks.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who may re-enter a lock: two acquires on one client and path by one owner are one hold with two levels.
///
/// Create one for each flow of control that takes locks; clones are the same owner. Each has a [number](Self::number),
/// and may have a [name](Self::named): health checks, error messages and other contenders show both.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{Mutex, Owner, Timeout};
///
/// let (lock, owner) = (Mutex::new(client, "/locks/report")?, Owner::named("nightly report"));
/// let outer = lock.acquire_as(&owner, Timeout::Forever).await?;
/// // Re-enters at once, without a request.
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
    /// A new owner, different from all others, without a name.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults would be two different values")]
    pub fn new() -> Self {
        OwnerId::new().into()
    }

    /// A new owner, different from all others, with a name for people. Names need not differ. Other contenders are shown
    /// the first 64 bytes.
    #[must_use]
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        OwnerId::new().named(Some(name.into()))
    }

    /// Its number, which no other owner of this process has, or had before it.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.id.0
    }

    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The owner, without its name.
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

/// Which owner it is: the key under which its holds and waits are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(u64);

impl OwnerId {
    /// Of a new owner.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults would be two different values")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The owner, under this name.
    #[must_use]
    pub fn named(self, name: Option<Arc<str>>) -> Owner {
        Owner { id: self, name }
    }

    /// Its number.
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
