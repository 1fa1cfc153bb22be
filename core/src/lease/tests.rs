//! Tests for the notices that leases send to the driver, and for the state that leases report.

use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use crate::config::lock_path::LockPath;
use crate::lease::hold::Report;
use crate::lease::request::Grace;
use crate::lease::*;
use crate::queue::NodeName;
use crate::runtime::clock::BootInstant;
use crate::runtime::fork::ForkGuard;
use crate::session::term::Term;

/// A fake driver that records the notices.
#[derive(Default)]
struct Driver {
    releases: Mutex<Vec<Release>>,
    listens: Mutex<usize>,
}

impl Report for Driver {
    fn report(&self, _: &Arc<str>, notice: Notice) -> Result<()> {
        match notice {
            Notice::Released { release, .. } => self.releases.lock().unwrap().push(release),
            Notice::WatchNode { .. } => *self.listens.lock().unwrap() += 1,
            _ => {}
        }
        Ok(())
    }

    fn no_answer(&self) -> Error {
        Error::client_closed()
    }

    fn heard_since(&self, _: tokio::time::Instant) -> bool {
        false
    }
}

#[test]
fn the_last_release_of_a_hold_that_is_lost_is_told_if_it_has_a_grace() {
    for (grace, told) in [(Duration::ZERO, 0), (Duration::from_secs(1), 1)] {
        let directory = Directory::new();
        let claim = AcquireRequest {
            grace: Grace::of(grace),
            ..AcquireRequest::new(directory.owner.clone(), Kind::Exclusive, None)
        };
        let lease = directory.grant_for(claim.clone(), Duration::from_secs(60));
        let Ok(EnterOutcome::Reentered(inner)) =
            directory.holds.enter(directory.owner.id(), Kind::Exclusive, Intent::Wait)
        else {
            panic!("a level")
        };
        assert!(directory.holds.lose(&node(), LossReason::TermEnded));
        lease.release_in_background().unwrap();
        assert_eq!(directory.driver.releases.lock().unwrap().len(), 0);
        drop(inner);
        assert_eq!(directory.driver.releases.lock().unwrap().len(), told, "a grace of {grace:?}");
    }
}

#[test]
fn a_grace_is_taken_off_the_term() {
    let directory = Directory::new();
    let request = AcquireRequest::new(directory.owner.clone(), Kind::Exclusive, None);
    let claim = AcquireRequest { grace: Grace::of(Duration::from_secs(10)), ..request };
    let lease = directory.grant_for(claim.clone(), Duration::from_secs(60));
    assert!(lease.remaining() <= Duration::from_secs(20) && lease.state() == LeaseState::Held);
    let lease = directory.grant_for(claim, Duration::from_secs(20));
    assert_eq!(lease.state(), LeaseState::Lost(LossReason::TermEnded));
    assert_eq!(lease.remaining(), Duration::ZERO);
}

struct Directory {
    driver: Arc<Driver>,
    holds: Arc<HoldTable>,
    owner: Owner,
}

fn node() -> NodeName {
    NodeName::parse("lock-0000000001").unwrap()
}

impl Directory {
    fn new() -> Self {
        let driver = Arc::new(Driver::default());
        let place = LockPath::new("", "/lock", "").unwrap();
        let holds = HoldTable::new(place, ForkGuard::new(), Arc::default(), Arc::clone(&driver) as _);
        Self { driver, holds: Arc::new(holds), owner: Owner::new() }
    }

    fn grant(&self, kind: Kind, timeout: Duration) -> Lease {
        self.grant_for(AcquireRequest::new(self.owner.clone(), kind, None), timeout)
    }

    fn grant_for(&self, claim: AcquireRequest, timeout: Duration) -> Lease {
        let term = Term::new(timeout, 1);
        term.prove(BootInstant::now(), 1);
        let grant = Grant { node: node(), fencing_token: 1, session_id: 1, term: Arc::new(term) };
        self.holds.grant(claim, grant)
    }

    fn enter(&self, kind: Kind) -> Result<EnterOutcome> {
        self.holds.enter(self.owner.id(), kind, Intent::Wait)
    }

