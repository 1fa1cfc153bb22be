//! The features that one attempt (an acquire and its hold) can combine.
//!
//! Two features that work alone can fail together. In a run with `--together`, each attempt
//! therefore tries to combine a different triple of features (its *aims*). It cannot always use all
//! three, so the run counts the pairs and triples that actually occurred. To add a feature, add it
//! to [`ALL`] and report it where it occurs.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    Mutex,
    Read,
    Write,
    Permits,
    Several,
    Leads,

    Waits,
    TimesOut,
    Tries,
    GivesUp,

    EntersAgain,
    Downgrades,
    Upgrades,
    SharesObject,
    IsLimited,
    HasGrace,
    Private,
    KazooNames,
    IsAsked,
    IsBroken,
    Transacts,
    OtherClient,
    LimitsWaiters,
    RunsOnce,
    HandsOn,
    Keeps,
}

use Feature::{
    Downgrades, EntersAgain, GivesUp, HandsOn, HasGrace, IsAsked, IsBroken, IsLimited, KazooNames, Keeps,
    Leads, LimitsWaiters, Mutex, OtherClient, Permits, Private, Read, RunsOnce, Several, SharesObject,
    TimesOut, Transacts, Tries, Upgrades, Waits, Write,
};

/// All features.
pub const ALL: [Feature; 26] = [
    Mutex,
    Read,
    Write,
    Permits,
    Several,
    Leads,
    Waits,
    TimesOut,
    Tries,
    GivesUp,
    EntersAgain,
    Downgrades,
    Upgrades,
    SharesObject,
    IsLimited,
    HasGrace,
    Private,
    KazooNames,
    IsAsked,
    IsBroken,
    Transacts,
    OtherClient,
    LimitsWaiters,
    RunsOnce,
    HandsOn,
    Keeps,
];

const KINDS: [Feature; 6] = [Mutex, Read, Write, Permits, Several, Leads];
const STYLES: [Feature; 4] = [Waits, TimesOut, Tries, GivesUp];

/// The features of one attempt.
pub type Features = BTreeSet<Feature>;

/// Returns `true` if no attempt can have both features.
fn excludes(one: Feature, other: Feature) -> bool {
    let both = |group: &[Feature]| group.contains(&one) && group.contains(&other);
    // True if the pair consists of this feature and a kind of lock that is not in `kinds`.
    let only = |feature: Feature, kinds: &[Feature]| {
        let pair = [(one, other), (other, one)];
        pair.iter().any(|(a, b)| *a == feature && KINDS.contains(b) && !kinds.contains(b))
    };
    let is = |a: Feature, b: Feature| (one, other) == (a, b) || (one, other) == (b, a);
    both(&KINDS)
        || both(&STYLES)
        || only(EntersAgain, &[Mutex, Read, Write])
        || only(Downgrades, &[Write])
        || only(Upgrades, &[Read])
        || only(KazooNames, &[Mutex, Read, Write, Several])
        || only(Transacts, &[Mutex])
        || only(OtherClient, &[Several])
        // Only `Mutex` has `once`.
        || only(RunsOnce, &[Mutex])
        // Only the release of an exclusive lock can hand the lock on.
        || only(HandsOn, &[Mutex, Write, Several])
        || only(Keeps, &[Mutex, Read, Write, Several])
        // The limit of waiters counts nodes, but a waiter for a hand-off inside its client has no
        // node.
        || is(HandsOn, LimitsWaiters)
        || is(HandsOn, Upgrades)
        // `Election` has no lock options.
        || is(Leads, LimitsWaiters)
        // Leaders have no hold limit and no grace period, and no contender can ask them to give up.
        || is(Leads, IsLimited)
        || is(Leads, HasGrace)
        || is(Leads, IsAsked)
        || is(Downgrades, Upgrades)
        || is(Downgrades, Transacts)
        || is(Downgrades, OtherClient)
        || is(Upgrades, Transacts)
        || is(Upgrades, OtherClient)
        || is(EntersAgain, OtherClient)
        || is(Transacts, OtherClient)
        // `once` needs a mutex, and the second feature of each pair needs another kind of lock.
        || is(RunsOnce, Downgrades)
        || is(RunsOnce, Upgrades)
        || is(RunsOnce, OtherClient)
}

impl Feature {
    /// Returns `true` if the feature is a kind of lock.
    pub fn is_kind(self) -> bool {
        KINDS.contains(&self)
    }
}

/// All triples that an attempt can have.
static TRIPLES: LazyLock<Vec<Features>> = LazyLock::new(|| combinations(3));

/// Returns all sets of `count` features that an attempt can have.
fn combinations(count: usize) -> Vec<Features> {
    let mut found = vec![Features::new()];
    for _ in 0..count {
        let longer = found.iter().flat_map(|set: &Features| {
            let rest = ALL.iter().filter(|feature| set.last().is_none_or(|last| last < feature));
            let possible = rest.filter(|feature| !set.iter().any(|one| excludes(*one, **feature)));
            possible.map(|feature| set.iter().copied().chain([*feature]).collect()).collect::<Vec<_>>()
        });
        found = longer.collect();
    }
    found
}

/// Returns the aims of an attempt: the triple with this number, and a kind of lock that permits it.
pub fn aims(turn: u64) -> Features {
    let triples = &*TRIPLES;
    let turn = usize::try_from(turn % triples.len() as u64).unwrap_or(0);
    let mut aims = triples[turn].clone();
    if !KINDS.iter().any(|kind| aims.contains(kind)) {
        let kind = KINDS.iter().find(|kind| !aims.iter().any(|aim| excludes(*aim, **kind)));
        aims.extend(kind);
    }
    aims
}

/// The combinations that have occurred.
#[derive(Clone, Debug, Default)]
pub struct Covered {
    pairs: BTreeSet<Features>,
    triples: BTreeSet<Features>,
}

impl Covered {
    /// Adds the combinations of an attempt with these features.
    pub fn meets(&mut self, features: &Features) {
        let all: Vec<_> = features.iter().copied().collect();
        for (place, one) in all.iter().enumerate() {
            for (next, other) in all.iter().enumerate().skip(place + 1) {
                self.pairs.insert([*one, *other].into());
                for third in all.iter().skip(next + 1) {
                    self.triples.insert([*one, *other, *third].into());
                }
            }
        }
    }

    /// Adds the combinations of another simulation.
    pub fn add(&mut self, other: &Self) {
        self.pairs.extend(other.pairs.iter().cloned());
        self.triples.extend(other.triples.iter().cloned());
    }

    /// Returns the lines of a report, or none if the run had no aims.
    pub fn lines(&self) -> Vec<String> {
        if self.pairs.is_empty() {
            return Vec::new();
        }
        let (pairs, triples) = (combinations(2), combinations(3));
        let missing = pairs.iter().filter(|pair| !self.pairs.contains(*pair));
        let missing: Vec<_> = missing.map(|pair| format!("pair not met: {pair:?}")).collect();
        let met = pairs.len() - missing.len();
        let counted = triples.iter().filter(|triple| self.triples.contains(*triple)).count();
        let line =
            format!("{met} of {} pairs of features met, {counted} of {} triples", pairs.len(), triples.len());
        missing.into_iter().chain([line]).collect()
    }

    /// Returns a pair that occurred although [`excludes`] calls it impossible.
    pub fn impossible(&self) -> Option<&Features> {
        let possible = combinations(2);
        self.pairs.iter().find(|pair| !possible.contains(pair))
    }
}
