//! Every order of events in some small worlds: the first exploration that a change of the protocol has to pass.
//!
//! Breadth first, so that a counterexample is a shortest one. Distinct states are told by a hash of 64 bits: among
//! a million of them the chance that two are mistaken for each other is one in thirty million. What is
//! random elsewhere is a budget here: each scene says how many joins, leaves, cuts and losses there may be.
//! The larger scenes: `cargo test --release --test queue_explorer -- --ignored`.

mod model;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use zklock::queue::{Intent, Kind, Naming};

use self::model::{Step, World};

const ALL: usize = usize::MAX;

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    joins: u8,
    tries: u8,
    leaves: u8,
    cuts: u8,
    expiries: u8,
    /// Foreign contenders that queue up.
    enters: u8,
    downgrades: u8,
    deletions: u8,
    changes: u8,
    reaps: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    world: World,
    budget: Budget,
}

impl State {
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// All that can happen next. Each is a few steps in a row that nothing could come between and make a difference.
    fn moves(&self) -> Vec<(Vec<Step>, Budget)> {
        let (world, budget) = (&self.world, self.budget);
        let mut moves = Vec::new();
        let mut add = |steps: &[Step], budget: Budget| moves.push((steps.to_vec(), budget));
        for (number, client) in world.clients.iter().enumerate() {
            let drive = Step::Drive(number, ALL);
            if budget.joins > 0 {
                let left = Budget { joins: budget.joins - 1, ..budget };
                add(&[Step::Join(number, Naming::Curator, Intent::Wait), drive], left);
            }
            if budget.tries > 0 {
                let left = Budget { tries: budget.tries - 1, ..budget };
                add(&[Step::Join(number, Naming::Curator, Intent::Try), drive], left);
            }
            if budget.leaves > 0 {
                for which in 0..client.waiting.len() {
                    add(&[Step::Leave(number, which), drive], Budget { leaves: budget.leaves - 1, ..budget });
                }
            }
            for which in 0..client.holds.len() {
                add(&[Step::Release(number, which), drive], budget);
            }
            let Some(session) = &client.session else { continue };
            let up = client.is_up();
            if session.has_unserved() {
                add(&[Step::Serve(number)], budget);
            } else if up && session.has_unwritten() {
                add(&[Step::Flush(number, 1), Step::Serve(number)], budget);
            }
            if session.lags(&world.server) {
                add(&[Step::Advance(number)], budget);
            }
            if session.has_unread() {
                add(&[Step::Receive(number), drive], budget);
            }
            // Only a cut tells what was written from what was not, or news that waits from news that was heard.
            if up && budget.cuts > 0 {
                let left = Budget { cuts: budget.cuts - 1, ..budget };
                add(&[Step::Cut(number), drive], left);
                if session.has_unread() {
                    add(&[Step::Receive(number), Step::Cut(number), drive], left);
                }
                if session.has_unwritten() {
                    add(&[Step::Flush(number, ALL), Step::Cut(number), drive], left);
                }
            }
            if !up {
                if session.has_ghosts() {
                    add(&[Step::ServeGhost(number)], budget);
                }
                if client.needs_session() {
                    add(&[Step::Establish(number), drive], budget);
                } else {
                    for lag in [0, 1, 2] {
                        add(&[Step::Reconnect(number, lag), drive], budget);
                    }
                }
            }
            if budget.expiries > 0 {
                let left = Budget { expiries: budget.expiries - 1, ..budget };
                add(&[Step::Expire(number)], left);
                if !up && !client.needs_session() {
                    add(&[Step::GiveUp(number), drive], left);
                }
            }
        }
        for number in 0..world.foreign.len() {
            if budget.enters > 0 && world.foreign[number].is_away() {
                for kind in [Kind::Exclusive, Kind::Write] {
                    add(&[Step::Enter(number, kind)], Budget { enters: budget.enters - 1, ..budget });
                }
            }
            if world.foreign[number].is_queued() {
                add(&[Step::Look(number)], budget);
            }
            if world.foreign[number].held().is_some() {
                add(&[Step::Exit(number)], budget);
            }
            if budget.downgrades > 0 {
                add(&[Step::Downgrade(number)], Budget { downgrades: budget.downgrades - 1, ..budget });
            }
        }
        let children = world.server.children_at(world.server.now).len();
        for which in 0..children {
            if budget.deletions > 0 {
                add(&[Step::Delete(which)], Budget { deletions: budget.deletions - 1, ..budget });
            }
            if budget.changes > 0 {
                add(&[Step::Change(which)], Budget { changes: budget.changes - 1, ..budget });
            }
        }
        if budget.reaps > 0 && children == 0 {
            add(&[Step::Reap], Budget { reaps: budget.reaps - 1, ..budget });
        }
        moves
    }

    fn apply(&self, steps: &[Step], budget: Budget) -> Result<Self, String> {
        let mut world = self.world.clone();
        for step in steps {
            world.step(*step)?;
        }
        world.forget_costs();
        Ok(Self { world, budget })
    }
}

