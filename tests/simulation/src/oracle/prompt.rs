//! Whether who waits for what is free gets it soon, while nothing befalls anybody.
//!
//! Nobody can be served but because a node is gone that was there before, or was released within the same client. The
//! nodes of all locks are looked at in regular rounds; so whoever is served is judged in the next one, by when a node was
//! last found to be gone.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock;
use crate::setting::Setting;

/// Within this time who waits is granted what is free: well below the time after which a queue looks again in any case.
const PROMPT: u64 = 10_000;

/// A contender was served.
#[derive(Debug)]
struct Served {
    place: &'static str,
    node: String,
    /// Since when it has asked undisturbed.
    asked: u64,
    at: u64,
}

/// Who has asked since when, who was served, and when nodes went.
#[derive(Debug, Default)]
pub struct Prompt {
    /// Whether latencies are so low that sessions never end because of them, and no server has kept news of watches to
    /// itself: what it did not tell, nobody will.
    quiet: bool,
    /// Since when everything has settled after what befell somebody last, and how long that takes.
    since: u64,
    settling: u64,
    /// Since when contenders have asked for the one thing that they want.
    asked: BTreeMap<usize, u64>,
    /// The nodes that were there in the last round, and when one was last found to be gone, by directory.
    nodes: BTreeMap<String, BTreeSet<String>>,
    gone: BTreeMap<String, u64>,
    /// Those who were served since.
    served: Vec<Served>,
}

impl Prompt {
    pub fn new(setting: &Setting) -> Self {
        let quiet = 200 * setting.latency <= setting.timeout;
        Self { quiet, settling: 2 * setting.timeout + 2000, ..Self::default() }
    }

    /// Something befalls somebody, or no longer does.
    pub fn disturbed(&mut self) {
        self.since = clock::now() + self.settling;
    }

    /// A server keeps news to itself.
    pub fn muted(&mut self) {
        self.quiet = false;
    }

    /// A contender asks for one thing; or for several, one after the other.
    pub fn asks(&mut self, contender: usize, one: bool) {
        self.asked.remove(&contender);
        if one {
            self.asked.insert(contender, clock::now());
        }
    }

    /// A contender has what it asked for.
    pub(super) fn is_served(&mut self, contender: usize, place: &'static str, node: &str) {
        let at = clock::now();
        if let Some(asked) = self.asked.get(&contender).filter(|_| self.quiet && self.since <= at) {
            let asked = *asked.max(&self.since);
            self.served.push(Served { place, node: node.to_owned(), asked, at });
        }
    }

    /// Who holds through a node in a directory releases it. Whoever waits next in the same client is served at once, before
    /// the node is gone.
    pub(super) fn is_left(&mut self, directory: &str) {
        self.gone.insert(directory.to_owned(), clock::now());
    }

    /// These nodes are in a directory.
    pub(super) fn sees(&mut self, directory: &str, nodes: impl Iterator<Item = String>) {
        let nodes = nodes.collect();
        let before = self.nodes.insert(directory.to_owned(), nodes).unwrap_or_default();
        if before.iter().any(|node| !self.nodes[directory].contains(node)) {
            self.gone.insert(directory.to_owned(), clock::now());
        }
    }

    /// Everything was looked at: those who were served long after the last node was gone that could have been in the way.
    /// Returns their nodes, and for how long nobody had gone.
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
