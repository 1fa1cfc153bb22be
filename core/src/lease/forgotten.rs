//! Leases that a program forgets: a garbage collector drops them, or their owner ends, while the lock is held.
//!
//! A program in Rust drops a lease where its code says so. Elsewhere a collector does it at a time of its own, while
//! what the lock protects goes on: the program is warned. Once a hold, whatever becomes of it later.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Lease;
use crate::error::escape::Escaped;

/// A lock that was forgotten. Its text is for the program's developers.
#[derive(Debug)]
pub struct Forgotten {
    path: String,
    /// How long the lock had been held.
    lasted: Duration,
    /// The owner that ended, and still holds the lock; `None` if the lock was released.
    owner: Option<&'static str>,
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, lasted, owner } = self;
        let (path, lasted) = (Escaped(path), lasted.as_secs_f64());
        match owner {
            None => write!(
                f,
                "the lock {path} was released after {lasted:.3} s because nothing refers to its lease any more; keep \
                 the lease, or the lock object that has it, until it is released"
            ),
            Some(owner) => write!(
                f,
                "a {owner} ended after {lasted:.3} s without releasing the lock {path}, which stays held; release it \
                 in the {owner} that acquired it"
            ),
        }
    }
}

/// Called with each forgotten lock, on any thread, with none of the library's locks taken.
static LISTENER: OnceLock<fn(&Forgotten)> = OnceLock::new();

/// Has forgotten locks reported to `listener` as well, besides the log. Only the first call counts.
pub fn on_forgotten(listener: fn(&Forgotten)) {
    LISTENER.set(listener).ok();
}

impl Lease {
    /// The same lease, which warns if it is dropped while it holds the lock.
    pub(crate) fn collectable(mut self) -> Self {
        self.collectable = true;
        self
    }

    /// Notes that something keeps this lease until it is released or lost, whatever the program drops.
    pub(crate) fn pin(&self) {
        let all = self.hold.holds.all();
        if self.level.is_open() && !self.pinned.swap(true, Ordering::Relaxed) {
            self.hold.pin(&all);
        }
    }

    /// Releases it as it is dropped; warns if that frees a lock that is held.
    pub(super) fn drop_forgotten(&self) {
        let held = self.state().holds();
        // An error says that it was released in between: nothing to do.
        let freed = self.release_level(|| None).unwrap_or(false);
        if held && freed {
            self.warn(None);
        }
    }

    /// Warns that the owner ended, which alone could release this lease. It stays held.
    pub(crate) fn owner_ended(&self, owner: &'static str) {
        if self.check().is_ok() {
            self.warn(Some(owner));
        }
    }

    fn warn(&self, owner: Option<&'static str>) {
        if !self.hold.forget() {
            return;
        }
        let lasted = self.hold.lasted();
        let (path, node) = (Escaped(self.path()), Escaped(self.hold.grant.node.as_str()));
        match owner {
            None => {
                tracing::warn!(%path, %node, ?lasted, "lock released: nothing refers to its lease any more");
            }
            Some(owner) => {
                tracing::warn!(%path, %node, ?lasted, owner, "lock stays held: its owner ended without releasing it");
            }
        }
        if let Some(listener) = LISTENER.get() {
            listener(&Forgotten { path: self.path().to_owned(), lasted, owner });
        }
    }
}
