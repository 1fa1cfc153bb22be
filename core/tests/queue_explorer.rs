//! Explores every order of events in some small worlds. Every change of the protocol must pass this
//! exploration first.
//!
//! `make worlds` also explores the larger scenes, in an optimized build.

mod model;
#[path = "scenes/several.rs"]
mod several;
#[path = "scenes/sharing.rs"]
mod sharing;
#[path = "scenes/terms.rs"]
mod terms;
#[path = "scenes/try_acquire.rs"]
mod try_acquire;

use std::time::Instant;

use zklock::queue::{Kind, Naming};

use self::model::explorer::{Budget, Explored, Grain, NOTHING, Scene};

const MISSED: &str = "Something that the scene is about no longer happens: the queue asks for less than it did, or the \
                      model allows less. Find out what, and mend it. If the protocol was changed so that the scene is \
                      rightly smaller, change the scene or its floor in the same commit, and say why.";

/// Explores a scene. Fails if the scene has too few states, if no lock is granted, or if the budget
/// of an event is never used up, because such an exploration would prove nothing.
#[track_caller]
#[allow(clippy::print_stdout, reason = "the numbers are a result, where they are not captured")]
fn play(scene: Scene, at_least: usize) {
    let start = Instant::now();
    let Explored { states, grants, unspent } =
        scene.explore().unwrap_or_else(|problem| panic!("{problem:?}"));
    println!("{states} states in {:.1} s, {grants} grants", start.elapsed().as_secs_f64());
    let missed = [
        (states < at_least).then(|| format!("it has {states} distinct states, and must have {at_least}")),
        (grants == 0).then(|| "the lock is never granted".to_owned()),
        (!unspent.is_empty()).then(|| format!("the budget is never used up: {}", unspent.join(", "))),
    ];
    let missed: Vec<_> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "floor missed: {}. {MISSED}", missed.join("; "));
}

/// Explores a scene in which clients want a mutex.
#[track_caller]
fn scene(clients: u64, foreign: u64, budget: Budget, at_least: usize) {
    play(Scene::new(clients, foreign, budget), at_least);
}

#[test]
fn two_clients_one_of_which_leaves() {
    scene(2, 0, Budget { joins: 2, leaves: 1, ..NOTHING }, 5_000);
}

#[test]
fn two_clients_and_a_cut() {
    scene(2, 0, Budget { joins: 2, cuts: 1, ..NOTHING }, 25_000);
}

#[test]
fn local_contenders_and_two_cuts() {
    scene(1, 0, Budget { joins: 2, cuts: 2, ..NOTHING }, 10_000);
}

/// The last contender joins without a listing. A foreign contender may join ahead of it, and only a
/// later listing shows that.
#[test]
fn four_local_contenders_and_a_foreign_contender() {
    let budget = Budget { joins: 4, enters: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 6_000);
}

/// The third contender's create, or the listing that shows it, is lost.
#[test]
fn three_local_contenders_one_of_which_leaves_and_a_cut() {
    let budget = Budget { joins: 3, leaves: 1, cuts: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, 2_000);
}

/// Our contender is behind four others. If the third of these is removed, our contender checks the
/// first two with a probe.
const BEHIND_FOUR: Scene = Scene {
    queued: 4,
    grain: Grain::Coarse,
    ..Scene::new(1, 4, Budget { joins: 1, deletions: 4, ..NOTHING })
};

#[test]
fn a_contender_behind_four_others_that_are_deleted_in_any_order() {
    play(BEHIND_FOUR, 100_000);
}

/// Two creates are lost with one connection, but the driver reports one of the losses later.
#[test]
fn local_contenders_a_cut_and_a_loss_that_is_reported_late() {
    let budget = Budget { joins: 2, cuts: 1, put_offs: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, 2_000);
}

#[test]
fn a_foreign_contender_and_one_that_leaves_a_cut_and_a_loss_that_is_reported_late() {
    let budget = Budget { joins: 1, leaves: 1, enters: 1, cuts: 1, put_offs: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 14_000);
}

#[test]
fn a_downgrade_a_cut_and_a_loss_that_is_reported_late() {
    let budget = Budget { joins: 2, own_downgrades: 1, cuts: 1, put_offs: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Write], grain: Grain::Coarse, ..Scene::read_write(1, 0, budget) }, 26_000);
}

