//! Scenes in which a clock determines the terms of sessions (the times for which they are certain
//! to exist). Requests, replies and the end of a session can be late. Even so, no two contenders
//! hold the lock at the same time, and no grant uses an ended session (rule 16).
//!
//! In each scene, one of our clients contends with a contender of another library, which has no
//! term. A scene with a clock and two of our clients would have too many states to explore.

use super::model::explorer::{Budget, Grain, NOTHING, Scene};
use super::play;

const fn timed(foreign: u64, grain: Grain, budget: Budget) -> Scene {
    Scene { grain, ..Scene::new(1, foreign, budget) }
}

/// Serving a request and reading the reply are separate steps, and time passes in between.
#[test]
fn time_passes_between_a_proof_and_its_answer() {
    play(timed(0, Grain::Fine, Budget { joins: 1, cuts: 1, ticks: 6, ..NOTHING }), 70_000);
}

#[test]
fn time_passes_next_to_a_foreign_contender() {
    play(timed(1, Grain::Coarse, Budget { joins: 1, enters: 1, ticks: 5, ..NOTHING }), 25_000);
}

#[test]
#[ignore = "takes 2 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn time_passes_next_to_a_foreign_contender_in_fine_steps() {
    play(timed(1, Grain::Fine, Budget { joins: 1, enters: 1, ticks: 5, ..NOTHING }), 80_000);
}

#[test]
#[ignore = "takes 13 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn time_passes_next_to_a_foreign_contender_and_a_cut() {
    play(timed(1, Grain::Coarse, Budget { joins: 1, enters: 1, cuts: 1, ticks: 5, ..NOTHING }), 400_000);
}
