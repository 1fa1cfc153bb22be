//! Nodes that a client keeps although nobody holds through them (rule 19): when one may be kept, who may take it again, and
//! when all are given up. The holds and the driver decide by these rules, and so does the explorer.

use super::machine::Company;
use super::node_name::{Kind, NodeName};
use super::small_map::SmallMap;

/// Whether a node that is kept may be taken, and from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Nobody: nodes are deleted when they are released.
    #[default]
    Closed,
    /// The driver, for a waiter: it is not known yet whether somebody else waits.
    Driver,
    /// Every thread: nobody else waits, and the driver will be told if somebody comes.
    Everybody,
}

/// The nodes of a lock that are kept, each with what the next hold needs.
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
    /// Nodes may be kept from now on, and the driver may take them.
    pub fn open(&mut self) {
        self.access = self.access.max(Access::Driver);
    }

    /// Says who may take a node.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Nobody may take a node any more. Returns those that are to be deleted.
    pub fn close(&mut self) -> Vec<NodeName> {
        self.access = Access::Closed;
        std::mem::take(&mut self.nodes).keys().cloned().collect()
    }

    /// Whether a node may be kept when it is released. `line`: somebody waits for its holder to hand it on.
    #[must_use]
    pub fn may_keep(&self, line: bool) -> bool {
        self.access != Access::Closed && !line
    }

    /// Nobody holds through this node, which is kept.
    pub fn keep(&mut self, node: NodeName, needs: T) {
        self.nodes.insert(node, needs);
    }

    /// Takes a node for one with this access, if it suits.
    pub fn take(&mut self, access: Access, suits: impl FnOnce(&T) -> bool) -> Option<(NodeName, T)> {
        if self.access < access {
            return None;
        }
        // One look, however many are kept: with the same options the last is kept for as long as any.
        let (name, needs) = self.nodes.iter().next_back()?;
        if !suits(needs) {
            return None;
        }
        let name = name.clone();
        let needs = self.nodes.remove(&name)?;
        Some((name, needs))
    }

    /// Changes what the next hold on a node needs.
    pub fn change(&mut self, node: &NodeName, change: impl FnOnce(&mut T)) {
        self.nodes.get_mut(node).map(change);
    }

    /// This node is not kept any more. Returns whether it was.
    pub fn forget(&mut self, node: &NodeName) -> bool {
        self.nodes.remove(node).is_some()
    }

    /// Whether this node is kept.
    #[must_use]
    pub fn contains(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes that are kept, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, &T)> {
        self.nodes.iter()
    }
}

/// Nodes of a directory may be kept, as its driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeepingState {
    /// For which they are kept.
    kind: Kind,
    /// From where one may be taken now.
    access: Access,
    /// Whether it is to end, because the connection was lost: who came since then is not known.
    over: bool,
}

/// The facts by which a driver decides how keeping goes on.
#[derive(Clone, Copy, Debug)]
pub struct KeepingFacts {
    /// The session is connected, and there is a hold or a node that is kept.
    pub may_go_on: bool,
    /// There is no room for a watch on the children.
    pub no_room: bool,
    /// The children are watched: who comes from now on will be noticed.
    pub watched: bool,
    /// The contenders of other clients that were seen last.
    pub company: Option<Company>,
}

/// How keeping goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepingStep {
    /// As before.
    Unchanged,
    /// From now on these may take a node.
    Access(Access),
    /// It ends.
    End,
    /// It ends, because there is no room for a watch.
    NoRoom,
    /// It ends for somebody who waits.
    GiveWay,
}

impl KeepingState {
    /// A lock of this kind was granted, and its node may be kept.
    #[must_use]
    pub fn begin(kind: Kind) -> Self {
        Self { kind, access: Access::Driver, over: false }
    }

    /// For which kind of lock nodes are kept.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a contender that waits for this can hold beside the nodes that are kept.
    #[must_use]
    pub fn suits(&self, kind: Kind) -> bool {
        kind == Kind::Read && self.kind == Kind::Read
    }

    /// Whether none of these waits for the nodes that are kept, as far as is known.
    #[must_use]
    pub fn stands_beside(&self, company: Option<Company>) -> bool {
        match company {
            None | Some(Company::Nobody) => true,
            Some(Company::Readers) => self.suits(Kind::Read),
            Some(Company::Writers) => false,
        }
    }

    /// The connection is lost: from now on no node is taken again.
    pub fn suspend(&mut self) {
        self.over = true;
    }

    /// Decides how it goes on. `waiters`: for what this client's own wait.
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
