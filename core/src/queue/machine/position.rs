//! Where our contenders stand, for the driver to ask.

use std::ops::Bound;

use super::Queue;
use super::entry::{Entry, EntryStage, QueuePlace};
use super::listing::SOON;
use crate::queue::event::{JoinId, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;

impl Queue {
    /// How many contenders stand before this one, as far as is known.
    #[must_use]
    pub fn ahead_of(&self, join: JoinId) -> Option<usize> {
        match &self.entries.get(&join)?.stage {
            EntryStage::Queued(QueuePlace { name, .. }) => {
                let others = self.last_view().map_or(0, |view| view.rank(name));
                Some(others + self.line().rank(name))
            }
            _ => None,
        }
    }

    /// The node of one that waits in the queue.
    #[must_use]
    pub fn node_of(&self, join: JoinId) -> Option<&NodeName> {
        match &self.entries.get(&join)?.stage {
            EntryStage::Queued(QueuePlace { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// The node that a waiter waits for: the nearest before it that it cannot hold with, as far as is known. None for a
    /// permit, for which the order does not matter.
    #[must_use]
    pub fn waits_for(&self, join: JoinId) -> Option<&NodeName> {
        let (name, view) = (self.node_of(join)?, self.last_view().into_iter());
        match self.entries.get(&join)?.kind {
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

    /// Whether one of ours waits with at most [`NEAR`](crate::queue::machine::position::NEAR) before it that it cannot hold with. Others do
    /// not count: a reader is not told of readers that go, and for a permit the order does not matter. A reader in the
    /// place of a writer that its owner holds is near, whoever is before it: that writer leaves only when the reader holds.
    #[must_use]
    pub fn is_near(&self) -> bool {
        let near = |(name, id): (&NodeName, &JoinId)| {
            let Some(Entry { kind, stage: EntryStage::Queued(_), .. }) = self.entries.get(id) else {
                return false;
            };
            self.has_at_most_before(self.far_beyond.get(), name, *kind)
        };
        // Ours that stand further back have more of ours before them, or are readers like one of these.
        self.has_reader_in_place() || self.line().iter().take(self.far_beyond.get() + 1).any(near)
    }

    /// Whether one that joins to hold alone, or for reading, has others of ours before it that want to hold alone, so that
    /// no listing tells it so: one is sent only for those whose turn may come soon.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.entries.queueing() > SOON
    }

    /// Whether the last listing shows this contender in the queue behind another.
    #[must_use]
    pub fn stands_behind_another(&self, join: JoinId) -> bool {
        match self.entries.get(&join).map(|join| &join.stage) {
            Some(EntryStage::Queued(place)) if place.confirmed => {
                let ours = self.line().range(..&place.name).next().is_some();
                ours || self.view.as_ref().is_some_and(|view| view.before(&place.name).is_some())
            }
            _ => false,
        }
    }
}

/// How many of the nearest are told of.
const NEAREST: usize = 2;

/// How many are told of that have permits.
const PERMITS: usize = 16;

/// A contender that blocks another, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContenderAhead {
    /// Its node.
    pub name: NodeName,
    /// How many stand before it.
    pub position: usize,
    /// Whether it is known to hold.
    pub holds: bool,
    /// How more is known of it.
    pub known: Known,
}

/// How something is known of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is one of ours, with a node that this transaction created.
    Ours(JoinId, i64),
    /// It is another client's, and watched with this ticket.
    Watched(Ticket),
    /// It is another client's, in a directory of permits, where nodes are not watched.
    Listed,
}

impl Queue {
    /// Those that stand in the way of a contender and of which more is known than a name, in the order of the queue:
    /// the first of all and the two nearest; of permits, which have no order, some of those that have them.
    #[must_use]
    pub fn in_the_way(&self, join: JoinId) -> Vec<ContenderAhead> {
        let Some(waiter) = self.entries.get(&join) else { return Vec::new() };
        let EntryStage::Queued(QueuePlace { name, .. }) = &waiter.stage else { return Vec::new() };
        self.in_the_way_of(waiter.kind, Some(name))
    }

    /// The same for one that would join now.
    #[must_use]
    pub fn in_the_way_of_newcomer(&self, kind: Kind) -> Vec<ContenderAhead> {
        self.in_the_way_of(kind, None)
    }

    /// Of a contender at `name`, or behind all others.
    fn in_the_way_of(&self, kind: Kind, name: Option<&NodeName>) -> Vec<ContenderAhead> {
        let view = self.last_view();
        let end = name.map_or(Bound::Unbounded, Bound::Excluded);
        let before = (Bound::<&NodeName>::Unbounded, end);
        let mut names: Vec<&NodeName> = Vec::new();
        match kind {
            Kind::Permit(_) => {
                names.extend(view.into_iter().flat_map(RemoteView::all).take(PERMITS));
                names.extend(self.places(PERMITS));
            }
            Kind::Read => {
                let all = view.filter(|_| name.is_none()).into_iter().flat_map(RemoteView::all_writers);
                let some = view.zip(name).into_iter().flat_map(|(view, name)| view.writers_before(name));
                let mut others = all.chain(some);
                let mut ours = self.line().writers().range(before);
                names.extend(others.next().into_iter().chain(others.rev().take(NEAREST)));
                names.extend(ours.next().into_iter().chain(ours.rev().take(NEAREST)));
            }
            Kind::Exclusive | Kind::Write | Kind::Lead => {
                let all = view.filter(|_| name.is_none()).into_iter().flat_map(RemoteView::all);
                let some = view.zip(name).into_iter().flat_map(|(view, name)| view.all_before(name));
                let mut others = all.chain(some);
                let mut ours = self.line().range(before).map(|(ours, _)| ours);
                names.extend(others.next().into_iter().chain(others.rev().take(NEAREST)));
                names.extend(ours.next().into_iter().chain(ours.rev().take(NEAREST)));
            }
        }
        names.sort_unstable();
        names.dedup();
        let far = names.len().saturating_sub(NEAREST);
        let permits = matches!(kind, Kind::Permit(_));
        let mut standing: Vec<_> = names.iter().filter_map(|name| self.standing(name, permits)).collect();
        if permits {
            standing.retain(|other| other.holds);
            standing.truncate(PERMITS);
        } else {
            // Contenders between the first and the nearest block nobody now.
            let near = names.get(far.max(1)..).unwrap_or_default();
            standing.retain(|other| other.position == 0 || other.holds || near.contains(&&other.name));
        }
        standing
    }

    fn standing(&self, name: &NodeName, permits: bool) -> Option<ContenderAhead> {
        let rank = |name| self.last_view().map_or(0, |view| view.rank(name));
        let position = rank(name) + self.line().rank(name);
        let ours = self.line().get(name).copied();
        let (holds, known) = match ours.map(|id| (id, self.entries.get(&id).map(|join| &join.stage))) {
            Some((id, Some(EntryStage::Held(place)))) => (true, Known::Ours(id, place.czxid)),
            Some((id, Some(EntryStage::Queued(place)))) => (false, Known::Ours(id, place.czxid)),
            Some(_) => return None,
            // Nodes of others hold: only the client whose turn it is waits here (rule 17).
            None if permits => (true, Known::Listed),
            None => {
                (self.is_first_of_its_kind(name, position), Known::Watched(self.watches.get(name)?.ticket))
            }
        };
        Some(ContenderAhead { name: name.clone(), position, holds, known })
    }

    /// Whether another client's contender holds, going by those before it.
    fn is_first_of_its_kind(&self, name: &NodeName, position: usize) -> bool {
        let writers = || {
            let others = self.last_view().is_some_and(|view| view.writers_before(name).next().is_some());
            others || self.line().writers().range(..name).next().is_some()
        };
        position == 0 || name.kind() == Kind::Read && !writers()
    }
}

/// A waiter with at most this many before it may soon hold: the term must run when its turn comes.
pub const NEAR: usize = 2;

/// A waiter with more than this many before it is far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FarBeyond(u8);

impl FarBeyond {
    pub(super) fn new(limit: u8) -> Self {
        Self(limit)
    }

    pub(super) fn get(self) -> usize {
        self.0.into()
    }
}

impl Default for FarBeyond {
    fn default() -> Self {
        Self(u8::try_from(NEAR).unwrap_or(u8::MAX))
    }
}
