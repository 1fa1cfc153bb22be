//! Scenes with the options `cohort` (a client hands a lock's node on to its next waiter) and
//! `linger` (a client keeps a node after the release). Other contenders use Curator. No two
//! conflicting contenders hold the lock at the same time, no contender waits forever for a node
//! that is kept, and no node is left (rule 19).

use zklock::queue::Kind;

use super::model::explorer::{Budget, Grain, NOTHING, Scene};
use super::model::local::LocalOptions;
use super::play;

/// Two consecutive holds on a node.
const COHORT: LocalOptions = LocalOptions { cohort: 2, linger: false };
const LINGER: LocalOptions = LocalOptions { cohort: 0, linger: true };
const BOTH: LocalOptions = LocalOptions { cohort: 2, linger: true };

/// A scene with one client and one contender on Curator.
const fn mutex(local: LocalOptions, budget: Budget) -> Scene {
    Scene { local, grain: Grain::Coarse, ..Scene::new(1, 1, budget) }
}

const fn read_write(local: LocalOptions, budget: Budget) -> Scene {
    Scene { local, grain: Grain::Coarse, ..Scene::read_write(1, 1, budget) }
}

#[test]
fn a_lock_that_is_handed_on_next_to_a_foreign_contender() {
    let budget = Budget { joins: 3, enters: 1, ..NOTHING };
    play(mutex(COHORT, budget), 7_600);
}

#[test]
fn a_lock_that_is_handed_on_and_a_waiter_that_leaves() {
    play(mutex(COHORT, Budget { joins: 2, enters: 1, leaves: 1, ..NOTHING }), 3_500);
}

#[test]
fn a_lock_that_is_handed_on_and_a_cut() {
    play(mutex(COHORT, Budget { joins: 2, enters: 1, cuts: 1, ..NOTHING }), 26_000);
}

#[test]
fn a_lock_that_is_handed_on_and_a_lost_session() {
    play(mutex(COHORT, Budget { joins: 2, enters: 1, expiries: 1, ..NOTHING }), 24_000);
}

#[test]
fn a_lock_that_is_handed_on_and_an_operator() {
    play(mutex(COHORT, Budget { joins: 2, enters: 1, deletions: 1, ..NOTHING }), 5_000);
}

#[test]
fn a_lock_that_is_handed_on_and_is_asked_for() {
    play(mutex(COHORT, Budget { joins: 3, enters: 1, revocations: 1, ..NOTHING }), 17_000);
}

#[test]
fn a_lock_that_is_handed_on_and_processes_that_crash() {
    play(mutex(COHORT, Budget { joins: 2, enters: 1, crashes: 1, ..NOTHING }), 6_000);
}

#[test]
fn a_lock_that_is_handed_on_and_a_term_that_ends() {
    play(mutex(COHORT, Budget { joins: 2, enters: 1, pauses: 1, ..NOTHING }), 4_200);
}

#[test]
fn a_lock_that_is_handed_on_and_a_server_that_throttles() {
    play(mutex(COHORT, Budget { joins: 2, enters: 1, throttles: 1, ..NOTHING }), 7_300);
}

#[test]
fn a_write_lock_that_is_handed_on_and_a_downgrade() {
    let scene = read_write(COHORT, Budget { joins: 2, enters: 1, own_downgrades: 1, ..NOTHING });
    play(Scene { kinds: &[Kind::Write], ..scene }, 7_500);
}

#[test]
fn readers_next_to_a_write_lock_that_is_handed_on() {
    play(read_write(COHORT, Budget { joins: 2, enters: 1, ..NOTHING }), 4_300);
}

#[test]
fn two_clients_that_hand_on() {
    let budget = Budget { joins: 3, ..NOTHING };
    play(Scene { local: COHORT, grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 6_700);
}

#[test]
fn a_lock_that_is_kept_next_to_a_foreign_contender() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, keepings: 1, ..NOTHING }), 3_500);
}

#[test]
fn a_lock_that_is_kept_and_a_waiter_that_leaves() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, leaves: 1, ..NOTHING }), 3_000);
}

#[test]
fn a_lock_that_is_kept_and_a_cut() {
    play(mutex(LINGER, Budget { joins: 2, cuts: 1, ..NOTHING }), 1_000);
}

#[test]
fn a_lock_that_is_kept_and_a_lost_session() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, expiries: 1, ..NOTHING }), 43_000);
}

#[test]
fn a_lock_that_is_kept_and_an_operator() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, deletions: 1, ..NOTHING }), 5_000);
}

#[test]
fn a_lock_that_is_kept_and_is_asked_for() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, revocations: 1, ..NOTHING }), 4_700);
}

#[test]
fn a_lock_that_is_kept_and_processes_that_crash() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, crashes: 1, ..NOTHING }), 7_800);
}

