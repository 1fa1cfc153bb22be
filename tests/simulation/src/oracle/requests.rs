//! What contenders ask of each other: to give a lock up, or to lose it.

use std::collections::BTreeMap;

use super::Oracle;
use crate::clock;

/// The nodes whose owners were asked for their locks, and those that were deleted: since when that is certain.
#[derive(Debug, Default)]
pub struct Requests {
    asked: BTreeMap<String, Option<u64>>,
    broken: BTreeMap<String, Option<u64>>,
}

impl Requests {
    pub fn is_broken(&self, node: &str) -> bool {
        self.broken.contains_key(node)
    }

    /// Since when it is certain that a node is gone.
    pub fn gone_since(&self, node: &str) -> Option<u64> {
        self.broken.get(node).copied().flatten()
    }

    /// Since when it is certain that the owner of a node is asked.
    pub fn asked_since(&self, node: &str) -> Option<u64> {
        self.asked.get(node).copied().flatten()
    }

    pub fn is_asked(&self, node: &str) -> bool {
        self.asked.contains_key(node)
    }
}

impl Oracle {
    /// Somebody is about to ask the owner of a node to give up; or it has been asked for certain.
    pub fn asks_owner(&mut self, node: &str, certainly: bool) {
        let since = self.requests.asked.entry(node.to_owned()).or_default();
        if certainly {
            since.get_or_insert(clock::now());
        }
    }

    /// An operator is about to delete a node; or it is gone for certain.
    pub fn broken(&mut self, node: &str, certainly: bool) {
        self.attempts.excuse();
        let since = self.requests.broken.entry(node.to_owned()).or_default();
        if certainly {
            since.get_or_insert(clock::now());
        }
    }

    /// The nodes of all that say they are held, and may be sure of it.
    pub fn certain_nodes(&self) -> Vec<(String, u64)> {
        let certain = self.holds.iter().filter(|hold| self.is_certain(hold));
        certain.map(|hold| (hold.node.clone(), hold.since)).collect()
    }

    /// Whether the hold through a node is certain.
    pub fn node_is_certain(&self, node: &str) -> bool {
        self.holds.iter().any(|hold| hold.node == node && self.is_certain(hold))
    }
}
