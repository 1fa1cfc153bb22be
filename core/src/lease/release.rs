//! Messages between a lease and the driver when a hold ends.

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

/// The state of one lease of a hold (a *level*). A future that waits for the loss of the lease
/// shares the level. After the release, the driver shares it too, to record a late loss.
///
/// A level changes only while the index of holds is locked, so all threads see its changes in the
/// same order.
#[derive(Debug, Default)]
pub(crate) struct Level(AtomicU8);

const OPEN: u8 = 0;
/// Released while the lock was held.
const RELEASED: u8 = 1;
/// Released after the lock was lost.
const LOST: u8 = 2;
/// Released, but the release found that another client had deleted the node.
const BROKEN: u8 = 3;
/// Released, but the session ended before the server acknowledged the release.
const EXPIRED: u8 = 4;
/// Open, and a future waits for its end.
const WATCHED: u8 = 5;

impl Level {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), OPEN | WATCHED)
    }

    /// Records that a future waits for the end of this level. Has no effect after the release.
    pub(crate) fn watch(&self) {
        if self.0.load(Ordering::Acquire) == OPEN {
            self.0.store(WATCHED, Ordering::Release);
        }
    }

    /// Ends the level. Returns `true` if a waiting future must be woken, or `None` if the level has
    /// already ended.
    pub(crate) fn end(&self) -> Option<bool> {
        let before = self.0.load(Ordering::Acquire);
        matches!(before, OPEN | WATCHED).then(|| {
            self.0.store(RELEASED, Ordering::Release);
            before == WATCHED
        })
    }

    /// Returns a copy with the current state.
    pub(crate) fn copy(&self) -> Self {
        Self(AtomicU8::new(self.0.load(Ordering::Acquire)))
    }

    /// Returns `true` if the lease was released while the lock was held. A later loss does not
    /// affect this lease.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), RELEASED | BROKEN | EXPIRED)
    }

    /// Notes that the lock was lost before the level ended.
    pub(crate) fn end_lost(&self) {
        self.0.store(LOST, Ordering::Release);
    }

    /// Returns the reason for the loss, if only the release revealed it.
    pub(crate) fn late_loss(&self) -> Option<LossReason> {
        match self.0.load(Ordering::Acquire) {
            BROKEN => Some(LossReason::NodeDeleted),
            EXPIRED => Some(LossReason::SessionExpired),
            _ => None,
        }
    }
}

/// The details of a release that the driver carries out.
pub(crate) struct Release {
    /// The caller that waits until the node is deleted, if there is one.
    pub(crate) waiter: Option<ReleaseWaiter>,
    /// Reports a loss that the release reveals. `None` for an internal hold, such as the mutex of a
    /// semaphore.
    pub(crate) reporter: Option<LateLossReporter>,
}

/// A caller that waits until a node is deleted.
pub(crate) struct ReleaseWaiter {
    /// Receives a message when the node is deleted. Dropped without a message if the client will
    /// never learn whether it is.
    pub(crate) done: oneshot::Sender<()>,
    /// Time at which the caller stops waiting.
    pub(crate) until: Instant,
}

/// Reports a loss that only the release of the lock revealed (rule 12).
pub(crate) struct LateLossReporter {
    pub(crate) place: LockPath,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) level: Arc<Level>,
    pub(crate) term: Arc<Term>,
}

impl LateLossReporter {
    /// Counts and logs the loss, and records it in the lease.
    ///
    /// There is a loss if another client deleted the node while the lock was held, or if the
    /// session ended within its term, before the server acknowledged the release. After the term,
    /// the end of the session completes the release and is not a loss.
    pub(crate) fn report(&self, node: &str, reason: LossReason) {
        let ended = match reason {
            LossReason::NodeDeleted => BROKEN,
            LossReason::SessionExpired if self.term.runs() => EXPIRED,
            _ => return,
        };
        // Count the loss before any waiter learns of it.
        self.recorder.lost(reason);
        self.level.0.store(ended, Ordering::Release);
        let (path, node) = (Escaped(self.place.path()), Escaped(node));
        tracing::warn!(%path, %node, %reason, "lock lost: detected during its release");
    }
}

/// A future for a release that has begun. If it is dropped, the release continues in the
/// background.
///
/// The type has the size of two machine words. The future of an async block is larger: moving it
/// would take longer than the release of a re-entry itself.
#[derive(Debug)]
pub(crate) enum Releasing {
    /// There is nothing to wait for.
    Over,
    Refused(Box<Error>),
    /// Waits for the server's acknowledgement. Also completes if the sender is dropped, because an
    /// acknowledgement can no longer arrive.
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

/// The level (state) of one lease. It is stored in the lease until it must be shared, and then in
/// an `Arc`. This saves an allocation for most short re-entries.
///
/// A level moves to the `Arc`, and ends, only while the index of holds is locked. After the move,
/// the copy in the lease no longer changes. A thread can read the level without that mutex: the
/// result was correct when the thread checked for the `Arc`.
#[derive(Debug, Default)]
pub(super) struct OwnLevel {
    own: Level,
    shared: OnceLock<Arc<Level>>,
}

impl OwnLevel {
    /// Creates a level that is released.
    pub(super) fn over() -> Self {
        let level = Self::default();
        level.own.end();
        level
    }

    fn level(&self) -> &Level {
        self.shared.get().map_or(&self.own, |shared| shared)
    }

    /// Moves the level into an `Arc`, so that futures and the driver can share it.
    pub(super) fn share(&self, _: &HoldIndex) -> &Arc<Level> {
        self.shared.get_or_init(|| Arc::new(self.own.copy()))
    }

    #[cfg(test)]
    pub(super) fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// See [`Level::is_open`].
    pub(super) fn is_open(&self) -> bool {
        self.level().is_open()
    }

    /// See [`Level::end`].
    pub(super) fn end(&self, _: &HoldIndex) -> Option<bool> {
        self.level().end()
    }

    /// See [`Level::is_over`].
    pub(super) fn is_over(&self) -> bool {
        self.level().is_over()
    }

    /// See [`Level::end_lost`].
    pub(super) fn end_lost(&self, _: &HoldIndex) {
        self.level().end_lost();
    }

    /// See [`Level::late_loss`].
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