#[test]
fn one_contender_and_three_cuts() {
    scene(1, 0, Budget { joins: 1, leaves: 1, cuts: 3, ..NOTHING }, 1_500);
}

#[test]
fn local_contenders_one_of_which_leaves_a_cut_and_a_lost_session() {
    play(Scene { grain: Grain::Coarse, ..LEAVES_AND_LOSES }, 42_000);
}

#[test]
#[ignore = "takes 5 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn local_contenders_one_of_which_leaves_a_cut_and_a_lost_session_in_fine_steps() {
    play(LEAVES_AND_LOSES, 135_000);
}

const LEAVES_AND_LOSES: Scene =
    Scene::new(1, 0, Budget { joins: 2, leaves: 1, cuts: 1, expiries: 1, ..NOTHING });

/// The reply to a create is lost, and the next synced listing may come from a deposed leader.
#[test]
fn one_contender_a_cut_and_a_deposed_leader() {
    scene(1, 0, Budget { joins: 1, leaves: 1, cuts: 1, deposals: 1, ..NOTHING }, 2_000);
}

#[test]
fn local_contenders_a_cut_and_a_deposed_leader() {
    let budget = Budget { joins: 2, cuts: 1, deposals: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, 11_500);
}

#[test]
fn a_contender_next_to_a_foreign_contender_a_cut_and_a_deposed_leader() {
    let budget = Budget { joins: 1, enters: 1, cuts: 1, deposals: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 12_500);
}

#[test]
fn a_try_next_to_a_waiter_and_a_foreign_contender() {
    scene(1, 1, Budget { joins: 1, tries: 1, enters: 1, leaves: 1, ..NOTHING }, 5_000);
}

#[test]
fn a_try_with_a_cut() {
    let budget = Budget { tries: 2, enters: 1, leaves: 1, cuts: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 38_000);
}

#[test]
fn a_downgrade_and_a_cut() {
    scene(1, 1, Budget { joins: 1, enters: 1, downgrades: 2, cuts: 1, ..NOTHING }, 30_000);
}

#[test]
fn an_operator_that_deletes_and_changes_nodes() {
    scene(1, 1, Budget { joins: 1, enters: 1, deletions: 1, changes: 1, ..NOTHING }, 20_000);
}

#[test]
fn a_missing_directory_and_is_reaped() {
    let budget = Budget { joins: 2, reaps: 1, ..NOTHING };
    play(Scene { directory: false, ..Scene::new(2, 0, budget) }, 25_000);
    let budget = Budget { joins: 1, leaves: 1, cuts: 1, expiries: 1, reaps: 1, ..NOTHING };
    play(Scene { directory: false, ..Scene::new(1, 0, budget) }, 25_000);
}

#[test]
fn readers_and_writers() {
    play(Scene::read_write(2, 0, Budget { joins: 2, ..NOTHING }), 4_000);
}

#[test]
fn a_reader_or_writer_next_to_a_foreign_one_that_downgrades_and_a_cut() {
    let budget = Budget { joins: 1, enters: 1, downgrades: 2, cuts: 1, ..NOTHING };
    play(Scene::read_write(1, 1, budget), 50_000);
}

/// Downgrades by our clients: the owner of a write lock also requests the read lock, while another
/// client's writer waits behind it.
const DOWNGRADE: Scene = Scene {
    kinds: &[Kind::Write],
    grain: Grain::Coarse,
    ..Scene::read_write(2, 0, Budget { joins: 2, own_downgrades: 1, ..NOTHING })
};

#[test]
fn a_downgrade_before_a_writer_of_another_client() {
    play(DOWNGRADE, 4_000);
}

#[test]
fn a_downgrade_under_the_names_of_kazoo() {
    play(Scene { naming: Naming::Kazoo, ..DOWNGRADE }, 4_000);
}

/// An operator deletes the writer's node while a reader takes over its position in the queue. A
/// foreign contender waits behind them.
#[test]
fn a_downgrade_and_an_operator() {
    let budget = Budget { joins: 1, own_downgrades: 1, enters: 1, deletions: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Write], ..Scene::read_write(1, 1, budget) }, 1_000);
}

