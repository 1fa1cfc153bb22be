//! The end of a hold: what a lease tells the driver when it is released, and what the driver tells the lease.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::lock_path::LockPath;
use crate::error::escape::Escaped;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, Result};
use crate::lease::hold::HoldIndex;
use crate::metrics::recorder::Recorder;
use crate::runtime::sync::{AtomicU8, OnceLock};
use crate::session::term::Term;

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
        Self(AtomicU8::new(self.0.load(Ordering::Acquire)))
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
    pub(crate) waiter: Option<ReleaseWaiter>,
    /// Whom to tell if the node turns out to be gone already. None for a claim that does not count as a hold.
    pub(crate) reporter: Option<LateLossReporter>,
}

/// A caller that waits until a node is deleted.
pub(crate) struct ReleaseWaiter {
    /// Told when the node is deleted; dropped when nothing is left to wait for.
    pub(crate) done: oneshot::Sender<()>,
    /// For how long it waits.
    pub(crate) until: Instant,
}

/// Who is told that a lock was gone when it was released (rule 12).
pub(crate) struct LateLossReporter {
    pub(crate) place: LockPath,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) level: Arc<Level>,
    pub(crate) term: Arc<Term>,
}

impl LateLossReporter {
    /// Counts, logs and tells the lease that the lock was gone: that somebody had deleted the node while it was held, or
    /// that the session ended before the server had acknowledged the release. The latter not if the term is over: until
    /// then nobody could have the lock, and the release did not have to be acknowledged any more.
    pub(crate) fn report(&self, node: &str, reason: LossReason) {
        let ended = match reason {
            LossReason::NodeDeleted => BROKEN,
            LossReason::SessionExpired if self.term.runs() => EXPIRED,
            _ => return,
        };
        // Counted before anyone is told.
        self.recorder.lost(reason);
        self.level.0.store(ended, Ordering::Release);
        let (path, node) = (Escaped(self.place.path()), Escaped(node));
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

/// The level of one lease: in the lease itself, until it is shared. Hardly anybody else looks at an inner level, which
/// lasts for no longer than a function call perhaps, so it allocates nothing.
///
/// It is shared, and it ends, only while the holds are borrowed: so nothing happens to what was in the lease after it
/// was copied. Whoever only looks needs to borrow nothing: what they find was so when they looked for a shared level.
#[derive(Debug, Default)]
pub(super) struct OwnLevel {
    own: Level,
    shared: OnceLock<Arc<Level>>,
}

impl OwnLevel {
    /// A level that was released.
    pub(super) fn over() -> Self {
        let level = Self::default();
        level.own.end();
        level
    }

    fn level(&self) -> &Level {
        self.shared.get().map_or(&self.own, |shared| shared)
    }

    /// For those that wait for its end, and for the driver when the lock is released.
    pub(super) fn share(&self, _: &HoldIndex) -> &Arc<Level> {
        self.shared.get_or_init(|| Arc::new(self.own.copy()))
    }

    #[cfg(test)]
    pub(super) fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// As [`Level::is_open`].
    pub(super) fn is_open(&self) -> bool {
        self.level().is_open()
    }

    /// As [`Level::end`].
    pub(super) fn end(&self, _: &HoldIndex) -> Option<bool> {
        self.level().end()
    }

    /// As [`Level::is_over`].
    pub(super) fn is_over(&self) -> bool {
        self.level().is_over()
    }

    /// As [`Level::end_lost`].
    pub(super) fn end_lost(&self, _: &HoldIndex) {
        self.level().end_lost();
    }

    /// As [`Level::late_loss`].
    pub(super) fn late_loss(&self) -> Option<LossReason> {
        self.level().late_loss()
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

    #[test]
    fn a_level_that_is_shared_goes_on_where_it_was() {
        let held = HoldIndex::default();
        let [open, ended, lost] = [(); 3].map(|()| OwnLevel::default());
        assert_eq!([&ended, &lost].map(|level| level.end(&held)), [Some(false); 2]);
        lost.end_lost(&held);
        let shared = [&open, &ended, &lost].map(|level| Arc::clone(level.share(&held)));
        let seen = shared.each_ref().map(|level| (level.is_open(), level.is_over()));
        assert_eq!(seen, [(true, false), (false, true), (false, false)]);
    }

    #[test]
    fn what_happens_to_a_level_after_it_was_shared_is_seen_on_both_sides() {
        let held = HoldIndex::default();
        let level = OwnLevel::default();
        let shared = Arc::clone(level.share(&held));
        shared.watch();
        assert_eq!((level.end(&held), level.end(&held)), (Some(true), None));
        assert!(shared.is_over() && level.is_over() && !level.is_open());
    }
}
