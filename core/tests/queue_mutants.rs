//! Simulates known mistakes of the queue, one at a time. The explorer must find each of them.
//!
//! The explorer finds no error in the real queue. This is evidence only if the explorer finds each
//! of these mistakes, and reports the harm that the mistake is known to do.

mod model;

use zklock::queue::Kind;

use self::model::attempt::Plan;
use self::model::explorer::{Budget, Grain, NOTHING, Scene};
use self::model::mutants::Mutant;

const UNOWNED: &[&str] = &["whose Stat is"];
const OUT_OF_PLACE: &[&str] = &["and not in the writer's place"];
/// Errors for a downgrade: the reader is not in the writer's position, or a later contender
/// overtakes it.
const DISPLACED: &[&str] = &["and not in the writer's place", "of its own"];
const BEHIND_ANOTHER: &[&str] = &["of another client"];
const OF_ITS_OWN: &[&str] = &["of its own"];
const BEHIND_SOMEBODY: &[&str] = &[", behind"];
const HELD_AT_ONCE: &[&str] = &["are held at once"];
const WITHOUT_A_NODE: &[&str] = &["which was deleted while it waited"];
const WITHOUT_A_TERM: &[&str] = &["without a term"];
const OF_AN_ENDED_SESSION: &[&str] = &["which went with its session", "are held at once"];
const LEFT: &[&str] = &["nodes are left", "for which nobody waits or holds"];
const WAITS_TO_TRY: &[&str] = &["which only tries"];
/// Two locks, requested in either order.
const OPPOSITE: &[Plan] = &[Plan::Locks(&[0, 1]), Plan::Locks(&[1, 0])];

const NO_REASON: &[&str] = &["no contender blocked it"];
const NOT_FREE: &[&str] = &["for which the lock was taken"];
const NEVER_ALL: &[&str] = &["never gets all"];
const NOT_ALL: &[&str] = &["has 0 of", "has 1 of"];
const KEPT: &[&str] = &["of an attempt that is over", "for an attempt that is over"];
const TOO_MANY: &[&str] = &["more are held than there are permits"];
/// Errors for a try that joins the queue without a listing, and then waits.
const WAITS_OR_QUEUES: &[&str] = &["which only tries", "for which the lock was taken"];
const STILL_HELD: &[&str] = &["still holds through"];