/// A downgrade without waiting fails if the writer's node is deleted. It never waits for the
/// foreign contender (rule 21).
#[test]
fn a_try_to_downgrade_and_an_operator() {
    let budget = Budget { joins: 1, downgrade_tries: 1, enters: 1, deletions: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Write], ..Scene::read_write(1, 1, budget) }, 1_000);
}

#[test]
fn a_try_to_downgrade_before_a_writer_of_another_client() {
    let budget = Budget { joins: 2, downgrade_tries: 1, ..NOTHING };
    play(Scene { budget, ..DOWNGRADE }, 3_000);
}

#[test]
fn a_try_to_downgrade_and_a_cut() {
    let budget = Budget { joins: 1, downgrade_tries: 1, enters: 1, cuts: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Write], grain: Grain::Coarse, ..Scene::read_write(1, 1, budget) }, 1_000);
}

#[test]
fn a_try_to_downgrade_and_a_lost_session() {
    let budget = Budget { joins: 1, downgrade_tries: 1, enters: 1, expiries: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Write], grain: Grain::Coarse, ..Scene::read_write(1, 1, budget) }, 1_000);
}

#[test]
fn a_downgrade_before_a_writer_of_another_client_and_an_operator() {
    play(Scene { budget: Budget { deletions: 1, ..DOWNGRADE.budget }, ..DOWNGRADE }, 4_000);
}

#[test]
#[ignore = "takes 9 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_downgrade_with_an_operator_and_a_cut() {
    let budget = Budget { joins: 1, own_downgrades: 1, enters: 1, deletions: 1, cuts: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Write], ..Scene::read_write(1, 1, budget) }, 20_000);
}

#[test]
fn both_halves_together() {
    play(Scene::read_write(1, 1, Budget { both_halves: 1, joins: 1, leaves: 1, ..NOTHING }), 4_000);
}

#[test]
fn tries_of_readers_and_writers() {
    play(Scene::read_write(1, 1, Budget { tries: 2, enters: 1, ..NOTHING }), 8_000);
}

#[test]
fn a_permit_for_which_two_clients_wait() {
    let budget = Budget { joins: 2, pauses: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Permit(1)], grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 2_500);
}

#[test]
fn two_permits_for_three() {
    let budget = Budget { joins: 3, ..NOTHING };
    play(Scene { kinds: &[Kind::Permit(2)], grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 6_000);
}

#[test]
fn terms_that_end_next_to_another_client() {
    scene(2, 0, Budget { joins: 2, pauses: 2, ..NOTHING }, 14_000);
}

#[test]
fn a_session_that_is_replaced() {
    scene(1, 1, Budget { joins: 1, enters: 1, cuts: 1, replacements: 1, ..NOTHING }, 16_000);
}

/// The client crate replaces the session during a reconnection, and does not report this to the
/// driver.
#[test]
fn a_session_that_is_replaced_unnoticed_and_ends() {
    let budget = Budget { joins: 1, cuts: 1, adoptions: 1, expiries: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, 9_000);
}

#[test]
#[ignore = "takes 16 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_session_that_is_replaced_unnoticed_next_to_a_foreign_contender() {
    let budget = Budget { joins: 1, enters: 1, cuts: 1, adoptions: 1, expiries: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 600_000);
}

#[test]
fn local_contenders_and_a_session_that_is_replaced_unnoticed() {
    let budget = Budget { joins: 2, cuts: 1, adoptions: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 0, budget) }, 7_900);
}

/// The node of a dead process remains until its session ends.
#[test]
fn processes_that_crash() {
    scene(1, 1, Budget { joins: 2, enters: 1, crashes: 1, ..NOTHING }, 15_500);
}

#[test]
fn a_process_that_crashes_next_to_another_client() {
    let budget = Budget { joins: 2, crashes: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 1_500);
}

/// A server that is too busy replies without executing the request.
#[test]
fn a_server_that_throttles() {
    scene(1, 1, Budget { joins: 1, enters: 1, leaves: 1, throttles: 2, ..NOTHING }, 19_000);
}

