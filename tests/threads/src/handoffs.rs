//! Tests of hand-offs inside a client: the holder releases the lock at the same time as a timeout,
//! a loss, a transaction or a downgrade.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use loom::thread;
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::Instant;

use crate::config::lock_path::LockPath;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, Result};
use crate::every_interleaving;
use crate::lease::hold::{Grant, HoldId, HoldTable, Notice, Report};
use crate::lease::owner::Owner;
use crate::lease::request::AcquireRequest;
use crate::lease::state::LeaseState;
use crate::lease::{EnterOutcome, Lease};
use crate::metrics::recorder::WaitTimer;
use crate::queue::{Intent, JoinId, Kind, NodeName};
use crate::runtime::clock::BootInstant;
use crate::runtime::fork::ForkGuard;
use crate::session::term::Term;

/// Longer than any test runs.
const DAY: Duration = Duration::from_hours(24);

/// Replaces the driver and records in order which notices the threads send to it. It uses a lock of
/// the standard library, so loom does not test the driver.
#[derive(Default)]
struct Driver(std::sync::Mutex<Vec<Told>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Released,
    Kept,
    HandedOn(JoinId),
    Expired,
}

impl Report for Driver {
    fn report(&self, _: &Arc<str>, notice: Notice) -> Result<()> {
        let told = match notice {
            Notice::Released { .. } => Told::Released,
            Notice::HandedOn { join, .. } => Told::HandedOn(join),
            Notice::Expired { .. } => Told::Expired,
            Notice::Kept { .. } => Told::Kept,
            Notice::WatchNode { .. } | Notice::Retaken { .. } | Notice::Transact { .. } => return Ok(()),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        Ok(())
    }

    fn no_answer(&self) -> Error {
        Error::client_closed()
    }

    fn heard_since(&self, _: Instant) -> bool {
        false
    }
}

/// A client's queue for one lock: one owner holds the lock, and others wait.
pub(crate) struct Scene {
    driver: Arc<Driver>,
    pub(crate) holds: Arc<HoldTable>,
    pub(crate) owner: Owner,
    waiting: Vec<Receiver<Result<Lease>>>,
}

impl Scene {
    fn new(kind: Kind, waiters: u64) -> (Self, Lease) {
        Self::with(kind, waiters, |owner| Self::claim(owner, kind))
    }

    fn claim(owner: &Owner, kind: Kind) -> AcquireRequest {
        let claim = AcquireRequest::new(owner.clone(), kind, Some(WaitTimer::begin()));
        AcquireRequest { cohort: 10, ..claim }
    }

    /// Creates a scene in which one owner holds with this claim.
    pub(crate) fn with(kind: Kind, waiters: u64, claim: impl Fn(&Owner) -> AcquireRequest) -> (Self, Lease) {
        let driver = Arc::<Driver>::default();
        let report: Arc<dyn Report> = Arc::clone(&driver) as _;
        let place = LockPath::new("", "/lock", "").expect("a path");
        let holds = Arc::new(HoldTable::new(place, ForkGuard::new(), Arc::default(), report));
        let term = Term::new(2 * DAY, 1);
        term.prove(BootInstant::now(), 1);
        let owner = Owner::new();
        let grant = Grant { node: Self::node(), fencing_token: 7, session_id: 1, term: Arc::new(term) };
        let lease = holds.grant(claim(&owner), grant);
        let waiting = (1..=waiters).map(|number| {
            let (reply, answer) = oneshot::channel();
            holds.enqueue_local(JoinId(number), &Self::claim(&Owner::new(), kind), reply);
            answer
        });
        let waiting = waiting.collect();
        (Self { driver, holds, owner, waiting }, lease)
    }