/// Visits every state that can be reached, and from every `sample`-th lets the faults end and everybody have their
/// turn. Returns the number of distinct states.
fn explore(world: World, budget: Budget, sample: u64) -> usize {
    let first = State { world, budget };
    // How each state was reached: from which, and by which of its moves.
    let mut parents: HashMap<u64, (u64, u32)> = HashMap::from([(first.fingerprint(), (0, 0))]);
    let mut queue = VecDeque::from([first.clone()]);
    while let Some(state) = queue.pop_front() {
        let from = state.fingerprint();
        if from % sample == 0
            && let Err(problem) = state.world.clone().finish()
        {
            panic!("{problem}, after {:#?}", history(&first, &parents, from));
        }
        for (number, (steps, left)) in (0..).zip(state.moves()) {
            match state.apply(&steps, left) {
                Ok(next) => {
                    let to = next.fingerprint();
                    if let std::collections::hash_map::Entry::Vacant(entry) = parents.entry(to) {
                        entry.insert((from, number));
                        queue.push_back(next);
                    }
                }
                Err(problem) => {
                    panic!("{problem}, by {steps:?} after {:#?}", history(&first, &parents, from))
                }
            }
        }
    }
    parents.len()
}

/// The moves that lead to a state.
fn history(first: &State, parents: &HashMap<u64, (u64, u32)>, mut to: u64) -> Vec<Vec<Step>> {
    let mut numbers = Vec::new();
    while to != first.fingerprint() {
        let (from, number) = parents[&to];
        numbers.push(number as usize);
        to = from;
    }
    let mut state = first.clone();
    let follow = |number: usize| {
        let (steps, left) = state.moves().swap_remove(number);
        state = state.apply(&steps, left).expect("it was done before");
        steps
    };
    numbers.into_iter().rev().map(follow).collect()
}

fn scene(clients: u64, foreign: u64, budget: Budget, at_least: usize) {
    let states = explore(World::new(clients, foreign, true), budget, 8);
    assert!(states >= at_least, "only {states} states: the scene has lost what made it interesting");
}

const NOTHING: Budget = Budget {
    joins: 0,
    tries: 0,
    leaves: 0,
    cuts: 0,
    expiries: 0,
    enters: 0,
    downgrades: 0,
    deletions: 0,
    changes: 0,
    reaps: 0,
};

#[test]
fn two_clients_of_whom_one_leaves() {
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

#[test]
fn one_contender_and_three_cuts() {
    scene(1, 0, Budget { joins: 1, leaves: 1, cuts: 3, ..NOTHING }, 1_500);
}

#[test]
fn local_contenders_of_whom_one_leaves_a_cut_and_a_lost_session() {
    scene(1, 0, Budget { joins: 2, leaves: 1, cuts: 1, expiries: 1, ..NOTHING }, 60_000);
}

#[test]
fn a_try_beside_a_waiter_and_somebody_else() {
    scene(1, 1, Budget { joins: 1, tries: 1, enters: 1, leaves: 1, ..NOTHING }, 5_000);
}

#[test]
fn a_try_with_a_cut() {
    scene(1, 1, Budget { tries: 2, enters: 1, leaves: 1, cuts: 1, ..NOTHING }, 5_000);
}

#[test]
fn a_downgrade_and_a_cut() {
    scene(1, 1, Budget { joins: 1, enters: 1, downgrades: 2, cuts: 1, ..NOTHING }, 40_000);
}

#[test]
fn an_operator_who_deletes_and_changes_nodes() {
    scene(1, 1, Budget { joins: 1, enters: 1, deletions: 1, changes: 1, ..NOTHING }, 20_000);
}

#[test]
fn a_directory_that_is_not_there_and_is_reaped() {
    let budget = Budget { joins: 2, reaps: 1, ..NOTHING };
    assert!(explore(World::new(2, 0, false), budget, 8) >= 25_000);
    let budget = Budget { joins: 1, leaves: 1, cuts: 1, expiries: 1, reaps: 1, ..NOTHING };
    assert!(explore(World::new(1, 0, false), budget, 8) >= 25_000);
}

#[test]
#[ignore = "takes a minute in a release build"]
fn three_clients() {
    scene(3, 0, Budget { joins: 3, ..NOTHING }, 890_000);
}

#[test]
#[ignore = "takes a minute in a release build"]
fn two_clients_three_contenders_of_whom_one_leaves() {
    scene(2, 0, Budget { joins: 3, leaves: 1, ..NOTHING }, 300_000);
}

#[test]
#[ignore = "takes a minute in a release build"]
fn local_contenders_behind_somebody_else_and_a_cut() {
    scene(1, 1, Budget { joins: 2, enters: 1, leaves: 1, cuts: 1, ..NOTHING }, 350_000);
}

#[test]
#[ignore = "takes a minute in a release build"]
fn two_others_and_downgrades() {
    scene(1, 2, Budget { joins: 1, enters: 2, downgrades: 2, ..NOTHING }, 190_000);
}

#[test]
#[ignore = "takes a minute in a release build"]
fn two_clients_of_whom_one_leaves_and_a_lost_session() {
    scene(2, 0, Budget { joins: 2, leaves: 1, expiries: 1, ..NOTHING }, 240_000);
}
