//! What contenders are about to ask of each other, or have asked for certain.

use super::judge::{Mode, Oracle};
use crate::clock;

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

    /// The node of a certain hold of this kind.
    pub(super) fn certain_in(&self, kind: impl Fn(&'static str, Mode) -> bool) -> Option<String> {
        let mut holds = self.holds.iter().filter(|hold| kind(hold.place, hold.mode));
        holds.find(|hold| self.is_certain(hold)).map(|hold| hold.node.clone())
    }

    /// Whether the hold through a node is certain.
    pub fn node_is_certain(&self, node: &str) -> bool {
        self.holds.iter().any(|hold| hold.node == node && self.is_certain(hold))
    }
}