    pub(crate) fn node() -> NodeName {
        NodeName::parse("_c_0-lock-0000000001").expect("a node's name")
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.driver.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the lease that a waiter has received.
    fn lease(&mut self, waiter: usize) -> Option<Lease> {
        self.waiting[waiter].try_recv().ok().map(|granted| granted.expect("a lease"))
    }
}

/// A waiter times out while the holder releases the lock. The waiter is either removed from the
/// queue or gets the lock.
pub fn a_hand_off_against_a_timeout() {
    every_interleaving(|| {
        let (mut scene, lease) = Scene::new(Kind::Exclusive, 1);
        let releases = thread::spawn(move || drop(lease));
        let reply = scene.holds.dequeue_local(JoinId(1));
        releases.join().expect("no panic");
        let granted = scene.lease(0);
        assert!(reply.is_some() != granted.is_some(), "it has two outcomes, or none");
        let expected = if granted.is_some() { Told::HandedOn(JoinId(1)) } else { Told::Released };
        assert_eq!(scene.told(), [expected]);
        if let Some(granted) = granted {
            assert_eq!(
                (granted.state(), granted.handoffs(), granted.fencing_token()),
                (LeaseState::Held, 1, 7)
            );
            drop(granted);
            assert_eq!(scene.told(), [Told::HandedOn(JoinId(1)), Told::Released]);
        }
    });
}

/// The first of two waiters leaves the queue while the holder releases the lock. If it leaves in
/// time, the lock is handed on to the second waiter, otherwise to the first.
pub fn a_hand_off_against_a_waiter_that_leaves() {
    every_interleaving(|| {
        let (mut scene, lease) = Scene::new(Kind::Exclusive, 2);
        let holds = Arc::clone(&scene.holds);
        let goes = thread::spawn(move || holds.dequeue_local(JoinId(1)).is_some());
        drop(lease);
        let gone = goes.join().expect("no panic");
        let first = scene.lease(0);
        assert!(gone != first.is_some());
        drop(first);
        let second = scene.lease(1).expect("it is the next");
        assert_eq!(second.handoffs(), if gone { 1 } else { 2 });
        drop(second);
        assert_eq!(scene.told().last(), Some(&Told::Released));
        assert_eq!(scene.told().iter().filter(|told| **told == Told::Released).count(), 1);
    });
}

/// A node is lost while its lock is handed on. If the waiter has already received the lock, it
/// loses the lock. No owner holds the lock afterwards.
pub fn a_hand_off_against_a_loss() {
    every_interleaving(|| {
        let (mut scene, lease) = Scene::new(Kind::Exclusive, 1);
        let holds = Arc::clone(&scene.holds);
        let loses = thread::spawn(move || holds.lose(&Scene::node(), LossReason::NodeDeleted));
        drop(lease);
        let lost = loses.join().expect("no panic");
        assert!(lost, "somebody held");
        match scene.lease(0) {
            Some(second) => {
                assert_eq!(second.state(), LeaseState::Lost(LossReason::NodeDeleted));
                assert_eq!(scene.told(), [Told::HandedOn(JoinId(1))]);
            }
            // The waiter stays in the line.
            None => assert!(scene.holds.dequeue_local(JoinId(1)).is_some() && scene.told().is_empty()),
        }
        assert!(!scene.holds.owned_by(scene.owner.id(), Kind::Exclusive));
    });
}

/// The hold limit of the first hold expires while the lock is handed on. The second hold must not
/// end.
pub fn a_late_end_of_the_first_hold_spares_the_second() {
    every_interleaving(|| {
        let (mut scene, lease) = Scene::new(Kind::Exclusive, 1);
        let holds = Arc::clone(&scene.holds);
        // The driver does this when the timer of the first hold fires.
        let first = HoldId { node: Scene::node(), handoffs: 0 };
        let ends = thread::spawn(move || holds.lose_unless_handed_on(&first, LossReason::HeldTooLong));
        drop(lease);
        let lost = ends.join().expect("no panic");
        match scene.lease(0) {
            Some(second) => assert!(lost.is_none() && second.state() == LeaseState::Held),
            None => assert!(scene.holds.dequeue_local(JoinId(1)).is_some()),
        }
    });
}

/// An owner has acquired its lock twice (re-entry), and two threads release the two leases. Only
/// the second release hands the lock on.
pub fn two_threads_release_levels_of_a_hold_that_is_handed_on() {
    every_interleaving(|| {
        let (mut scene, outer) = Scene::new(Kind::Exclusive, 1);
        let again = scene.holds.enter(scene.owner.id(), Kind::Exclusive, Intent::Wait).expect("not refused");
        let EnterOutcome::Reentered(inner) = again else { panic!("it holds") };
        let other = thread::spawn(move || drop(inner));
        drop(outer);
        other.join().expect("no panic");
        assert_eq!(scene.told(), [Told::HandedOn(JoinId(1))]);
        assert!(scene.lease(0).is_some_and(|second| second.state() == LeaseState::Held));
    });
}

/// A writer asks for the read lock while another thread releases the write lock. Only one of two
/// results is possible: the owner gets the read lock at the writer's position, or the write lock is
/// handed on and the owner waits for the read lock like any other reader.
pub fn a_hand_off_against_a_downgrade() {
    every_interleaving(|| {
        let (mut scene, lease) = Scene::new(Kind::Write, 1);
        let releases = thread::spawn(move || drop(lease));
        let entered = scene.holds.enter(scene.owner.id(), Kind::Read, Intent::Wait).expect("not refused");
        releases.join().expect("no panic");
        let in_place = matches!(entered, EnterOutcome::Queues(Intent::Downgrade { .. }));
        assert!(in_place != scene.lease(0).is_some(), "a reader and a writer have one place");
    });
}

/// A waiter joins the client's queue while the holder releases the lock. Either the waiter receives
/// the lock, or the lock becomes free and the driver finds the waiter in the queue.
pub fn a_hand_off_against_a_waiter_that_joins() {
    every_interleaving(|| {
        let (scene, lease) = Scene::new(Kind::Exclusive, 0);
        let holds = Arc::clone(&scene.holds);
        let (reply, mut answer) = oneshot::channel();
        let joins = thread::spawn(move || {
            let claim =
                AcquireRequest { cohort: 10, ..AcquireRequest::new(Owner::new(), Kind::Exclusive, None) };
            holds.enqueue_local(JoinId(1), &claim, reply);
        });
        drop(lease);
        joins.join().expect("no panic");
        let waits = scene.holds.first_local().is_some();
        assert!(waits != answer.try_recv().is_ok());
        assert_eq!(scene.told()[0], if waits { Told::Released } else { Told::HandedOn(JoinId(1)) });
    });
}
