//! Where our contenders stand, for the driver to ask.

use std::ops::Bound;

use super::super::event::JoinId;
use super::super::name::{Kind, NodeName};
use super::join::{Join, Place, Stage};
use super::listing::SOON;
use super::state::Queue;

impl Queue {
    /// How many contenders stand before this one, as far as is known.
    #[must_use]
    pub fn ahead_of(&self, join: JoinId) -> Option<usize> {
        match &self.joins.get(&join)?.stage {
            Stage::Queued(Place { name, .. }) => {
                let others = self.last_view().map_or(0, |view| view.rank(name));
                Some(others + self.line().rank(name))
            }
            _ => None,
        }
    }

    /// The node of one that waits in the queue.
    #[must_use]
    pub fn node_of(&self, join: JoinId) -> Option<&NodeName> {
        match &self.joins.get(&join)?.stage {
            Stage::Queued(Place { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// The node that a waiter waits for: the nearest before it that it cannot hold with, as far as is known. None for a
    /// permit, for which the order does not matter.
    #[must_use]
    pub fn waits_for(&self, join: JoinId) -> Option<&NodeName> {
        let (name, view) = (self.node_of(join)?, self.last_view().into_iter());
        match self.joins.get(&join)?.kind {
            Kind::Permit(_) => None,
            Kind::Read => {
                let others = view.flat_map(|view| view.writers_before(name)).next_back();
                others.max(self.line().writers().range(..name).next_back())
            }
            Kind::Exclusive | Kind::Write | Kind::Lead => {
                let others = view.flat_map(|view| view.all_before(name)).next_back();
                others.max(self.line().range(..name).map(|(ours, _)| ours).next_back())
            }
        }
    }

    /// Whether at most so many stand before a place that it cannot be held with.
    fn has_at_most_before(&self, limit: usize, name: &NodeName, kind: Kind) -> bool {
        let view = self.last_view();
        match kind {
            Kind::Permit(_) => true,
            Kind::Read => {
                let others = view.into_iter().flat_map(|view| view.writers_before(name));
                others.chain(self.line().writers().range(..name)).nth(limit).is_none()
            }
            Kind::Exclusive | Kind::Write | Kind::Lead => {
                let others = view.into_iter().flat_map(|view| view.all_before(name));
                others.chain(self.line().range(..name).map(|(ours, _)| ours)).nth(limit).is_none()
            }
        }
    }

    /// Whether a node belongs to one of our contenders or holders.
    #[must_use]
    pub fn is_ours(&self, node: &NodeName) -> bool {
        self.line().contains_key(node)
    }

    /// How many nodes of ours there are in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.line().len()
    }

    /// Whether none of ours is in the queue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.line().is_empty()
    }

    /// Our nodes behind this one, in the order of the queue.
    pub fn places_behind(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.line().range::<NodeName, _>((Bound::Excluded(name), Bound::Unbounded)).map(|(name, _)| name)
    }

    /// Our nodes in the order of the queue, at most `limit`.
    pub fn places(&self, limit: usize) -> impl Iterator<Item = &NodeName> {
        self.line().keys().take(limit)
    }

    /// Whether one of ours waits with at most [`NEAR`](super::far::NEAR) before it that it cannot hold with. Others do
    /// not count: a reader is not told of readers that go, and for a permit the order does not matter. A reader in the
    /// place of a writer that its owner holds is near, whoever is before it: that writer leaves only when the reader holds.
    #[must_use]
    pub fn is_near(&self) -> bool {
        let near = |(name, id): (&NodeName, &JoinId)| {
            let Some(Join { kind, stage: Stage::Queued(_), .. }) = self.joins.get(id) else { return false };
            self.has_at_most_before(self.far_beyond.get(), name, *kind)
        };
        // Ours that stand further back have more of ours before them, or are readers like one of these.
        self.has_reader_in_place() || self.line().iter().take(self.far_beyond.get() + 1).any(near)
    }

    /// Whether one that joins to hold alone, or for reading, has others of ours before it that want to hold alone, so that
    /// no listing tells it so: one is sent only for those whose turn may come soon.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.joins.queueing() > SOON
    }

    /// Whether the last listing shows this contender in the queue behind another.
    #[must_use]
    pub fn stands_behind_another(&self, join: JoinId) -> bool {
        match self.joins.get(&join).map(|join| &join.stage) {
            Some(Stage::Queued(place)) if place.confirmed => {
                let ours = self.line().range(..&place.name).next().is_some();
                ours || self.view.as_ref().is_some_and(|view| view.before(&place.name).is_some())
            }
            _ => false,
        }
    }
}
