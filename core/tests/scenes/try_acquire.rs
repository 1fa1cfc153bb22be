//! Scenes with tries (acquires that do not wait). Each try completes and leaves no node. It fails
//! only if the lock was taken, and creates a node only if the lock was free (rules 14 and 21).

use zklock::queue::Kind;

use super::model::explorer::{Budget, Grain, NOTHING, Scene};
use super::play;

/// One of two clients sends a try, while a waiting contender may leave the queue.
#[test]
fn a_try_that_races_a_leave() {
    let budget = Budget { joins: 1, tries: 1, leaves: 1, ..NOTHING };
    play(Scene::new(2, 0, budget), 9_000);
}

/// The replies to the try come from a lagging server, or belong to another session.
#[test]
fn a_try_a_cut_and_a_lost_session() {
    let budget = Budget { tries: 1, enters: 1, leaves: 1, cuts: 1, expiries: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 60_000);
}

#[test]
fn a_try_a_cut_and_a_deposed_leader() {
    let budget = Budget { tries: 1, enters: 1, leaves: 1, cuts: 1, deposals: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 35_000);
}

#[test]
fn a_try_a_process_that_dies_and_a_server_that_throttles() {
    let budget = Budget { tries: 1, enters: 1, crashes: 1, throttles: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 2_000);
}

#[test]
fn a_try_beside_a_local_contender_and_a_session_that_is_replaced() {
    let budget = Budget { joins: 1, tries: 1, cuts: 1, replacements: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, 3_000);
}

#[test]
fn a_try_for_a_permit_and_a_cut() {
    let budget = Budget { joins: 1, tries: 1, cuts: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Permit(1)], grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 17_000);
}

/// The owner of the write lock tries to acquire the read lock, but has lost the write lock to a
/// foreign contender.
#[test]
#[ignore = "takes 4 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_try_to_go_down_a_cut_and_a_lost_session() {
    let budget = Budget { joins: 1, downgrade_tries: 1, enters: 1, cuts: 1, expiries: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Write], grain: Grain::Coarse, ..Scene::read_write(1, 1, budget) }, 140_000);
}

#[test]
fn a_try_to_go_down_beside_a_local_writer_that_leaves_and_an_operator() {
    let budget = Budget { joins: 2, downgrade_tries: 1, leaves: 1, deletions: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Write], grain: Grain::Coarse, ..Scene::read_write(1, 0, budget) }, 5_000);
}
