//! The unfinished releases in one lock directory. This module notifies the waiting callers, and
//! detects locks that were lost before their release was complete.

use tokio::sync::oneshot;

use crate::driver::mailbox::DirectoryId;
use crate::driver::timers::{Alarm, AlarmKey, Timers};
use crate::error::loss_reason::LossReason;
use crate::lease::release::{LateLossReporter, Release};
use crate::queue::rare::Empty;
use crate::queue::{NodeName, SmallMap, Ticket};

/// A hold that was released and whose node still exists.
struct PendingRelease {
    /// The waiting caller, and the alarm that ends its wait.
    waiter: Option<(oneshot::Sender<()>, AlarmKey)>,
    /// Reports to the program that the lock was lost before it was released. `None` after this
    /// report.
    reporter: Option<LateLossReporter>,
    /// `true` if a request to delete the node was sent.
    tried: bool,
}

#[derive(Default)]
pub(in crate::driver) struct Releases {
    /// Boxed, because most directories have no unfinished release.
    by_node: SmallMap<NodeName, Box<PendingRelease>>,
    /// The first request to delete each node. An entry is removed when the server replies.
    first_deletes: SmallMap<Ticket, NodeName>,
    /// Nodes of lost holds whose notice of release is still in the inbox, each with the reason for
    /// the loss.
    lost: SmallMap<NodeName, LossReason>,
}

impl Empty for Releases {
    const EMPTY: &'static Self =
        &Self { by_node: SmallMap::Few(None), first_deletes: SmallMap::Few(None), lost: SmallMap::Few(None) };

    fn is_unused(&self) -> bool {
        self.by_node.is_empty() && self.first_deletes.is_empty() && self.lost.is_empty()
    }
}