#[test]
fn a_lock_that_is_kept_and_a_term_that_ends() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, pauses: 1, ..NOTHING }), 8_300);
}

/// If a watch event does not arrive, the client still deletes the node when `linger` ends.
#[test]
fn a_lock_that_is_kept_and_a_lost_event() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, misses: 1, ..NOTHING }), 1_900);
}

#[test]
fn readers_and_writers_that_keep_next_to_others() {
    play(read_write(LINGER, Budget { joins: 2, enters: 1, ..NOTHING }), 7_300);
}

#[test]
fn readers_that_keep_next_to_a_foreign_downgrade() {
    let scene = read_write(LINGER, Budget { joins: 2, enters: 1, downgrades: 2, ..NOTHING });
    play(Scene { kinds: &[Kind::Read], ..scene }, 8_700);
}

#[test]
fn a_downgrade_and_a_lock_that_is_kept() {
    play(read_write(LINGER, Budget { joins: 2, own_downgrades: 1, ..NOTHING }), 900);
}

#[test]
fn both_halves_together_and_a_lock_that_is_kept() {
    play(read_write(LINGER, Budget { both_halves: 1, joins: 1, ..NOTHING }), 600);
}

#[test]
fn a_try_and_a_lock_that_is_kept() {
    play(mutex(LINGER, Budget { joins: 1, tries: 1, enters: 1, ..NOTHING }), 2_900);
}

#[test]
fn two_clients_that_keep() {
    let budget = Budget { joins: 3, ..NOTHING };
    play(Scene { local: LINGER, grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 12_000);
}

#[test]
fn a_lock_that_is_handed_on_and_kept_next_to_a_foreign_contender() {
    play(mutex(BOTH, Budget { joins: 3, enters: 1, ..NOTHING }), 16_000);
}

#[test]
fn a_lock_that_is_handed_on_and_kept_and_a_cut() {
    play(mutex(BOTH, Budget { joins: 2, cuts: 1, ..NOTHING }), 1_700);
}

#[test]
#[ignore = "takes 14 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_lock_that_is_handed_on_in_fine_steps_and_a_cut() {
    let scene = mutex(COHORT, Budget { joins: 2, enters: 1, cuts: 1, ..NOTHING });
    play(Scene { grain: Grain::Fine, ..scene }, 85_000);
}

#[test]
#[ignore = "takes 4 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_lock_that_is_kept_next_to_a_foreign_contender_and_a_cut() {
    play(mutex(LINGER, Budget { joins: 2, enters: 1, cuts: 1, ..NOTHING }), 40_000);
}

#[test]
#[ignore = "takes 2 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_lock_that_is_kept_in_fine_steps() {
    let scene = mutex(LINGER, Budget { joins: 2, enters: 1, keepings: 1, ..NOTHING });
    play(Scene { grain: Grain::Fine, ..scene }, 3_500);
}

#[test]
#[ignore = "takes 8 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_lock_that_is_handed_on_and_kept_a_cut_and_a_time_that_is_over() {
    play(mutex(BOTH, Budget { joins: 2, enters: 1, cuts: 1, keepings: 1, ..NOTHING }), 65_000);
}

#[test]
#[ignore = "takes 15 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_lock_that_is_handed_on_and_kept_a_long_hold_and_an_operator() {
    play(mutex(BOTH, Budget { joins: 2, enters: 1, guards: 1, deletions: 1, ..NOTHING }), 110_000);
}

#[test]
#[ignore = "takes 40 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_lock_that_is_handed_on_and_kept_a_cut_and_a_lost_session() {
    let budget = Budget { joins: 2, enters: 1, faults: 2, cuts: 1, expiries: 1, ..NOTHING };
    play(mutex(BOTH, budget), 700_000);
}

#[test]
#[ignore = "takes 6 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_lock_that_is_handed_on_and_kept_next_to_two_others() {
    let budget = Budget { joins: 2, enters: 2, ..NOTHING };
    play(Scene { foreign: 2, ..mutex(BOTH, budget) }, 96_000);
}

#[test]
#[ignore = "takes 5 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn readers_that_keep_a_foreign_downgrade_and_a_cut() {
    let scene = read_write(LINGER, Budget { joins: 2, enters: 1, downgrades: 2, cuts: 1, ..NOTHING });
    play(Scene { kinds: &[Kind::Read], foreign_kinds: &[Kind::Write], ..scene }, 3_000);
}

#[test]
#[ignore = "takes 3 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_clients_that_hand_on_and_keep_and_a_lost_session() {
    let budget = Budget { joins: 2, expiries: 1, ..NOTHING };
    play(Scene { local: BOTH, grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 29_000);
}