#[test]
fn a_server_that_throttles_after_a_cut() {
    let budget = Budget { joins: 1, enters: 1, cuts: 1, throttles: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 10_000);
}

#[test]
fn a_server_that_throttles_readers_and_writers() {
    let budget = Budget { joins: 1, own_downgrades: 1, enters: 1, throttles: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::read_write(1, 1, budget) }, 2_800);
}

/// A watch event does not arrive. The waiter lists the directory after a long silence and then sees
/// the change.
#[test]
fn a_lost_event() {
    let budget = Budget { joins: 1, enters: 1, misses: 1, looks: 2, ..NOTHING };
    scene(1, 1, budget, 1_900);
}

#[test]
fn a_look_at_any_time_and_a_cut() {
    let budget = Budget { joins: 1, enters: 1, leaves: 1, cuts: 1, looks: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 19_000);
}

/// A waiter counts as far from the front if any contender is ahead of it. A far waiter does not
/// list the directory after a reconnection, unless an event shows that it must.
const FAR: Scene = Scene { far_beyond: 0, grain: Grain::Coarse, ..Scene::new(1, 1, NOTHING) };

#[test]
fn a_far_contender_a_cut_and_an_operator() {
    let budget = Budget { joins: 1, enters: 1, cuts: 1, deletions: 1, ..NOTHING };
    play(Scene { budget, ..FAR }, 18_000);
}

#[test]
fn a_far_contender_that_leaves_a_cut_and_a_look_at_any_time() {
    let budget = Budget { joins: 1, enters: 1, leaves: 1, cuts: 1, looks: 1, ..NOTHING };
    play(Scene { budget, ..FAR }, 20_000);
}

#[test]
fn a_far_contender_a_cut_and_a_lost_event() {
    let budget = Budget { joins: 1, enters: 1, cuts: 1, misses: 1, looks: 1, ..NOTHING };
    play(Scene { budget, ..FAR }, 7_000);
}

#[test]
fn far_local_contenders_and_a_cut() {
    let budget = Budget { joins: 2, enters: 1, cuts: 1, ..NOTHING };
    play(Scene { budget, ..FAR }, 27_500);
}

#[test]
fn far_readers_and_writers_a_foreign_downgrade_and_a_cut() {
    let budget = Budget { joins: 1, enters: 1, downgrades: 2, cuts: 1, ..NOTHING };
    play(Scene { far_beyond: 0, grain: Grain::Coarse, ..Scene::read_write(1, 1, budget) }, 16_500);
}

#[test]
fn a_far_contender_of_another_client_and_a_cut() {
    let budget = Budget { joins: 2, cuts: 1, ..NOTHING };
    play(Scene { far_beyond: 0, grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 9_000);
}

#[test]
fn a_far_contender_a_cut_and_a_lost_session() {
    let budget = Budget { joins: 1, enters: 1, cuts: 1, expiries: 1, ..NOTHING };
    play(Scene { budget, ..FAR }, 33_000);
}

#[test]
fn a_far_contender_behind_two_others_that_are_deleted_in_any_order_and_a_cut() {
    let budget = Budget { joins: 1, deletions: 2, cuts: 1, ..NOTHING };
    play(Scene { queued: 2, foreign: 2, budget, ..FAR }, 11_500);
}

#[test]
fn a_long_hold_and_an_operator() {
    let budget = Budget { joins: 1, enters: 1, guards: 1, deletions: 1, cuts: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(1, 1, budget) }, 38_000);
}

#[test]
fn tries_a_lost_session_and_an_operator() {
    scene(1, 1, Budget { tries: 1, enters: 1, expiries: 1, ..NOTHING }, 5_000);
    scene(1, 1, Budget { tries: 1, joins: 1, deletions: 1, ..NOTHING }, 700);
}

#[test]
fn readers_and_writers_and_a_lost_session() {
    let budget = Budget { joins: 2, expiries: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::read_write(1, 0, budget) }, 2_000);
    let budget = Budget { joins: 1, enters: 1, expiries: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::read_write(1, 1, budget) }, 4_500);
}

#[test]
fn readers_and_writers_and_an_operator() {
    let budget = Budget { joins: 1, enters: 1, guards: 1, deletions: 1, ..NOTHING };
    play(Scene::read_write(1, 1, budget), 10_000);
    let budget = Budget { joins: 2, deletions: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::read_write(2, 0, budget) }, 16_000);
}

