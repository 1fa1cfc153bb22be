//! The end of a hold: what a lease tells the driver when it is released, and what the driver tells the lease.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::lease_state::LossReason;
use crate::meter::Meter;
use crate::path::Place;
use crate::shown::Shown;
use crate::term::Term;

/// One level of a hold, as its lease and those that wait for its loss see it, and in the end the driver. It is watched
/// and it ends while the holds are borrowed, which orders that; the driver has it only after its end.
#[derive(Debug, Default)]
pub(crate) struct Level(AtomicU8);

const OPEN: u8 = 0;
/// Released while the lock was held.
const RELEASED: u8 = 1;
/// Released after the lock was lost.
const LOST: u8 = 2;
/// Released while the lock seemed to be held; somebody had deleted the node.
const BROKEN: u8 = 3;
/// Released while the lock seemed to be held; the session ended before the server had acknowledged it.
const EXPIRED: u8 = 4;
/// Open, and somebody waits for its end.
const WATCHED: u8 = 5;

impl Level {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), OPEN | WATCHED)
    }

    /// Somebody waits for its end from now on, and finds it over if it is.
    pub(crate) fn watch(&self) {
        if self.0.load(Ordering::Acquire) == OPEN {
            self.0.store(WATCHED, Ordering::Release);
        }
    }

    /// Ends the level. Returns whether somebody waits for that, and is to be told; `None` if it was over before.
    pub(crate) fn end(&self) -> Option<bool> {
        let before = self.0.load(Ordering::Acquire);
        matches!(before, OPEN | WATCHED).then(|| {
            self.0.store(RELEASED, Ordering::Release);
            before == WATCHED
        })
    }

    /// Another one, as this one is now.
    pub(crate) fn copy(&self) -> Self {
        Self(self.0.load(Ordering::Acquire).into())
    }

    /// Whether it was released while the lock was held: what happens to the lock later is no concern of its lease.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), RELEASED | BROKEN | EXPIRED)
    }

    /// The lock was lost before the level ended.
    pub(crate) fn end_lost(&self) {
        self.0.store(LOST, Ordering::Release);
    }

    /// The loss that only the release found out.
    pub(crate) fn late_loss(&self) -> Option<LossReason> {
        match self.0.load(Ordering::Acquire) {
            BROKEN => Some(LossReason::NodeDeleted),
            EXPIRED => Some(LossReason::SessionExpired),
            _ => None,
        }
    }
}

/// How the driver is to end a hold whose last level was released.
pub(crate) struct Release {
    /// The caller that waits for the end of the node, if one does.
    pub(crate) waiter: Option<Releaser>,
    /// Whom to tell if the node turns out to be gone already. None for a claim that does not count as a hold.
    pub(crate) judge: Option<Judge>,
}

/// A caller that waits until a node is deleted.
pub(crate) struct Releaser {
    /// Told when the node is deleted; dropped when nothing is left to wait for.
    pub(crate) done: oneshot::Sender<()>,
    /// For how long it waits.
    pub(crate) until: Instant,
}

/// Who is told that a lock was gone when it was released (rule 12).
pub(crate) struct Judge {
    pub(crate) place: Place,
    pub(crate) meter: Arc<Meter>,
    pub(crate) level: Arc<Level>,
    pub(crate) term: Arc<Term>,
}

impl Judge {
    /// Counts, logs and tells the lease that the lock was gone: that somebody had deleted the node while it was held, or
    /// that the session ended before the server had acknowledged the release. The latter not if the term is over: until
    /// then nobody could have the lock, and the release did not have to be acknowledged any more.
    pub(crate) fn tell(&self, node: &str, reason: LossReason) {
        let ended = match reason {
            LossReason::NodeDeleted => BROKEN,
            LossReason::SessionExpired if self.term.runs() => EXPIRED,
            _ => return,
        };
        // Counted before anyone is told.
        self.meter.lost(reason);
        self.level.0.store(ended, Ordering::Release);
        let (path, node) = (Shown(self.place.path()), Shown(node));
        tracing::warn!(%path, %node, %reason, "lock lost: found out when it was released");
    }
}

/// A release that has begun; dropped, it goes on in the background. Two words, unlike what the compiler would make of an
/// async block: the end of an inner level is awaited for no longer than it takes to move that.
#[derive(Debug)]
pub(crate) enum Releasing {
    /// There is nothing to wait for.
    Over,
    Refused(Box<Error>),
    /// Until the server has acknowledged it; whoever would say so gives up when there is nothing left to wait for.
    Sent(oneshot::Receiver<()>),
}

impl From<Result<()>> for Releasing {
    fn from(end: Result<()>) -> Self {
        end.map_or_else(|error| Self::Refused(Box::new(error)), |()| Self::Over)
    }
}

impl Future for Releasing {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut *self {
            Self::Over => Poll::Ready(Ok(())),
            Self::Refused(error) => Poll::Ready(Err((**error).clone())),
            Self::Sent(acknowledged) => Pin::new(acknowledged).poll(context).map(|_| Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_ends_once() {
        let level = Level::default();
        assert!(level.is_open() && !level.is_over());
        assert_eq!((level.end(), level.end()), (Some(false), None));
        assert!(!level.is_open() && level.is_over() && level.late_loss().is_none());
    }

    #[test]
    fn whoever_waits_for_the_end_of_a_level_is_told_of_it_or_finds_it() {
        let level = Level::default();
        level.watch();
        assert!(level.is_open() && !level.is_over());
        assert_eq!((level.end(), level.end()), (Some(true), None));
        level.watch();
        assert!(!level.is_open() && level.is_over());
    }

    #[test]
    fn a_level_that_ends_after_the_loss_belongs_to_the_loss() {
        let level = Level::default();
        level.end().unwrap();
        level.end_lost();
        assert!(!level.is_open() && !level.is_over());
    }
}
