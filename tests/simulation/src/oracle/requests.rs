//! Records requests to give up a lock, and deletions of contenders' nodes.

use std::collections::BTreeMap;

/// The nodes whose owners were asked to give up the lock, and the deleted nodes. Each has the time
/// by which the request or deletion had succeeded, or `None` if that is unknown.
#[derive(Debug, Default)]
pub struct Requests {
    pub(super) asked: BTreeMap<String, Option<u64>>,
    pub(super) broken: BTreeMap<String, Option<u64>>,
}

impl Requests {
    /// Records that a contender is about to delete a node.
    pub fn is_to_be_broken(&mut self, node: &str) {
        self.broken.entry(node.to_owned()).or_default();
    }

    pub fn is_broken(&self, node: &str) -> bool {
        self.broken.contains_key(node)
    }

    /// Returns the time since which a node is certainly gone.
    pub fn gone_since(&self, node: &str) -> Option<u64> {
        self.broken.get(node).copied().flatten()
    }

    pub fn asked_since(&self, node: &str) -> Option<u64> {
        self.asked.get(node).copied().flatten()
    }

    pub fn is_asked(&self, node: &str) -> bool {
        self.asked.contains_key(node)
    }
}
