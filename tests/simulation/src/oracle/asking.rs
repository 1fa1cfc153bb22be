//! Records the actions of contenders that affect other contenders: requests to give up a lock, and
//! broken locks.

use super::judge::{Mode, Oracle};
use crate::clock;

impl Oracle {
    /// Records a request to the owner of a node to give up the lock. Must be called before the
    /// request, and again after the request has succeeded. `certainly` is true in the second call.
    pub fn asks_owner(&mut self, node: &str, certainly: bool) {
        let since = self.requests.asked.entry(node.to_owned()).or_default();
        if certainly {
            since.get_or_insert(clock::now());
        }
    }

    /// Records that an operator or another contender deletes a contender's node. `certainly` is
    /// `true` if the node is known to be deleted, and `false` if only the request was sent.
    pub fn broken(&mut self, node: &str, certainly: bool) {
        self.attempts.excuse();
        let since = self.requests.broken.entry(node.to_owned()).or_default();
        if certainly {
            since.get_or_insert(clock::now());
        }
    }

    /// Returns the node and the grant time of each hold that is certain.
    pub fn certain_nodes(&self) -> Vec<(String, u64)> {
        let certain = self.holds.iter().filter(|hold| self.is_certain(hold));
        certain.map(|hold| (hold.node.clone(), hold.since)).collect()
    }

    /// Returns the node of a certain hold of this kind.
    pub(super) fn certain_in(&self, kind: impl Fn(&'static str, Mode) -> bool) -> Option<String> {
        let mut holds = self.holds.iter().filter(|hold| kind(hold.place, hold.mode));
        holds.find(|hold| self.is_certain(hold)).map(|hold| hold.node.clone())
    }

    /// Returns `true` if the hold through a node is certain.
    pub fn node_is_certain(&self, node: &str) -> bool {
        self.holds.iter().any(|hold| hold.node == node && self.is_certain(hold))
    }
}
