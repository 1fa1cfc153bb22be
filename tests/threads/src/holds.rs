//! Tests of a hold: it is lost, released, checked and awaited by several threads at the same time.
//! A re-entrant hold has one *level* for each acquire.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use loom::thread;
use tokio::time::Instant;

use crate::config::lock_path::LockPath;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, ErrorKind, Result};
use crate::every_interleaving;
use crate::lease::hold::{Grant, HoldTable, Notice, Report};
use crate::lease::owner::Owner;
use crate::lease::request::AcquireRequest;
use crate::lease::state::LeaseState;
use crate::lease::{EnterOutcome, Lease};
use crate::metrics::recorder::{Recorder, WaitTimer};
use crate::queue::{Intent, Kind, NodeName};
use crate::runtime::clock::BootInstant;
use crate::runtime::fork::ForkGuard;
use crate::session::term::Term;

/// Longer than any test runs.
const DAY: Duration = Duration::from_hours(24);

/// Replaces the driver and counts the notices that it receives. It uses a lock of the standard
/// library, so loom does not test the driver.
#[derive(Default)]
struct Driver(std::sync::Mutex<Notices>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Notices {
    released: usize,
    expired: usize,
    listening: usize,
}

impl Report for Driver {
    fn report(&self, _: &Arc<str>, notice: Notice) -> Result<()> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Released { .. } => told.released += 1,
            Notice::Expired { .. } => told.expired += 1,
            Notice::WatchNode { .. } => told.listening += 1,
            Notice::HandedOn { .. }
            | Notice::Kept { .. }
            | Notice::Retaken { .. }
            | Notice::Transact { .. } => {}
        }
        Ok(())
    }

    fn no_answer(&self) -> Error {
        Error::client_closed()
    }

    fn heard_since(&self, _: Instant) -> bool {
        false
    }
}

/// A directory with one holder.
struct Scene {
    driver: Arc<Driver>,
    holds: Arc<HoldTable>,
    recorder: Arc<Recorder>,
    owner: Owner,
}

impl Scene {
    /// Creates a scene with a lease. If `runs` is false, the term of the lease has already ended,
    /// so the first check reports its loss.
    fn new(runs: bool) -> (Self, Lease) {
        let driver = Arc::<Driver>::default();
        let report: Arc<dyn Report> = Arc::clone(&driver) as _;
        let recorder = Arc::<Recorder>::default();
        let place = LockPath::new("", "/lock", "").expect("a path");
        let holds = Arc::new(HoldTable::new(place, ForkGuard::new(), Arc::clone(&recorder), report));
        let term = Term::new(if runs { 2 * DAY } else { Duration::ZERO }, 1);
        term.prove(BootInstant::now(), 1);
        let owner = Owner::new();
        let claim = AcquireRequest::new(owner.clone(), Kind::Exclusive, Some(WaitTimer::begin()));
        let grant = Grant { node: Self::node(), fencing_token: 7, session_id: 1, term: Arc::new(term) };
        let lease = holds.grant(claim, grant);
        (Self { driver, holds, recorder, owner }, lease)
    }

    fn node() -> NodeName {
        NodeName::parse("_c_0-lock-0000000001").expect("a node's name")
    }

    /// Acquires the lock again, which adds a level to the hold. Returns `None` if the owner no
    /// longer holds the lock and would have to wait in the queue.
    fn enter(&self) -> Option<Lease> {
        match self.holds.enter(self.owner.id(), Kind::Exclusive, Intent::Wait).expect("not refused") {
            EnterOutcome::Reentered(lease) => Some(lease),
            EnterOutcome::Queues(_) => None,
        }
    }

    fn told(&self) -> Notices {
        *self.driver.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn losses(&self) -> u64 {
        self.recorder.snapshot(None).losses
    }

    fn holds(&self) -> bool {
        self.holds.owned_by(self.owner.id(), Kind::Exclusive)
    }
}

/// Returns `true` if one state can be followed by the other.
fn may_follow(earlier: LeaseState, later: LeaseState) -> bool {
    earlier == later || earlier.holds()
}

/// A hold is lost, released and checked at the same time. It ends once. After a thread has seen the
/// end, the hold never appears as held.
pub fn loss_against_release_against_check() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(true);
        let lease = Arc::new(lease);
        let (holds, ours) = (Arc::clone(&scene.holds), Arc::clone(&lease));
        let loser = thread::spawn(move || holds.lose(&Scene::node(), LossReason::SessionExpired));
        let releaser = thread::spawn(move || ours.release_in_background().is_ok());
        let (first, second) = (lease.state(), lease.state());
        assert!(may_follow(first, second), "{first} and then {second}");
        let (lost, released) = (loser.join().expect("no panic"), releaser.join().expect("no panic"));
        let last = lease.state();
        assert!(released && may_follow(second, last) && !last.holds(), "{second} and then {last}");
        assert_eq!(lease.release_in_background().map_err(|error| error.kind()), Err(ErrorKind::NotHeld));
        // Either the loss or the release has ended the hold. The driver receives a release only if
        // there was no loss.
        assert_eq!((scene.told().released, scene.losses()), if lost { (0, 1) } else { (1, 0) });
        assert!(!scene.holds());
    });
}

