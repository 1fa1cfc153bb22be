//! Limits the total length of the paths that a session watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum total length in bytes of all watched paths.
///
/// After a reconnection, the client crate sets all watches again. If their paths exceed 128 KiB, it
/// sends several requests with the same request number, and then treats the second reply as a
/// protocol error. So the connection is lost again and again, until the session is lost.
const LIMIT: usize = 120 * 1024;

fn limit() -> usize {
    #[cfg(feature = "_simulation")]
    if let Some(limit) = crate::runtime::simulation::watch_room() {
        return limit;
    }
    LIMIT
}

/// The budget of one session. All clones share one count.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchBudget(Arc<AtomicUsize>);

/// The part of the budget that is reserved for one watch. Dropping this value frees it.
#[derive(Debug)]
pub(crate) struct Reserved {
    room: WatchBudget,
    bytes: usize,
}

impl WatchBudget {
    /// Reserves budget for a watch on a path of this length. Returns `None` if too little budget is
    /// left.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reserved> {
        let add = |used| (used + bytes <= limit()).then_some(used + bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Reserved { room: self.clone(), bytes })
    }

    /// Returns `true` if more than half of the budget is used. The rest is reserved for waiters.
    pub(crate) fn is_half_used(&self) -> bool {
        self.0.load(Ordering::Relaxed) > limit() / 2
    }

    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.0.load(Ordering::Relaxed) + bytes <= limit()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_a_thousand_paths_and_again_when_they_are_dropped() {
        let room = WatchBudget::default();
        let mut all: Vec<_> = std::iter::from_fn(|| room.reserve(120)).collect();
        assert_eq!(all.len(), 1024);
        assert!(!room.fits(1) && room.clone().reserve(1).is_none());
        all.pop();
        assert!(room.fits(120) && !room.fits(121));
        all.truncate(513);
        assert!(room.is_half_used());
        all.pop();
        assert!(!room.is_half_used());
        drop(all);
        assert!(room.fits(LIMIT));
    }
}
