//! Rules for nodes that a client keeps after a release (rule 19). They decide when a node can be
//! kept, which callers can reuse it, and when all kept nodes are deleted. The hold table, the
//! driver and the tests' explorer all use these rules.

use super::machine::Contention;
use super::node_name::{Kind, NodeName};
use super::small_map::SmallMap;

/// The callers that can reuse a kept node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// No caller. Nodes are deleted when they are released.
    #[default]
    Closed,
    /// Only the driver, which reuses kept nodes for the client's waiters. It does not know yet
    /// whether another client waits.
    Driver,
    /// Every thread. No other client waits, and a watch on the children reports new contenders.
    AnyThread,
}

/// The kept nodes of a lock, each with the data that the next hold needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeptNodes<T> {
    nodes: SmallMap<NodeName, T>,
    access: Access,
}

impl<T> Default for KeptNodes<T> {
    fn default() -> Self {
        Self { nodes: SmallMap::default(), access: Access::default() }
    }
}

impl<T> KeptNodes<T> {
    /// Permits kept nodes from now on, and lets the driver reuse them.
    pub fn open(&mut self) {
        self.access = self.access.max(Access::Driver);
    }

    /// Sets the callers that can reuse a node.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Stops the reuse of nodes. Returns the kept nodes, which the caller must delete.
    pub fn close(&mut self) -> Vec<NodeName> {
        self.access = Access::Closed;
        std::mem::take(&mut self.nodes).keys().cloned().collect()
    }

    /// Returns `true` if a released node can be kept. `line` is `true` if one of this client's
    /// waiters waits for a hand-off.
    #[must_use]
    pub fn may_keep(&self, line: bool) -> bool {
        self.access != Access::Closed && !line
    }

    /// Keeps this node, which has no hold any more.
    pub fn keep(&mut self, node: NodeName, needs: T) {
        self.nodes.insert(node, needs);
    }

    /// Takes a kept node. Returns `None` if callers with this `access` cannot reuse nodes now, or
    /// if the node does not suit the caller.
    pub fn take(&mut self, access: Access, suits: impl FnOnce(&T) -> bool) -> Option<(NodeName, T)> {
        if self.access < access {
            return None;
        }
        // Examine only the last node, so that the cost does not grow with the number of kept nodes.
        // Among nodes with the same options, the last one expires last.
        let (name, needs) = self.nodes.iter().next_back()?;
        if !suits(needs) {
            return None;
        }
        let name = name.clone();
        let needs = self.nodes.remove(&name)?;
        Some((name, needs))
    }

    /// Changes the data that the next hold on a node needs.
    pub fn change(&mut self, node: &NodeName, change: impl FnOnce(&mut T)) {
        self.nodes.get_mut(node).map(change);
    }

    /// Stops keeping this node. Returns `true` if it was kept.
    pub fn forget(&mut self, node: &NodeName) -> bool {
        self.nodes.remove(node).is_some()
    }

    /// Returns `true` if this node is kept.
    #[must_use]
    pub fn contains(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }

    /// Returns `true` if no node is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the kept nodes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, &T)> {
        self.nodes.iter()
    }
}

/// The state of keeping in a directory, as its driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeepingState {
    /// The kind of hold for which nodes are kept.
    kind: Kind,
    /// The callers that can reuse a node now.
    access: Access,
    /// `true` if no more nodes can be kept because the connection was lost: the driver does not
    /// know which contenders have appeared since then.
    must_end: bool,
}

/// The facts that decide whether keeping continues.
#[derive(Clone, Copy, Debug)]
pub struct KeepingFacts {
    /// `true` if the session is connected and there is a hold or a kept node.
    pub can_continue: bool,
    /// `true` if the watch budget has no room for a watch on the children.
    pub no_room: bool,
    /// `true` if the children are watched, so that the client notices new contenders.
    pub watched: bool,
    /// The contenders of other clients in the last listing.
    pub contention: Option<Contention>,
}

/// The next step of keeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepingStep {
    /// Keeping continues without a change.
    Unchanged,
    /// From now on, these callers can reuse a node.
    Access(Access),
    /// Keeping ends.
    End,
    /// Keeping ends because there is no room for a watch.
    NoRoom,
    /// Keeping ends in favor of a waiter.
    GiveWay,
}

impl KeepingState {
    /// Returns the initial state after a lock of this kind is granted. The client can then keep the
    /// lock's node after a release.
    #[must_use]
    pub fn begin(kind: Kind) -> Self {
        Self { kind, access: Access::Driver, must_end: false }
    }