/// Two threads release the same lease. One of them succeeds, and the driver receives one notice.
pub fn a_lease_is_released_once() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(true);
        let lease = Arc::new(lease);
        let ours = Arc::clone(&lease);
        let other = thread::spawn(move || ours.release_in_background().is_ok());
        let here = lease.release_in_background().is_ok();
        assert!(here != other.join().expect("no panic"), "both, or neither, have released it");
        assert_eq!((scene.told().released, scene.holds()), (1, false));
    });
}

/// Two threads release the two levels of one hold. Only the later release frees the lock.
pub fn two_threads_release_levels() {
    every_interleaving(|| {
        let (scene, outer) = Scene::new(true);
        let inner = scene.enter().expect("a level more");
        let other = thread::spawn(move || inner.release_in_background().is_ok());
        let here = outer.release_in_background().is_ok();
        assert!(here && other.join().expect("no panic"));
        assert_eq!((scene.told().released, scene.holds()), (1, false));
        assert_eq!(outer.state(), LeaseState::Released);
    });
}

/// An owner acquires the lock again while the last level of its hold is released. It either holds
/// the lock again or must queue. It never gets a lease of a lock that is already released.
pub fn re_entry_against_the_last_release() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(true);
        let releaser = thread::spawn(move || drop(lease));
        if let Some(again) = scene.enter() {
            assert_eq!((again.state(), scene.told().released), (LeaseState::Held, 0));
            releaser.join().expect("no panic");
            assert_eq!((again.state(), scene.told().released), (LeaseState::Held, 0));
            drop(again);
        } else {
            releaser.join().expect("no panic");
        }
        assert_eq!((scene.told().released, scene.holds()), (1, false));
    });
}

/// Several threads notice at the same time that the term of a hold has ended. The loss is counted
/// once, and the driver receives one notice.
pub fn an_end_by_the_clock_is_found_once() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(false);
        let lease = Arc::new(lease);
        let ours = Arc::clone(&lease);
        let other = thread::spawn(move || ours.state());
        let (here, there) = (lease.state(), other.join().expect("no panic"));
        assert_eq!([here, there], [LeaseState::Lost(LossReason::TermEnded); 2]);
        assert_eq!((scene.told().expired, scene.losses()), (1, 1));
    });
}

/// Suspension, resumption and loss: a lost lease stays lost.
pub fn a_loss_is_final() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(true);
        scene.holds.suspend(&Scene::node(), true);
        let holds = Arc::clone(&scene.holds);
        let resumes = thread::spawn(move || holds.suspend(&Scene::node(), false));
        let holds = Arc::clone(&scene.holds);
        let loses = thread::spawn(move || holds.lose(&Scene::node(), LossReason::NodeDeleted));
        let (first, second) = (lease.state(), lease.state());
        let went_back = first == LeaseState::Held && second == LeaseState::Suspended;
        assert!(may_follow(first, second) && !went_back, "{first} and then {second}");
        resumes.join().expect("no panic");
        assert!(loses.join().expect("no panic"));
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::NodeDeleted));
    });
}

pub fn a_loss_wakes_the_waiting_thread() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(true);
        let holds = Arc::clone(&scene.holds);
        let loses = thread::spawn(move || holds.lose(&Scene::node(), LossReason::SessionExpired));
        assert_eq!(loom::future::block_on(lease.lost()), LossReason::SessionExpired);
        assert_eq!(scene.losses(), 1, "counted before anyone is told");
        assert!(loses.join().expect("no panic"));
    });
}

/// A thread that waits for the end of one level wakes up when that level is released, although the
/// other level and the hold continue.
pub fn a_release_wakes_the_thread_that_waits_for_a_level() {
    every_interleaving(|| {
        let (scene, outer) = Scene::new(true);
        let inner = Arc::new(scene.enter().expect("a level more"));
        let ours = Arc::clone(&inner);
        let releases = thread::spawn(move || ours.release_in_background().is_ok());
        assert_eq!(loom::future::block_on(inner.ended()), None);
        assert!(releases.join().expect("no panic"));
        assert_eq!(outer.state(), LeaseState::Held);
    });
}

pub fn a_request_to_give_up_wakes_the_listener() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(true);
        let holds = Arc::clone(&scene.holds);
        let asks = thread::spawn(move || holds.revoke(&Scene::node()));
        loom::future::block_on(lease.revoked());
        assert!(asks.join().expect("no panic"));
        assert!(scene.told().listening <= 1);
    });
}

/// One thread releases a lease, a second thread reads its state, and a third thread calls `ended`,
/// which moves the lease to shared memory. The lease never appears as held after its end, and the
/// lock is released once.
pub fn a_level_is_shared_while_it_ends() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(true);
        let lease = Arc::new(lease);
        let ours = Arc::clone(&lease);
        let shares = thread::spawn(move || drop(ours.ended()));
        let ours = Arc::clone(&lease);
        let releases = thread::spawn(move || ours.release_in_background().is_ok());
        let (first, second) = (lease.state(), lease.state());
        assert!(may_follow(first, second), "{first} and then {second}");
        shares.join().expect("no panic");
        assert!(releases.join().expect("no panic"));
        assert_eq!((lease.state(), scene.told().released), (LeaseState::Released, 1));
        assert_eq!(loom::future::block_on(lease.ended()), None);
    });
}