/// Returns a small world in which this bug can do harm, and the error messages that are accepted.
/// The explorer must report one of them.
#[allow(clippy::too_many_lines, reason = "one arm per bug")]
fn scene(mutant: Mutant) -> (Scene, &'static [&'static str]) {
    let replaced = Budget { joins: 1, enters: 1, cuts: 1, replacements: 1, ..NOTHING };
    let deleted = Budget { joins: 1, enters: 1, deletions: 1, ..NOTHING };
    let downgraded = Budget { joins: 1, enters: 1, downgrades: 2, cuts: 1, ..NOTHING };
    let own_downgrades = Budget { joins: 2, own_downgrades: 1, ..NOTHING };
    let downgrade = Scene { kinds: &[Kind::Write], ..Scene::read_write(1, 0, own_downgrades) };
    let left = Budget { joins: 1, leaves: 1, cuts: 1, ..NOTHING };
    let try_down = Budget { joins: 1, downgrade_tries: 1, ..NOTHING };
    let locks = |budget| Scene::several(2, 2, OPPOSITE, budget);
    let local = |plans, budget| Scene::several(1, 2, plans, budget);
    let permits = |budget| Scene::several(2, 2, &[Plan::Permits(2, 2)], budget);
    let timed = Scene::new(1, 1, Budget { joins: 1, enters: 1, ticks: 5, ..NOTHING });
    let wrap = i32::MAX.unsigned_abs();
    match mutant {
        Mutant::Curator604 => (Scene::new(1, 1, replaced), UNOWNED),
        Mutant::UuidKept => (Scene::new(1, 1, replaced), BEHIND_ANOTHER),
        Mutant::Curator498 => (Scene::new(1, 0, Budget { enters: 0, ..replaced }), UNOWNED),
        Mutant::Curator621 => (downgrade, OUT_OF_PLACE),
        Mutant::DowngradeDoesNotBlock => (downgrade, DISPLACED),
        Mutant::UncheckedPlace => {
            let budget = Budget { joins: 1, own_downgrades: 1, enters: 1, deletions: 1, ..NOTHING };
            (Scene { kinds: &[Kind::Write], ..Scene::read_write(1, 1, budget) }, HELD_AT_ONCE)
        }
        Mutant::MissingSync | Mutant::TornPair => (Scene::new(1, 0, left), LEFT),
        Mutant::FinalSync => (Scene::new(1, 0, Budget { joins: 1, cuts: 1, deposals: 1, ..NOTHING }), LEFT),
        Mutant::LeaveWithoutDelete => {
            (Scene::new(1, 1, Budget { joins: 1, enters: 1, leaves: 1, ..NOTHING }), LEFT)
        }
        Mutant::NoDowngradeException | Mutant::Tombstones => (Scene::new(1, 1, downgraded), BEHIND_ANOTHER),
        Mutant::NoRelist => (Scene::new(1, 1, Budget { cuts: 1, ..deleted }), WITHOUT_A_NODE),
        Mutant::NoOwnNodeWatch => (Scene::new(1, 1, deleted), WITHOUT_A_NODE),
        Mutant::GrantWithoutTerm => {
            (Scene::new(1, 0, Budget { joins: 1, pauses: 1, ..NOTHING }), WITHOUT_A_TERM)
        }
        Mutant::AdjacentAcrossSessions => {
            (Scene::new(1, 0, Budget { joins: 2, expiries: 1, ..NOTHING }), WITHOUT_A_TERM)
        }
        Mutant::TokenFromSequence => (Scene::new(1, 0, Budget { joins: 1, ..NOTHING }), UNOWNED),
        Mutant::WrongPredecessor => (Scene::new(2, 0, Budget { joins: 2, ..NOTHING }), LEFT),
        Mutant::SeedKept => {
            (Scene::new(1, 1, Budget { joins: 2, enters: 1, crashes: 1, ..NOTHING }), BEHIND_ANOTHER)
        }
        Mutant::BlindHeartbeat => {
            let budget = Budget { joins: 1, cuts: 1, adoptions: 1, expiries: 1, ..NOTHING };
            (Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, OF_AN_ENDED_SESSION)
        }
        Mutant::UnguardedHold => {
            (Scene::new(1, 0, Budget { joins: 1, guards: 1, deletions: 1, ..NOTHING }), STILL_HELD)
        }
        Mutant::NoLook => {
            (Scene::new(1, 1, Budget { joins: 1, enters: 1, misses: 1, looks: 1, ..NOTHING }), LEFT)
        }
        Mutant::DeleteOnce => (Scene::new(1, 0, Budget { joins: 1, throttles: 1, ..NOTHING }), LEFT),
        Mutant::PatientTry => (Scene::new(1, 1, Budget { tries: 1, enters: 1, ..NOTHING }), WAITS_TO_TRY),
        Mutant::PatientDowngrade => {
            let budget = Budget { joins: 1, downgrade_tries: 1, enters: 1, deletions: 1, ..NOTHING };
            (Scene { kinds: &[Kind::Write], ..Scene::read_write(1, 1, budget) }, WAITS_OR_QUEUES)
        }
        Mutant::NoReaderWatch => {
            let budget = Budget { joins: 1, enters: 1, deletions: 1, ..NOTHING };
            (Scene { kinds: &[Kind::Read], ..Scene::read_write(1, 1, budget) }, WITHOUT_A_NODE)
        }
        Mutant::ChildWatchKept => {
            let budget = Budget { joins: 2, cuts: 1, ..NOTHING };
            let scene = Scene { kinds: &[Kind::Permit(1)], ..Scene::new(2, 0, budget) };
            (Scene { grain: Grain::Coarse, ..scene }, LEFT)
        }
        Mutant::UnansweredOverlooked => {
            let budget = Budget { joins: 2, cuts: 1, put_offs: 1, ..NOTHING };
            (Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, OF_ITS_OWN)
        }
        Mutant::OldListing => {
            // A holder, two waiters that a listing has shown, a foreign contender, and one waiter
            // that no listing has shown.
            let budget = Budget { joins: 4, enters: 1, ..NOTHING };
            (Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, BEHIND_SOMEBODY)
        }
        Mutant::NoLookAhead => {
            let budget = Budget { joins: 4, ..NOTHING };
            (Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, LEFT)
        }
        Mutant::ProbeBelieved | Mutant::ShortProbe => {
            let crowd = Scene::new(1, 4, Budget { joins: 1, deletions: 3, ..NOTHING });
            (Scene { queued: 4, grain: Grain::Coarse, ..crowd }, BEHIND_ANOTHER)
        }
        Mutant::FarBelieved => {
            let scene = Scene::new(1, 1, Budget { cuts: 1, ..deleted });
            (Scene { far_beyond: 0, grain: Grain::Coarse, ..scene }, WITHOUT_A_NODE)
        }
        Mutant::CheckIgnored => {
            let budget = Budget { joins: 1, enters: 1, misses: 1, looks: 1, ..NOTHING };
            (Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, LEFT)
        }
        Mutant::NoCheckAfterReconnection | Mutant::DeferralKept => {
            let budget = Budget { joins: 1, enters: 1, cuts: 1, misses: 1, ..NOTHING };
            (Scene { far_beyond: 0, grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, LEFT)
        }
        Mutant::BlindTry => (Scene::new(1, 1, Budget { tries: 1, enters: 1, ..NOTHING }), NOT_FREE),
        Mutant::HastyTry => (Scene::new(1, 0, Budget { tries: 1, ..NOTHING }), NO_REASON),
        Mutant::TryLeavesNode => (Scene::new(1, 1, Budget { tries: 1, enters: 1, ..NOTHING }), LEFT),
        Mutant::TryForgotten => {
            (Scene::new(1, 1, Budget { tries: 1, enters: 1, expiries: 1, ..NOTHING }), WAITS_TO_TRY)
        }
        Mutant::TryBehindItself => {
            (Scene { kinds: &[Kind::Write], ..Scene::read_write(1, 0, try_down) }, NO_REASON)
        }
        Mutant::UnsortedLocks => (locks(Budget { acquires: 2, ..NOTHING }), NEVER_ALL),
        Mutant::MembersKept => (locks(Budget { acquires: 1, cancels: 1, ..NOTHING }), KEPT),
        Mutant::LossUnchecked => (locks(Budget { acquires: 1, pauses: 1, ..NOTHING }), NOT_ALL),
        Mutant::LaterKept => {
            (local(OPPOSITE, Budget { acquires: 2, deletions: 1, guards: 1, ..NOTHING }), NEVER_ALL)
        }
        Mutant::NoTurn => (permits(Budget { acquires: 2, ..NOTHING }), NEVER_ALL),
        Mutant::TurnForgotten => {
            (local(&[Plan::Permits(2, 2)], Budget { acquires: 2, pauses: 1, ..NOTHING }), NEVER_ALL)
        }
        Mutant::TurnKept => (permits(Budget { acquires: 1, ..NOTHING }), KEPT),
        Mutant::PartKept => (permits(Budget { acquires: 1, cancels: 1, ..NOTHING }), KEPT),
        Mutant::OthersUncounted => (permits(Budget { acquires: 2, ..NOTHING }), TOO_MANY),
        // With `Grain::Fine`, time can pass between the execution of a request and its reply.
        Mutant::TermFromAnswer => (Scene { grain: Grain::Fine, ..timed }, OF_AN_ENDED_SESSION),
        Mutant::LongTerm | Mutant::ClockIgnored => (Scene { grain: Grain::Coarse, ..timed }, HELD_AT_ONCE),
        Mutant::StringOrder => {
            let scene = Scene::new(2, 0, Budget { joins: 2, ..NOTHING });
            (Scene { next_sequence: wrap, ..scene }, BEHIND_SOMEBODY)
        }
    }
}

#[test]
fn every_mutant_is_caught() {
    assert_eq!(
        Mutant::ALL.len(),
        Mutant::ClockIgnored as usize + 1,
        "the list ends with the last one there is"
    );
    find(Mutant::ALL.into_iter());
}

#[allow(clippy::print_stdout, reason = "tells how each was caught")]
fn find(mutants: impl Iterator<Item = Mutant>) {
    let mut survivors = Vec::new();
    for mutant in mutants {
        let (scene, harms) = scene(mutant);
        match (Scene { mutant: Some(mutant), ..scene }).explore() {
            Err(found) if harms.iter().any(|harm| found.problem.contains(harm)) => {
                println!("{mutant:?}: {} ({} states)", found.problem, found.seen);
            }
            Err(found) => survivors.push(format!("{mutant:?} does other harm: {}", found.problem)),
            Ok(found) => survivors.push(format!("{mutant:?} is not caught in {} states", found.states)),
        }
    }
    assert!(survivors.is_empty(), "{survivors:#?}");
}

#[test]
fn scenes_without_a_mutant_have_no_error() {
    for mutant in Mutant::ALL {
        let found = scene(mutant).0.explore();
        assert!(found.is_ok(), "without {mutant:?}: {found:?}");
    }
}
