//! Checks that a waiter is granted a free lock soon while no fault has an effect.
//!
//! A waiter is granted a lock only after a node has disappeared, or after a release within the same
//! client. The simulation lists the nodes of all locks at regular intervals (rounds). In the first
//! round after a grant, it compares the time of the grant with the time at which the last node had
//! disappeared.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock;
use crate::setting::Setting;

/// Maximum wait for a free lock, in milliseconds. A waiter that missed a watch event lists the
/// queue again only much later, so this check finds lost events.
const PROMPT: u64 = 10_000;

/// A grant that is checked in the next round.
#[derive(Debug)]
struct Served {
    place: &'static str,
    node: String,
    /// Time since which the contender has waited while no fault had an effect.
    asked: u64,
    at: u64,
}

/// The contenders that wait, the grants to check, and the times at which nodes disappeared.
#[derive(Debug, Default)]
pub struct Prompt {
    /// True if latencies are so low that no session expires, and no server has dropped watch
    /// events. A waiter that missed a watch event can be granted the lock late.
    quiet: bool,
    /// Time at which the last fault stops affecting clients, which is `settling` milliseconds after
    /// it ends.
    since: u64,
    settling: u64,
    /// Time since which each contender has waited. Only contenders that want a single lock are
    /// included.
    asked: BTreeMap<usize, u64>,
    /// For each directory, its nodes in the last round (`nodes`), and the last time at which a
    /// round found that a node had disappeared (`gone`).
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

    /// Records that a contender requests locks. `one` is true if it requests a single lock.
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

    /// Records a release in a directory as if a node had disappeared. A waiter of the same client
    /// is granted the lock immediately, before the node is deleted.
    pub(super) fn is_left(&mut self, directory: &str) {
        self.gone.insert(directory.to_owned(), clock::now());
    }

    pub(super) fn sees(&mut self, directory: &str, nodes: impl Iterator<Item = String>) {
        let nodes = nodes.collect();
        let before = self.nodes.insert(directory.to_owned(), nodes).unwrap_or_default();
        if before.iter().any(|node| !self.nodes[directory].contains(node)) {
            self.gone.insert(directory.to_owned(), clock::now());
        }
    }

    /// Returns the late grants, each as the node and the delay. A grant is late if every node that
    /// could have blocked it had disappeared more than `PROMPT` earlier.
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