    /// Returns the kind of hold for which nodes are kept.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns `true` if a contender of this kind can hold the lock while nodes are kept. This
    /// requires that the contender and the kept nodes are readers.
    #[must_use]
    pub fn suits(&self, kind: Kind) -> bool {
        kind == Kind::Read && self.kind == Kind::Read
    }

    /// Returns `true` if no known contender of another client must wait because nodes are kept.
    #[must_use]
    pub fn is_compatible_with(&self, contention: Option<Contention>) -> bool {
        match contention {
            None | Some(Contention::Uncontended) => true,
            Some(Contention::Readers) => self.suits(Kind::Read),
            Some(Contention::Writers) => false,
        }
    }

    /// Ends keeping at the next step, because the connection is lost.
    pub fn suspend(&mut self) {
        self.must_end = true;
    }

    /// Decides whether nodes are still kept, and which callers can reuse them. `waiters` are the
    /// kinds of this client's own waiters.
    #[must_use]
    pub fn next_step(&mut self, facts: KeepingFacts, mut waiters: impl Iterator<Item = Kind>) -> KeepingStep {
        let KeepingFacts { can_continue, no_room, watched, contention } = facts;
        if self.must_end || !can_continue {
            return KeepingStep::End;
        }
        if no_room {
            return KeepingStep::NoRoom;
        }
        if !self.is_compatible_with(contention) || !waiters.all(|kind| self.suits(kind)) {
            return KeepingStep::GiveWay;
        }
        let access = if watched && contention.is_some() { Access::AnyThread } else { Access::Driver };
        if access == self.access {
            return KeepingStep::Unchanged;
        }
        self.access = access;
        KeepingStep::Access(access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: KeepingFacts = KeepingFacts {
        can_continue: true,
        no_room: false,
        watched: true,
        contention: Some(Contention::Uncontended),
    };

    fn first_step(kind: Kind, facts: KeepingFacts, waiters: &[Kind]) -> KeepingStep {
        KeepingState::begin(kind).next_step(facts, waiters.iter().copied())
    }

    #[test]
    fn every_thread_takes_a_node_once_nobody_is_seen_and_the_children_are_watched() {
        let unseen = KeepingFacts { contention: None, ..ALONE };
        let unwatched = KeepingFacts { watched: false, ..ALONE };
        assert_eq!(first_step(Kind::Exclusive, unseen, &[]), KeepingStep::Unchanged);
        assert_eq!(first_step(Kind::Exclusive, unwatched, &[]), KeepingStep::Unchanged);
        let mut state = KeepingState::begin(Kind::Exclusive);
        let mut next_step = |facts| state.next_step(facts, [].into_iter());
        assert_eq!(next_step(ALONE), KeepingStep::Access(Access::AnyThread));
        assert_eq!(next_step(ALONE), KeepingStep::Unchanged);
        assert_eq!(next_step(unwatched), KeepingStep::Access(Access::Driver));
    }

    #[test]
    fn a_contender_that_was_seen_counts_although_the_watch_has_fired() {
        for watched in [true, false] {
            let beside = |contention| KeepingFacts { watched, contention: Some(contention), ..ALONE };
            for (kind, contention) in [
                (Kind::Exclusive, Contention::Writers),
                (Kind::Exclusive, Contention::Readers),
                (Kind::Write, Contention::Readers),
                (Kind::Read, Contention::Writers),
            ] {
                assert_eq!(first_step(kind, beside(contention), &[]), KeepingStep::GiveWay);
            }
            assert_ne!(first_step(Kind::Read, beside(Contention::Readers), &[]), KeepingStep::GiveWay);
        }
    }

    #[test]
    fn waiters_of_the_same_client_count_unless_they_read_beside_readers() {
        assert_eq!(first_step(Kind::Read, ALONE, &[Kind::Read]), KeepingStep::Access(Access::AnyThread));
        assert_eq!(first_step(Kind::Read, ALONE, &[Kind::Read, Kind::Write]), KeepingStep::GiveWay);
        assert_eq!(first_step(Kind::Write, ALONE, &[Kind::Write]), KeepingStep::GiveWay);
    }

    #[test]
    fn keeping_ends_without_a_connection_a_hold_or_room_and_after_a_disconnection() {
        let ends = |facts| first_step(Kind::Read, facts, &[]);
        assert_eq!(ends(KeepingFacts { can_continue: false, ..ALONE }), KeepingStep::End);
        assert_eq!(ends(KeepingFacts { no_room: true, ..ALONE }), KeepingStep::NoRoom);
        let mut state = KeepingState::begin(Kind::Read);
        state.suspend();
        assert_eq!(state.next_step(ALONE, [].into_iter()), KeepingStep::End);
    }
}