    fn releases(&self) -> usize {
        self.driver.releases.lock().unwrap().len()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_driver_is_told_of_the_last_level_s_end_and_once() {
    let directory = Directory::new();
    let first = directory.grant(Kind::Exclusive, MINUTE);
    let Ok(EnterOutcome::Reentered(second)) = directory.enter(Kind::Exclusive) else { panic!("its owner's") };
    first.release_in_background().unwrap();
    assert_eq!(first.release_in_background().unwrap_err().kind(), ErrorKind::NotHeld);
    assert_eq!((first.state(), second.state()), (LeaseState::Released, LeaseState::Held));
    assert_eq!(first.check().unwrap_err().kind(), ErrorKind::NotHeld);
    drop(first);
    assert_eq!(directory.releases(), 0);
    drop(second);
    assert_eq!(directory.releases(), 1);
    assert!(matches!(directory.enter(Kind::Exclusive), Ok(EnterOutcome::Queues(Intent::Wait))));
}

#[test]
fn only_the_same_owner_enters_and_a_lost_hold_admits_no_one() {
    let directory = Directory::new();
    let lease = directory.grant(Kind::Exclusive, MINUTE);
    let other = directory.holds.enter(OwnerId::new(), Kind::Exclusive, Intent::Try);
    assert!(matches!(other, Ok(EnterOutcome::Queues(Intent::Try))));
    directory.holds.lose(&node(), LossReason::NodeDeleted);
    assert!(matches!(directory.enter(Kind::Exclusive), Ok(EnterOutcome::Queues(_))));
    assert_eq!(lease.loss_reason(), Some(LossReason::NodeDeleted));
}

#[test]
fn a_reader_is_refused_the_write_lock_and_a_writer_goes_down() {
    let directory = Directory::new();
    let reader = directory.grant(Kind::Read, MINUTE);
    let refused = directory.enter(Kind::Write).err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::UpgradeRefused));
    drop(reader);
    let _writer = directory.grant(Kind::Write, MINUTE);
    let down = directory.enter(Kind::Read);
    assert!(matches!(
        down,
        Ok(EnterOutcome::Queues(Intent::Downgrade { writer, tries: false })) if *writer == node()
    ));
    let tried = directory.holds.enter(directory.owner.id(), Kind::Read, Intent::Try);
    assert!(matches!(tried, Ok(EnterOutcome::Queues(intent)) if intent.only_tries()));
}

#[tokio::test]
async fn a_release_waits_until_the_end_of_the_term_at_most() {
    for (timeout, most) in [
        (Timeout::Forever, MINUTE / 2),
        (Timeout::For(MINUTE), MINUTE / 2),
        (Timeout::For(Duration::from_secs(1)), Duration::from_secs(1)),
    ] {
        let directory = Directory::new();
        let lease = directory.grant(Kind::Exclusive, MINUTE);
        let latest = Instant::now() + most;
        assert!(lease.begin_release(timeout).unwrap().is_some());
        let release = directory.driver.releases.lock().unwrap().pop().unwrap();
        let until = release.waiter.expect("somebody waits").until;
        assert!(until <= Instant::now() + most && until + Duration::from_secs(1) > latest, "{timeout:?}");
    }
    let directory = Directory::new();
    let lease = directory.grant(Kind::Exclusive, MINUTE);
    assert!(lease.begin_release(Timeout::Try).unwrap().is_none());
    assert!(directory.driver.releases.lock().unwrap().pop().unwrap().waiter.is_none());
    // Without a term, there is nothing to wait for.
    let directory = Directory::new();
    let lease = directory.grant(Kind::Exclusive, Duration::ZERO);
    assert!(lease.begin_release(Timeout::Forever).unwrap().is_none());
}

#[tokio::test]
async fn a_release_waits_no_longer_than_its_lock_may_be_held() {
    let directory = Directory::new();
    let second = Duration::from_secs(1);
    let claim = AcquireRequest {
        max_hold: Some(second),
        ..AcquireRequest::new(directory.owner.clone(), Kind::Exclusive, None)
    };
    let lease = directory.grant_for(claim, MINUTE);
    assert!(lease.begin_release(Timeout::Forever).unwrap().is_some());
    let release = directory.driver.releases.lock().unwrap().pop().unwrap();
    assert!(release.waiter.expect("somebody waits").until <= Instant::now() + second);
}

