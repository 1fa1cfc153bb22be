//! Rules for nodes that a client keeps without a hold (rule 19): when a node can be kept, which
//! callers can reuse it, and when all kept nodes are given up. The hold table, the driver and the
//! explorer all use these rules.

use super::machine::Company;
use super::node_name::{Kind, NodeName};
use super::small_map::SmallMap;

/// The callers that can reuse a kept node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// No caller. Nodes are deleted when they are released.
    #[default]
    Closed,
    /// Only the driver, on behalf of a waiter, because it is not known yet whether another client
    /// waits.
    Driver,
    /// Every thread. No other client waits, and the watch on the children reports new contenders.
    Everybody,
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
    /// Lets nodes be kept from now on, and lets the driver reuse them.
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

    /// Returns `true` if a node can be kept at its release. `line` is `true` if a waiter without a
    /// node waits for a hand-off.
    #[must_use]
    pub fn may_keep(&self, line: bool) -> bool {
        self.access != Access::Closed && !line
    }

    /// Keeps this node, which has no hold any more.
    pub fn keep(&mut self, node: NodeName, needs: T) {
        self.nodes.insert(node, needs);
    }

    /// Takes a kept node for a caller with this access. `suits` decides whether the caller can use
    /// the node.
    pub fn take(&mut self, access: Access, suits: impl FnOnce(&T) -> bool) -> Option<(NodeName, T)> {
        if self.access < access {
            return None;
        }
        // Only the last node is examined, so the cost does not grow with the number of kept nodes.
        // With the same options, the last node is kept at least as long as any other.
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
    /// `true` if keeping must end because the connection was lost. The driver does not know which
    /// contenders have appeared since then.
    over: bool,
}

/// The facts that decide whether keeping continues.
#[derive(Clone, Copy, Debug)]
pub struct KeepingFacts {
    /// `true` if the session is connected and there is a hold or a kept node.
    pub may_go_on: bool,
    /// `true` if the watch on the children does not fit in the watch budget.
    pub no_room: bool,
    /// `true` if the children are watched, so new contenders will be noticed.
    pub watched: bool,
    /// The contenders of other clients in the last listing.
    pub company: Option<Company>,
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
    /// Creates the state after a grant of a lock of this kind, whose node can be kept.
    #[must_use]
    pub fn begin(kind: Kind) -> Self {
        Self { kind, access: Access::Driver, over: false }
    }

    /// Returns the kind of hold for which nodes are kept.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns `true` if a contender of this kind can hold the lock while other nodes are kept.
    #[must_use]
    pub fn suits(&self, kind: Kind) -> bool {
        kind == Kind::Read && self.kind == Kind::Read
    }

    /// Returns `true` if no known contender of another client waits for the kept nodes.
    #[must_use]
    pub fn stands_beside(&self, company: Option<Company>) -> bool {
        match company {
            None | Some(Company::Nobody) => true,
            Some(Company::Readers) => self.suits(Kind::Read),
            Some(Company::Writers) => false,
        }
    }

    /// Ends keeping at the next step, because the connection is lost.
    pub fn suspend(&mut self) {
        self.over = true;
    }

    /// Decides how keeping continues. `waiters` are the kinds of this client's own waiters.
    #[must_use]
    pub fn settle(&mut self, facts: KeepingFacts, mut waiters: impl Iterator<Item = Kind>) -> KeepingStep {
        let KeepingFacts { may_go_on, no_room, watched, company } = facts;
        if self.over || !may_go_on {
            return KeepingStep::End;
        }
        if no_room {
            return KeepingStep::NoRoom;
        }
        if !self.stands_beside(company) || !waiters.all(|kind| self.suits(kind)) {
            return KeepingStep::GiveWay;
        }
        let access = if watched && company.is_some() { Access::Everybody } else { Access::Driver };
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

    const ALONE: KeepingFacts =
        KeepingFacts { may_go_on: true, no_room: false, watched: true, company: Some(Company::Nobody) };

    fn settled(kind: Kind, facts: KeepingFacts, waiters: &[Kind]) -> KeepingStep {
        KeepingState::begin(kind).settle(facts, waiters.iter().copied())
    }

    #[test]
    fn every_thread_takes_a_node_once_nobody_is_seen_and_the_children_are_watched() {
        let unseen = KeepingFacts { company: None, ..ALONE };
        let unwatched = KeepingFacts { watched: false, ..ALONE };
        assert_eq!(settled(Kind::Exclusive, unseen, &[]), KeepingStep::Unchanged);
        assert_eq!(settled(Kind::Exclusive, unwatched, &[]), KeepingStep::Unchanged);
        let mut state = KeepingState::begin(Kind::Exclusive);
        let mut settle = |facts| state.settle(facts, [].into_iter());
        assert_eq!(settle(ALONE), KeepingStep::Access(Access::Everybody));
        assert_eq!(settle(ALONE), KeepingStep::Unchanged);
        assert_eq!(settle(unwatched), KeepingStep::Access(Access::Driver));
    }

    #[test]
    fn a_contender_that_was_seen_counts_although_the_watch_has_fired() {
        for watched in [true, false] {
            let beside = |company| KeepingFacts { watched, company: Some(company), ..ALONE };
            for (kind, company) in [
                (Kind::Exclusive, Company::Writers),
                (Kind::Exclusive, Company::Readers),
                (Kind::Write, Company::Readers),
                (Kind::Read, Company::Writers),
            ] {
                assert_eq!(settled(kind, beside(company), &[]), KeepingStep::GiveWay);
            }
            assert_ne!(settled(Kind::Read, beside(Company::Readers), &[]), KeepingStep::GiveWay);
        }
    }

    #[test]
    fn waiters_of_the_same_client_count_unless_they_read_beside_readers() {
        assert_eq!(settled(Kind::Read, ALONE, &[Kind::Read]), KeepingStep::Access(Access::Everybody));
        assert_eq!(settled(Kind::Read, ALONE, &[Kind::Read, Kind::Write]), KeepingStep::GiveWay);
        assert_eq!(settled(Kind::Write, ALONE, &[Kind::Write]), KeepingStep::GiveWay);
    }

    #[test]
    fn keeping_ends_without_a_connection_a_hold_or_room_and_after_a_disconnection() {
        let ends = |facts| settled(Kind::Read, facts, &[]);
        assert_eq!(ends(KeepingFacts { may_go_on: false, ..ALONE }), KeepingStep::End);
        assert_eq!(ends(KeepingFacts { no_room: true, ..ALONE }), KeepingStep::NoRoom);
        let mut state = KeepingState::begin(Kind::Read);
        state.suspend();
        assert_eq!(state.settle(ALONE, [].into_iter()), KeepingStep::End);
    }
}
