//! Known ways to get the protocol wrong, planted in the queue one by one: the explorer must find each of them.
//!
//! A model that finds nothing proves nothing unless it finds these. The queue is compiled into this test, where its
//! switches work; in the library they are constants.

mod model;

#[allow(dead_code, unreachable_pub, reason = "as the library has it")]
#[path = "../src/queue/mod.rs"]
mod queue;

use self::model::explorer::{Budget, NOTHING, Scene};
use self::queue::Kind;
use self::queue::mutants::Mutant;
use self::queue::mutants::planting::plant;

/// A small world in which this bug can do harm.
fn scene(mutant: Mutant) -> Scene {
    let replaced = Budget { joins: 1, enters: 1, cuts: 1, replacements: 1, ..NOTHING };
    let deleted = Budget { joins: 1, enters: 1, deletions: 1, ..NOTHING };
    let downgraded = Budget { joins: 1, enters: 1, downgrades: 2, cuts: 1, ..NOTHING };
    let reads_too = Budget { joins: 2, reads_too: 1, ..NOTHING };
    let left = Budget { joins: 1, leaves: 1, cuts: 1, ..NOTHING };
    match mutant {
        Mutant::Curator604 | Mutant::UuidKept => Scene::new(1, 1, replaced),
        Mutant::Curator498 => Scene::new(1, 0, Budget { enters: 0, ..replaced }),
        Mutant::Curator621 | Mutant::DowngradeDoesNotBlock => {
            Scene { kinds: &[Kind::Write], ..Scene::read_write(1, 0, reads_too) }
        }
        Mutant::MissingSync => Scene::new(1, 0, left),
        Mutant::TornPair => Scene { torn_pairs: true, ..Scene::new(1, 0, left) },
        Mutant::LeaveWithoutDelete => Scene::new(1, 1, Budget { joins: 1, enters: 1, leaves: 1, ..NOTHING }),
        Mutant::NoDowngradeException | Mutant::Tombstones => Scene::new(1, 1, downgraded),
        Mutant::NoRelist => Scene::new(1, 1, Budget { cuts: 1, ..deleted }),
        Mutant::NoOwnNodeWatch => Scene::new(1, 1, deleted),
        Mutant::GrantWithoutTerm => Scene::new(1, 0, Budget { joins: 1, pauses: 1, ..NOTHING }),
        Mutant::AdjacentAcrossSessions => Scene::new(1, 0, Budget { joins: 2, expiries: 1, ..NOTHING }),
        Mutant::TokenFromSequence => Scene::new(1, 0, Budget { joins: 1, ..NOTHING }),
        Mutant::WrongPredecessor => Scene::new(2, 0, Budget { joins: 2, ..NOTHING }),
        Mutant::StringOrder => Scene {
            next_sequence: i32::MAX.cast_unsigned(),
            ..Scene::new(2, 0, Budget { joins: 2, ..NOTHING })
        },
    }
}

const ALL: [Mutant; 17] = [
    Mutant::Curator604,
    Mutant::Curator498,
    Mutant::Curator621,
    Mutant::MissingSync,
    Mutant::NoDowngradeException,
    Mutant::NoRelist,
    Mutant::LeaveWithoutDelete,
    Mutant::GrantWithoutTerm,
    Mutant::TokenFromSequence,
    Mutant::StringOrder,
    Mutant::AdjacentAcrossSessions,
    Mutant::WrongPredecessor,
    Mutant::Tombstones,
    Mutant::DowngradeDoesNotBlock,
    Mutant::NoOwnNodeWatch,
    Mutant::UuidKept,
    Mutant::TornPair,
];

#[test]
#[allow(clippy::print_stdout, reason = "tells how each was caught")]
fn every_mutant_is_caught() {
    assert_eq!(ALL.len(), Mutant::TornPair as usize + 1, "the last one of the list is the last one there is");
    let mut survivors = Vec::new();
    for mutant in ALL {
        plant(Some(mutant));
        match scene(mutant).explore() {
            Err(found) => println!("{mutant:?}: {} ({} states)", found.problem, found.seen),
            Ok(states) => survivors.push((mutant, states)),
        }
    }
    plant(None);
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}

#[test]
fn their_scenes_are_right_without_them() {
    for mutant in ALL {
        let states = Scene { torn_pairs: false, ..scene(mutant) }.explore();
        assert!(states.is_ok(), "without {mutant:?}: {states:?}");
    }
}
