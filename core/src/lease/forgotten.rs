//! Warnings for leases that a program forgets.
//!
//! A lease is forgotten if a garbage collector drops it while the lock is held, or if its owner
//! (for example a thread or task) ends without releasing it. A garbage collector drops leases at
//! unpredictable times, perhaps while the program still uses the protected resource. The library
//! logs a warning, at most once for each hold. Rust code determines where a lease is dropped, so
//! there is no warning in Rust.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Lease;
use crate::error::escape::Escaped;

/// A lock whose lease was forgotten. Its `Display` text is a message for the developers of the
/// program.
#[derive(Debug)]
pub struct Forgotten {
    path: String,
    /// Time for which the lock had been held.
    lasted: Duration,
    /// The kind of the owner, such as a thread, if the owner has ended. `None` for a dropped lease.
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

/// The listener for forgotten locks. Any thread can call it. No internal mutex is locked during the
/// call.
static LISTENER: OnceLock<fn(&Forgotten)> = OnceLock::new();

/// Registers a listener for forgotten locks, in addition to the log. Only the first call has an
/// effect.
pub fn on_forgotten(listener: fn(&Forgotten)) {
    LISTENER.set(listener).ok();
}

impl Lease {
    /// Makes this lease log a warning if it is dropped while it holds the lock.
    pub(crate) fn collectable(mut self) -> Self {
        self.collectable = true;
        self
    }

    /// Records that the library keeps this lease until it is released or lost, even if the program
    /// drops it.
    pub(crate) fn pin(&self) {
        let all = self.hold.holds.all();
        if self.level.is_open() && !self.pinned.swap(true, Ordering::Relaxed) {
            self.hold.pin(&all);
        }
    }

    /// Releases the dropped lease. Logs a warning if this frees a held lock.
    pub(super) fn drop_forgotten(&self) {
        let held = self.state().holds();
        // An error means that another thread has released the lease since the check.
        let freed = self.release_level(|| None).unwrap_or(false);
        if held && freed {
            self.warn(None);
        }
    }

    /// Logs a warning that the owner ended without releasing this lease. The lock stays held,
    /// because no other owner can release it.
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
