//! Scenes in which a client acquires several locks, or several permits of a semaphore, together. An
//! acquire gets all of them or none, and no acquire waits forever (rules 17 and 18). Before an
//! acquire requests permits, it takes its turn: it acquires the semaphore's internal mutex.

use super::model::attempt::Plan;
use super::model::explorer::{Budget, NOTHING, Scene};
use super::play;

/// Two callers request the same two locks, in opposite orders.
const OPPOSITE: &[Plan] = &[Plan::Locks(&[0, 1]), Plan::Locks(&[1, 0])];

/// Three callers. Each wants two of three locks that form a ring.
const RING: &[Plan] = &[Plan::Locks(&[0, 1]), Plan::Locks(&[1, 2]), Plan::Locks(&[2, 0])];

/// One of two permits, or both.
const ONE_OR_TWO: &[Plan] = &[Plan::Permits(1, 2), Plan::Permits(2, 2)];

/// The only permit.
const ONLY: &[Plan] = &[Plan::Permits(1, 1)];

const fn locks(clients: u64, budget: Budget) -> Scene {
    Scene::several(clients, 2, OPPOSITE, budget)
}

const fn permits(clients: u64, plans: &'static [Plan], budget: Budget) -> Scene {
    Scene::several(clients, 2, plans, budget)
}

#[test]
fn two_locks_in_opposite_orders_of_which_one_attempt_is_cancelled() {
    play(locks(2, Budget { acquires: 2, cancels: 1, ..NOTHING }), 15_000);
}

#[test]
fn two_locks_for_local_attempts_that_are_cancelled() {
    play(locks(1, Budget { acquires: 2, cancels: 2, ..NOTHING }), 800);
}

#[test]
#[ignore = "takes 11 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_locks_and_a_term_that_ends() {
    play(Scene { plans: &OPPOSITE[..1], ..locks(2, Budget { acquires: 2, pauses: 1, ..NOTHING }) }, 250_000);
}

#[test]
#[ignore = "takes 3 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_locks_of_which_one_is_deleted() {
    play(
        Scene { plans: &OPPOSITE[..1], ..locks(2, Budget { acquires: 2, deletions: 1, ..NOTHING }) },
        75_000,
    );
}

#[test]
fn tries_at_two_locks_and_a_cut() {
    play(locks(1, Budget { acquires: 1, tries_all: 1, cuts: 1, ..NOTHING }), 20_000);
}

#[test]
fn tries_at_two_locks_next_to_another_client() {
    play(locks(2, Budget { acquires: 1, tries_all: 1, cancels: 1, ..NOTHING }), 30_000);
}

#[test]
#[ignore = "takes 22 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_locks_and_a_lost_session() {
    play(
        Scene { plans: &OPPOSITE[..1], ..locks(2, Budget { acquires: 2, expiries: 1, ..NOTHING }) },
        470_000,
    );
}

#[test]
#[ignore = "takes 4 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn permits_and_turns_of_which_one_attempt_is_cancelled() {
    play(permits(2, ONE_OR_TWO, Budget { acquires: 2, cancels: 1, ..NOTHING }), 110_000);
}

#[test]
#[ignore = "takes 7 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn permits_and_an_operator() {
    play(permits(2, ONLY, Budget { acquires: 2, deletions: 1, ..NOTHING }), 180_000);
}

#[test]
#[ignore = "takes 8 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn tries_at_permits_and_a_cut() {
    play(permits(1, ONE_OR_TWO, Budget { acquires: 1, tries_all: 1, cuts: 1, ..NOTHING }), 190_000);
}

#[test]
fn permits_and_a_process_that_crashes() {
    play(permits(2, &ONE_OR_TWO[1..], Budget { acquires: 2, crashes: 1, ..NOTHING }), 55_000);
}

#[test]
#[ignore = "takes 14 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn three_local_attempts_at_permits() {
    play(permits(1, ONE_OR_TWO, Budget { acquires: 3, cancels: 1, ..NOTHING }), 340_000);
}

#[test]
fn three_locks_in_a_ring() {
    play(Scene::several(1, 3, RING, Budget { acquires: 3, ..NOTHING }), 35_000);
}

#[test]
#[ignore = "takes 15 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn permits_and_turns_and_a_cut() {
    play(permits(2, ONLY, Budget { acquires: 2, cuts: 1, ..NOTHING }), 290_000);
}

#[test]
#[ignore = "takes 4 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_locks_and_a_cut() {
    play(Scene { plans: &OPPOSITE[..1], ..locks(2, Budget { acquires: 2, cuts: 1, ..NOTHING }) }, 95_000);
}
