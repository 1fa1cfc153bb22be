//! Tests of a node that the client keeps after a release, while no owner holds the lock. One thread
//! keeps or reuses the node. At the same time, the driver deletes it, it is lost, or another thread
//! reuses it.

use std::sync::Arc;

use loom::thread;

use crate::error::loss_reason::LossReason;
use crate::every_interleaving;
use crate::handoffs::{Scene, Told};
use crate::lease::hold::{HoldId, HoldTable};
use crate::lease::owner::Owner;
use crate::lease::request::AcquireRequest;
use crate::lease::state::LeaseState;
use crate::lease::{EnterOutcome, Lease};
use crate::metrics::recorder::WaitTimer;
use crate::queue::{Access, Intent, Kind, Naming};

fn claim(owner: &Owner) -> AcquireRequest {
    let claim = AcquireRequest::new(owner.clone(), Kind::Exclusive, Some(WaitTimer::begin()));
    AcquireRequest { linger: 60_000, ..claim }
}

/// Creates a scene in which an owner holds a lock whose node can be kept.
fn held() -> (Scene, Lease) {
    let (scene, lease) = Scene::with(Kind::Exclusive, 0, claim);
    assert!(scene.holds.open_access());
    scene.holds.set_access(Access::AnyThread);
    (scene, lease)
}

/// Creates a scene with a kept node.
fn kept() -> Scene {
    let (scene, lease) = held();
    drop(lease);
    assert_eq!(scene.told(), [Told::Kept]);
    scene
}

fn take(holds: &Arc<HoldTable>) -> Option<Lease> {
    holds.take_again(&claim(&Owner::new()), Naming::Curator, Access::AnyThread)
}

/// The driver gives up all kept nodes while the holder releases the lock. The driver receives
/// either the node, which it must delete, or a notice of the release.
pub fn a_release_against_the_end_of_keeping() {
    every_interleaving(|| {
        let (scene, lease) = held();
        let releases = thread::spawn(move || drop(lease));
        let given_up = scene.holds.close_access();
        releases.join().expect("no panic");
        let expected = if given_up.is_empty() { Told::Released } else { Told::Kept };
        assert_eq!(scene.told(), [expected]);
        assert!(take(&scene.holds).is_none() && !scene.holds.keeps_any());
    });
}

/// The driver gives up the kept node while a thread reuses it to acquire the lock. Only one of them
/// gets the node.
pub fn a_take_against_the_end_of_keeping() {
    every_interleaving(|| {
        let scene = kept();
        let holds = Arc::clone(&scene.holds);
        let takes = thread::spawn(move || take(&holds));
        let given_up = scene.holds.close_access();
        let taken = takes.join().expect("no panic");
        assert!(taken.is_some() == given_up.is_empty(), "nobody has the node, or two have it");
        drop(taken);
        assert!(!scene.holds.keeps_any(), "a node that was taken is not kept again once that is over");
    });
}

/// The driver learns that another client might wait while a thread takes the kept node to acquire
/// the lock. Either the thread gets the node, or the driver can delete it for the waiter.
pub fn a_take_against_a_possible_waiter() {
    every_interleaving(|| {
        let scene = kept();
        let holds = Arc::clone(&scene.holds);
        let takes = thread::spawn(move || take(&holds));
        scene.holds.set_access(Access::Driver);
        let taken = takes.join().expect("no panic");
        assert!(taken.is_some() != scene.holds.keeps_any());
        assert!(take(&scene.holds).is_none());
    });
}

/// Two threads take the node: one of them gets it.
pub fn two_threads_take_a_node() {
    every_interleaving(|| {
        let scene = kept();
        let holds = Arc::clone(&scene.holds);
        let takes = thread::spawn(move || take(&holds));
        let ours = take(&scene.holds);
        let theirs = takes.join().expect("no panic");
        assert!(ours.is_some() != theirs.is_some(), "two hold, or none does");
        let lease = ours.or(theirs).expect("one of them");
        assert_eq!((lease.handoffs(), lease.fencing_token()), (1, 7));
    });
}

/// The kept node is lost while a thread takes it to acquire the lock. The thread either does not
/// get the lock or loses it again.
pub fn a_take_against_a_loss() {
    every_interleaving(|| {
        let scene = kept();
        let holds = Arc::clone(&scene.holds);
        let loses = thread::spawn(move || holds.lose(&Scene::node(), LossReason::NodeDeleted));
        let taken = take(&scene.holds);
        assert!(loses.join().expect("no panic"), "it was held or kept");
        if let Some(lease) = taken {
            assert_eq!(lease.state(), LeaseState::Lost(LossReason::NodeDeleted));
        }
        assert!(!scene.holds.keeps_any());
    });
}

/// The hold limit of the first hold expires late, when the node is already kept or reused. This
/// affects neither the kept node nor the second hold.
pub fn a_late_end_of_the_first_hold_spares_the_node() {
    every_interleaving(|| {
        let (scene, lease) = held();
        let holds = Arc::clone(&scene.holds);
        let first = HoldId { node: Scene::node(), handoffs: 0 };
        let ends = thread::spawn(move || holds.lose_unless_handed_on(&first, LossReason::HeldTooLong));
        drop(lease);
        let second = take(&scene.holds);
        let lost = ends.join().expect("no panic");
        match second {
            Some(second) => assert!(lost.is_none() && second.state() == LeaseState::Held),
            None => assert_eq!(lost, Some(true)),
        }
    });
}

/// The owner acquires the lock again while its only lease is released. Either the hold continues,
/// or the node is kept.
pub fn a_re_entry_against_a_release_that_keeps_the_node() {
    every_interleaving(|| {
        let (scene, lease) = held();
        let releases = thread::spawn(move || drop(lease));
        let entered =
            scene.holds.enter(scene.owner.id(), Kind::Exclusive, Intent::Wait).expect("not refused");
        releases.join().expect("no panic");
        match entered {
            EnterOutcome::Reentered(lease) => {
                assert!(lease.state() == LeaseState::Held && !scene.holds.keeps_any());
            }
            EnterOutcome::Queues(_) => assert!(scene.holds.keeps_any()),
        }
    });
}