/// Two clients wait for permits while faults happen.
const PERMIT: Scene = Scene {
    kinds: &[Kind::Permit(1)],
    grain: Grain::Coarse,
    ..Scene::new(2, 0, Budget { joins: 2, ..NOTHING })
};

#[test]
fn a_permit_and_a_cut() {
    play(Scene { budget: Budget { cuts: 1, ..PERMIT.budget }, ..PERMIT }, 11_000);
}

#[test]
fn a_permit_and_a_lost_session() {
    play(Scene { budget: Budget { expiries: 1, ..PERMIT.budget }, ..PERMIT }, 13_500);
}

#[test]
fn a_permit_a_process_that_crashes_and_an_operator() {
    play(Scene { budget: Budget { crashes: 1, deletions: 1, ..PERMIT.budget }, ..PERMIT }, 17_000);
}

#[test]
fn a_permit_and_a_server_that_throttles() {
    play(Scene { budget: Budget { throttles: 1, ..PERMIT.budget }, ..PERMIT }, 2_400);
}

#[test]
#[ignore = "takes 4 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_clients_a_cut_and_a_deposed_leader() {
    let budget = Budget { joins: 2, cuts: 1, deposals: 1, ..NOTHING };
    play(Scene { grain: Grain::Coarse, ..Scene::new(2, 0, budget) }, 110_000);
}

#[test]
#[ignore = "takes 14 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn local_contenders_whose_session_is_replaced() {
    scene(1, 1, Budget { joins: 2, enters: 1, cuts: 1, replacements: 1, ..NOTHING }, 310_000);
}

#[test]
#[ignore = "takes 5 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_downgrade_before_a_writer_of_another_client_and_a_cut() {
    play(Scene { budget: Budget { cuts: 1, ..DOWNGRADE.budget }, ..DOWNGRADE }, 120_000);
}

#[test]
#[ignore = "takes 6 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn both_halves_together_and_a_cut() {
    let budget = Budget { both_halves: 1, enters: 1, leaves: 1, cuts: 1, ..NOTHING };
    play(Scene { kinds: &[], ..Scene::read_write(1, 1, budget) }, 210_000);
}

#[test]
#[ignore = "takes 4 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn a_permit_for_which_two_clients_wait_and_a_cut() {
    let budget = Budget { joins: 2, leaves: 1, cuts: 1, ..NOTHING };
    play(Scene { kinds: &[Kind::Permit(1)], ..Scene::new(2, 0, budget) }, 120_000);
}

#[test]
#[ignore = "takes 56 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn three_clients() {
    scene(3, 0, Budget { joins: 3, ..NOTHING }, 890_000);
}

#[test]
#[ignore = "takes 18 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_clients_three_contenders_one_of_which_leaves() {
    scene(2, 0, Budget { joins: 3, leaves: 1, ..NOTHING }, 300_000);
}

#[test]
#[ignore = "takes 23 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn local_contenders_behind_a_foreign_contender_and_a_cut() {
    scene(1, 1, Budget { joins: 2, enters: 1, leaves: 1, cuts: 1, ..NOTHING }, 350_000);
}

#[test]
#[ignore = "takes 6 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_others_and_downgrades() {
    scene(1, 2, Budget { joins: 1, enters: 2, downgrades: 2, ..NOTHING }, 160_000);
}

#[test]
#[ignore = "takes 9 s optimized: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn two_clients_one_of_which_leaves_and_a_lost_session() {
    scene(2, 0, Budget { joins: 2, leaves: 1, expiries: 1, ..NOTHING }, 240_000);
}

/// Three clients, of which any two join. One connection and one session are lost.
const BAR: Scene = Scene {
    interchangeable: true,
    grain: Grain::Coarse,
    ..Scene::new(3, 0, Budget { joins: 2, faults: 2, cuts: 1, expiries: 1, ..NOTHING })
};

#[test]
#[ignore = "takes 100 s optimized: `make worlds` runs it, as continuous integration does"]
fn three_clients_and_two_faults() {
    play(BAR, 1_000_000);
}
