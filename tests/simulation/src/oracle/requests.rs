//! What contenders ask of each other: to give a lock up, or to lose it.

use std::collections::BTreeMap;

/// The nodes whose owners were asked for their locks, and those that were deleted: since when that is certain.
#[derive(Debug, Default)]
pub struct Requests {
    pub(super) asked: BTreeMap<String, Option<u64>>,
    pub(super) broken: BTreeMap<String, Option<u64>>,
}

impl Requests {
    /// Somebody is about to delete a node.
    pub fn is_to_be_broken(&mut self, node: &str) {
        self.broken.entry(node.to_owned()).or_default();
    }

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