impl Releases {
    pub(in crate::driver) fn awaits_any(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Handles the release of a hold's last lease.
    pub(in crate::driver) fn begin(
        &mut self,
        directory: DirectoryId,
        node: &NodeName,
        release: Release,
        timers: &mut Timers,
    ) {
        let Release { waiter, reporter } = release;
        let waiter = waiter.map(|waiter| {
            let end = Alarm::Released(directory, node.clone());
            (waiter.done, timers.set(waiter.until, end))
        });
        let release = PendingRelease { waiter, reporter, tried: false };
        self.by_node.insert(node.clone(), Box::new(release));
    }

    pub(in crate::driver) fn end(&mut self, node: &NodeName, timers: &mut Timers) {
        let waiter = self.by_node.remove(node).and_then(|releasing| releasing.waiter);
        if let Some((done, alarm)) = waiter {
            timers.cancel(&[alarm]);
            done.send(()).ok();
        }
    }

    /// Ends the wait of a caller whose timeout for the release has expired. The release continues.
    pub(in crate::driver) fn stop_waiting(&mut self, node: &NodeName) {
        if let Some(releasing) = self.by_node.get_mut(node) {
            releasing.waiter = None;
        }
    }

    /// Records a request to delete this node. Only the first such request can show that another
    /// client deleted the node. If a later request finds no node, our own first request might have
    /// been carried out although its reply was lost.
    pub(in crate::driver) fn deleting(&mut self, ticket: Ticket, node: &NodeName) {
        let Some(releasing) = self.by_node.get_mut(node) else { return };
        if !std::mem::replace(&mut releasing.tried, true) {
            self.first_deletes.insert(ticket, node.clone());
        }
    }

    /// Handles the reply to a request to delete a node. `missing` is `true` if the node did not
    /// exist, although the session was alive and its term had not ended.
    pub(in crate::driver) fn delete_answered(&mut self, ticket: Ticket, missing: bool) {
        let node = self.first_deletes.remove(&ticket).filter(|_| missing);
        if let Some(node) = node {
            self.lost(&node, LossReason::NodeDeleted);
        }
    }

    /// Reports the loss of a hold whose release is not completed yet.
    pub(in crate::driver) fn lost(&mut self, node: &NodeName, reason: LossReason) {
        if let Some(reporter) = self.by_node.get_mut(node).and_then(|releasing| releasing.reporter.take()) {
            reporter.report(node.as_str(), reason);
        }
    }

    /// Records that a hold was lost while the notice of its release is still in the inbox.
    pub(in crate::driver) fn lost_meanwhile(&mut self, node: &NodeName, reason: LossReason) {
        if matches!(reason, LossReason::NodeDeleted | LossReason::SessionExpired) {
            self.lost.insert(node.clone(), reason);
        }
    }

    /// Handles the late release of a hold that was already lost.
    pub(in crate::driver) fn late_release(&mut self, node: &NodeName, release: &Release) {
        if let (Some(reason), Some(reporter)) = (self.lost.remove(node), &release.reporter) {
            reporter.report(node.as_str(), reason);
        }
    }

    /// Handles the end of the session. If the session's term has not ended yet, each lock whose
    /// release is not acknowledged counts as lost. Later replies to requests to delete nodes are
    /// ignored.
    pub(in crate::driver) fn end_session(&mut self) {
        self.first_deletes.clear();
        for (node, releasing) in self.by_node.iter_mut() {
            if let Some(reporter) = releasing.reporter.take() {
                reporter.report(node.as_str(), LossReason::SessionExpired);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::config::lock_path::LockPath;
    use crate::lease::release::{Level, ReleaseWaiter};
    use crate::metrics::recorder::Recorder;
    use crate::runtime::clock::BootInstant;
    use crate::session::term::Term;

    const LIMIT: Duration = Duration::from_millis(20);

    struct Fixture {
        node: NodeName,
        releases: Releases,
        timers: Timers,
        recorder: Arc<Recorder>,
        level: Arc<Level>,
        term: Arc<Term>,
        released: oneshot::Receiver<()>,
    }

    impl Fixture {
        fn new() -> Self {
            let mut fixture = Self::on_its_way().0;
            let (done, released) = oneshot::channel();
            let release = fixture.release(done);
            let Fixture { node, releases, timers, .. } = &mut fixture;
            releases.begin(DirectoryId::default(), node, release, timers);
            Self { released, ..fixture }
        }

        /// Like `new`, but the driver has not received the release yet.
        fn on_its_way() -> (Self, Release) {
            let (done, released) = oneshot::channel();
            let fixture = Self {
                node: NodeName::parse("lock-0000000001").unwrap(),
                releases: Releases::default(),
                timers: Timers::default(),
                recorder: Arc::default(),
                level: Arc::default(),
                term: Arc::new(Term::new(Duration::from_secs(60), 1)),
                released,
            };
            fixture.term.prove(BootInstant::now(), 1);
            let release = fixture.release(done);
            (fixture, release)
        }

        fn release(&self, done: oneshot::Sender<()>) -> Release {
            let place = LockPath::new("", "/lock", "").unwrap();
            let (recorder, level) = (Arc::clone(&self.recorder), Arc::clone(&self.level));
            let waiter = ReleaseWaiter { done, until: Instant::now() + LIMIT };
            let term = Arc::clone(&self.term);
            Release {
                waiter: Some(waiter),
                reporter: Some(LateLossReporter { place, recorder, level, term }),
            }
        }

        fn delete(&mut self, ticket: u64, missing: bool) {
            self.releases.deleting(Ticket(ticket), &self.node);
            self.releases.delete_answered(Ticket(ticket), missing);
        }

        fn losses(&self) -> u64 {
            self.recorder.snapshot(None).losses
        }
    }

    #[tokio::test]
    async fn a_caller_waits_until_the_moment_that_it_named() {
        let began = Instant::now();
        let mut fixture = Fixture::new();
        assert!(fixture.timers.due().is_none());
        fixture.timers.next().await;
        assert!(began.elapsed() >= LIMIT);
        let Some(Alarm::Released(_, node)) = fixture.timers.due() else { panic!("no alarm") };
        assert!(fixture.released.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        fixture.releases.stop_waiting(&node);
        assert!(fixture.released.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        // A later delete still detects the loss.
        fixture.delete(1, true);
        assert_eq!(fixture.level.late_loss(), Some(LossReason::NodeDeleted));
    }

    #[tokio::test]
    async fn the_alarm_goes_with_the_node() {
        let mut fixture = Fixture::new();
        fixture.releases.end(&fixture.node, &mut fixture.timers);
        assert_eq!(fixture.released.try_recv(), Ok(()));
        tokio::time::sleep(LIMIT).await;
        assert!(fixture.timers.due().is_none());
    }

    #[tokio::test]
    async fn a_node_that_the_first_delete_does_not_find_was_broken() {
        let mut fixture = Fixture::new();
        fixture.delete(1, true);
        assert_eq!(fixture.level.late_loss(), Some(LossReason::NodeDeleted));
        assert_eq!(fixture.losses(), 1);
        fixture.delete(2, true);
        assert_eq!(fixture.losses(), 1);
    }

    #[tokio::test]
    async fn a_node_that_is_known_to_be_gone_when_its_release_begins_was_broken() {
        let mut fixture = Fixture::new();
        fixture.releases.lost(&fixture.node, LossReason::NodeDeleted);
        fixture.releases.end(&fixture.node, &mut fixture.timers);
        assert_eq!(fixture.level.late_loss(), Some(LossReason::NodeDeleted));
        assert_eq!((fixture.released.try_recv(), fixture.losses()), (Ok(()), 1));
    }

    #[tokio::test]
    async fn a_second_delete_tells_nothing() {
        let mut fixture = Fixture::new();
        fixture.delete(1, false);
        fixture.delete(2, true);
        assert_eq!(fixture.level.late_loss(), None);
        assert_eq!(fixture.losses(), 0);
    }

    #[tokio::test]
    async fn a_delete_of_a_session_that_is_over_tells_nothing() {
        let mut fixture = Fixture::new();
        fixture.term = Arc::default();
        let release = fixture.release(oneshot::channel().0);
        fixture.releases.begin(DirectoryId::default(), &fixture.node, release, &mut fixture.timers);
        fixture.releases.deleting(Ticket(1), &fixture.node);
        fixture.releases.end_session();
        fixture.releases.delete_answered(Ticket(1), true);
        assert_eq!((fixture.level.late_loss(), fixture.losses()), (None, 0));
    }

    #[tokio::test]
    async fn a_session_that_ends_within_its_term_before_the_release_is_acknowledged_was_ended_by_somebody() {
        for deletes in 0..3 {
            let mut fixture = Fixture::new();
            for ticket in 0..deletes {
                fixture.delete(ticket, false);
            }
            fixture.releases.end_session();
            assert_eq!(fixture.level.late_loss(), Some(LossReason::SessionExpired));
            fixture.releases.end_session();
            assert_eq!(fixture.losses(), 1);
        }
        let mut fixture = Fixture::new();
        fixture.delete(1, false);
        fixture.releases.end(&fixture.node, &mut fixture.timers);
        fixture.releases.end_session();
        assert_eq!((fixture.level.late_loss(), fixture.losses()), (None, 0));
    }

    #[tokio::test]
    async fn a_session_that_ends_while_the_release_is_on_its_way_was_ended_by_somebody() {
        let (mut fixture, release) = Fixture::on_its_way();
        fixture.releases.lost_meanwhile(&fixture.node, LossReason::SessionExpired);
        fixture.releases.late_release(&fixture.node, &release);
        assert_eq!(fixture.level.late_loss(), Some(LossReason::SessionExpired));
        // A closed client and an ended term are not reported, because the client itself caused the
        // loss.
        for reason in [LossReason::ClientClosed, LossReason::TermEnded] {
            let (mut fixture, release) = Fixture::on_its_way();
            fixture.releases.lost_meanwhile(&fixture.node, reason);
            assert!(!fixture.releases.awaits_any());
            fixture.releases.late_release(&fixture.node, &release);
            assert_eq!(fixture.level.late_loss(), None);
        }
    }

    #[tokio::test]
    async fn a_node_that_is_deleted_while_the_release_is_on_its_way_was_broken() {
        let (mut fixture, release) = Fixture::on_its_way();
        fixture.releases.lost_meanwhile(&fixture.node, LossReason::NodeDeleted);
        assert!(fixture.releases.awaits_any());
        fixture.releases.late_release(&fixture.node, &release);
        assert_eq!(fixture.level.late_loss(), Some(LossReason::NodeDeleted));
        assert!(!fixture.releases.awaits_any());
        // A hold that was lost for another reason is not reported as a late loss.
        let (mut fixture, release) = Fixture::on_its_way();
        fixture.releases.late_release(&fixture.node, &release);
        assert_eq!(fixture.level.late_loss(), None);
    }
}