#[test]
fn a_release_before_the_loss_stays_a_release_and_one_after_it_a_loss() {
    let directory = Directory::new();
    let early = directory.grant(Kind::Exclusive, MINUTE);
    let Ok(EnterOutcome::Reentered(late)) = directory.enter(Kind::Exclusive) else { panic!("its owner's") };
    early.release_in_background().unwrap();
    directory.holds.lose(&node(), LossReason::SessionExpired);
    late.release_in_background().unwrap();
    let lost = LeaseState::Lost(LossReason::SessionExpired);
    assert_eq!((early.state(), late.state()), (LeaseState::Released, lost));
    assert_eq!(poll(early.ended()), Poll::Ready(None));
    assert_eq!(poll(late.ended()), Poll::Ready(Some(LossReason::SessionExpired)));
    assert_eq!(late.remaining(), Duration::ZERO);
    assert_eq!(directory.releases(), 0, "there is no node to delete");
}

#[test]
fn an_inner_level_that_nobody_waits_for_shares_nothing_and_one_that_is_waited_for_tells() {
    let directory = Directory::new();
    let outer = directory.grant(Kind::Exclusive, MINUTE);
    let levels = [(); 2].map(|()| match directory.enter(Kind::Exclusive) {
        Ok(EnterOutcome::Reentered(lease)) => lease,
        _ => panic!("its owner's"),
    });
    let [alone, watched] = &levels;
    let ended = watched.ended();
    for lease in &levels {
        lease.check().unwrap();
        assert_eq!(poll(lease.release()).map(|released| released.is_ok()), Poll::Ready(true));
        assert_eq!(poll(lease.release()).map(|again| again.unwrap_err().code()), Poll::Ready("NOT_HELD"));
    }
    assert_eq!([alone, watched].map(|lease| lease.level.is_shared()), [false, true]);
    assert_eq!([poll(ended), poll(alone.ended())], [Poll::Ready(None); 2]);
    assert!(outer.check().is_ok());
}

#[test]
fn whoever_waits_for_the_end_of_a_level_while_another_thread_ends_it_hears_of_it() {
    let directory = Directory::new();
    let _outer = directory.grant(Kind::Exclusive, MINUTE);
    for _ in 0..500 {
        let Ok(EnterOutcome::Reentered(inner)) = directory.enter(Kind::Exclusive) else {
            panic!("its owner's")
        };
        let ended = std::thread::scope(|scope| {
            let waits = scope.spawn(|| inner.ended());
            inner.release_in_background().unwrap();
            waits.join().unwrap()
        });
        assert_eq!(poll(ended), Poll::Ready(None));
    }
}

#[test]
fn who_listens_for_a_request_has_the_node_watched_and_hears_of_an_earlier_one() {
    let directory = Directory::new();
    let lease = directory.grant(Kind::Exclusive, MINUTE);
    assert!(poll(lease.revoked()).is_pending());
    assert_eq!(*directory.driver.listens.lock().unwrap(), 1);
    assert!(directory.holds.revoke(&node()));
    assert!(poll(lease.revoked()).is_ready());
    assert_eq!(*directory.driver.listens.lock().unwrap(), 1, "nothing is left to watch for");
    assert_eq!(lease.state(), LeaseState::Held);
    let revoked = lease.revoked();
    lease.release_in_background().unwrap();
    assert!(poll(revoked).is_pending(), "a lease that is released is asked for nothing");
}

#[tokio::test]
async fn whoever_waits_hears_of_the_end_of_a_level_of_a_request_and_of_the_loss() {
    let directory = Directory::new();
    let first = directory.grant(Kind::Exclusive, MINUTE);
    let Ok(EnterOutcome::Reentered(second)) = directory.enter(Kind::Exclusive) else { panic!("its owner's") };
    let waits = [&first, &second].map(|lease| tokio::spawn(lease.ended()));
    let asked = tokio::spawn(first.revoked());
    tokio::task::yield_now().await;
    let [lost, released] = waits;
    let soon = Duration::from_secs(10);
    second.release_in_background().unwrap();
    assert_eq!(tokio::time::timeout(soon, released).await.expect("told").unwrap(), None);
    directory.holds.revoke(&node());
    tokio::time::timeout(soon, asked).await.expect("told").unwrap();
    assert!(!lost.is_finished());
    directory.holds.lose(&node(), LossReason::NodeDeleted);
    let lost = tokio::time::timeout(soon, lost).await.expect("told").unwrap();
    assert_eq!(lost, Some(LossReason::NodeDeleted));
}
