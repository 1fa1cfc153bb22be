//! Checks that a waiter gets a free lock soon while no fault has an effect.
//!
//! A waiter is granted a lock only after a node has disappeared, or after a release within the same
//! client. The simulation lists the nodes of all locks at regular intervals (rounds). A grant is
//! therefore checked in the next round, against the time at which a node was last seen to be gone.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock;
use crate::setting::Setting;

/// Maximum wait for a free lock, in milliseconds. It is well below the interval after which a
/// client lists a queue again if it has received no event.
const PROMPT: u64 = 10_000;

/// A grant that is checked in the next round.
#[derive(Debug)]
struct Served {
    place: &'static str,
    node: String,
    /// Time since which the grant's contender has waited without a disturbance.
    asked: u64,
    at: u64,
}

/// Contenders that wait, grants to judge, and the times at which nodes disappeared.
#[derive(Debug, Default)]
pub struct Prompt {
    /// True if latencies are too low to end sessions and no server has dropped watch events.
    /// Nothing else would notify a waiter whose event was dropped.
    quiet: bool,
    /// Time at which the effects of the last fault were over, and duration of such effects.
    since: u64,
    settling: u64,
    /// Time since which each contender has waited. Only contenders that want a single lock are
    /// included.
    asked: BTreeMap<usize, u64>,
    /// For each directory, the nodes of the last round and the time at which a node was last seen
    /// to be gone.
    nodes: BTreeMap<String, BTreeSet<String>>,
    gone: BTreeMap<String, u64>,
    /// The grants since the last round.
    served: Vec<Served>,
}

impl Prompt {
    pub fn new(setting: &Setting) -> Self {
        let quiet = 200 * setting.latency <= setting.timeout;
        Self { quiet, settling: 2 * setting.timeout + 2000, ..Self::default() }
    }

    /// Records that a fault begins or ends.
    pub fn disturbed(&mut self) {
        self.since = clock::now() + self.settling;
    }

    /// Records that a server drops watch events.
    pub fn muted(&mut self) {
        self.quiet = false;
    }

    /// Records that a contender asks for one lock, or for several in sequence.
    pub fn asks(&mut self, contender: usize, one: bool) {
        self.asked.remove(&contender);
        if one {
            self.asked.insert(contender, clock::now());
        }
    }

    /// Records that a contender was granted a lock.
    pub(super) fn is_served(&mut self, contender: usize, place: &'static str, node: &str) {
        let at = clock::now();
        if let Some(asked) = self.asked.get(&contender).filter(|_| self.quiet && self.since <= at) {
            let asked = *asked.max(&self.since);
            self.served.push(Served { place, node: node.to_owned(), asked, at });
        }
    }

    /// Records a release in a directory. The next waiter of the same client is granted the lock
    /// immediately, before the node is gone.
    pub(super) fn is_left(&mut self, directory: &str) {
        self.gone.insert(directory.to_owned(), clock::now());
    }

    /// Compares the nodes of a directory with those of the last round, and records that nodes have
    /// disappeared.
    pub(super) fn sees(&mut self, directory: &str, nodes: impl Iterator<Item = String>) {
        let nodes = nodes.collect();
        let before = self.nodes.insert(directory.to_owned(), nodes).unwrap_or_default();
        if before.iter().any(|node| !self.nodes[directory].contains(node)) {
            self.gone.insert(directory.to_owned(), clock::now());
        }
    }

    /// Returns the nodes that were granted late, with their delays. A grant is late if the last
    /// node that could have blocked it was gone long before.
    pub(super) fn take_late(&mut self) -> Vec<(String, u64)> {
        let served = std::mem::take(&mut self.served).into_iter();
        let waited = served.map(|Served { place, node, asked, at }| {
            let gone = self.gone.iter().filter(|(directory, _)| directory.starts_with(place));
            let gone = gone.map(|(_, gone)| *gone).max().unwrap_or(0);
            (node, at.saturating_sub(gone.max(asked)))
        });
        waited.filter(|(_, waited)| *waited > PROMPT).collect()
    }
}
