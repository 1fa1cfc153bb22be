//! The owners of locks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Who may re-enter a lock: two acquires on one client and path by one owner are one hold with two levels.
///
/// Create one for each flow of control that takes locks; copies are the same owner. Never reused in a process.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{Mutex, Owner, Timeout};
///
/// let (lock, owner) = (Mutex::new(client, "/locks/report")?, Owner::new());
/// let outer = lock.acquire_as(owner, Timeout::Forever).await?;
/// // Re-enters at once, without a request.
/// let inner = lock.acquire_as(owner, Timeout::Try).await?;
/// assert_eq!(inner.fencing_token(), outer.fencing_token());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// A new owner, different from all others.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults would be two different values")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Which of all it is.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}
