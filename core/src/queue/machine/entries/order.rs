//! The queue order of all of this client's nodes whose contenders wait, hold the lock, or are being
//! verified.

use std::ops::{Bound, Deref};

use super::rank::Ranks;
use super::replace;
use crate::queue::event::JoinId;
use crate::queue::machine::entry::{Entry, EntryStage};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::rare::{Empty, Rare};
use crate::queue::small_map::{SmallMap, SmallSet};

/// Our nodes in the order of the queue, derived from the contenders.
#[derive(Clone, Debug, Default)]
pub(in crate::queue::machine) struct LocalOrder {
    all: SmallMap<NodeName, JoinId>,
    ranks: Ranks,
    /// Nodes that conflict with readers.
    writers: SmallSet<NodeName>,
    /// Nodes that have been held for long enough to be watched.
    long_held: SmallSet<NodeName>,
    /// Nodes of contenders that have changed since the last call of `take_moved`.
    moved: SmallSet<NodeName>,
    waiting: Rare<WaitingNodes>,
}

/// Nodes of waiters. Most locks that a client holds have none.
#[derive(Clone, Debug, Default)]
struct WaitingNodes {
    /// Nodes of waiters that a listing on this connection has shown.
    ready: SmallSet<NodeName>,
    /// The nodes in `ready` whose contenders want an exclusive hold.
    ready_alone: SmallSet<NodeName>,
    /// Nodes of waiters that no listing on this connection has shown.
    unseen: SmallSet<NodeName>,
}

impl Empty for WaitingNodes {
    const EMPTY: &'static Self =
        &Self { ready: SmallSet::EMPTY, ready_alone: SmallSet::EMPTY, unseen: SmallSet::EMPTY };

    fn is_unused(&self) -> bool {
        self.ready.is_empty() && self.ready_alone.is_empty() && self.unseen.is_empty()
    }
}

impl LocalOrder {
    pub(in crate::queue::machine) fn index(
        &mut self,
        id: JoinId,
        before: Option<&Entry>,
        after: Option<&Entry>,
    ) {
        let (from, to) = (before.and_then(Entry::node), after.and_then(Entry::node));
        if from.is_none() && to.is_none() {
            return;
        }
        if before.map(|join| &join.stage) != after.map(|join| &join.stage) {
            self.moved.extend(from.into_iter().chain(to).cloned());
        }
        if from != to {
            if let Some(name) = from.filter(|name| self.all.remove(*name).is_some()) {
                self.ranks.remove(name.sequence());
            }
            if let Some(name) = to.filter(|name| self.all.insert((*name).clone(), id).is_none()) {
                self.ranks.insert(name.sequence());
            }
        }
        update_names(
            || &mut self.writers,
            before,
            after,
            |join| join.node().filter(|name| name.kind() != Kind::Read),
        );
        update_names(
            || &mut self.waiting.ready,
            before,
            after,
            |join| match &join.stage {
                EntryStage::Queued(place) if place.confirmed => Some(&place.name),
                _ => None,
            },
        );
        update_names(
            || &mut self.waiting.ready_alone,
            before,
            after,
            |join| match &join.stage {
                EntryStage::Queued(place) if place.confirmed && place.name.kind() != Kind::Read => {
                    Some(&place.name)
                }
                _ => None,
            },
        );
        update_names(
            || &mut self.waiting.unseen,
            before,
            after,
            |join| match &join.stage {
                EntryStage::Queued(place) if !place.confirmed => Some(&place.name),
                _ => None,
            },
        );
        update_names(
            || &mut self.long_held,
            before,
            after,
            |join| match &join.stage {
                EntryStage::Held(place) if place.confirmed => Some(&place.name),
                _ => None,
            },
        );
    }

    /// Frees the memory of the sets of waiters' nodes if they are empty.
    pub(in crate::queue::machine) fn trim(&mut self) {
        self.waiting.trim();
    }

    pub(in crate::queue::machine) fn take_moved(&mut self) -> SmallSet<NodeName> {
        std::mem::take(&mut self.moved)
    }

    pub(in crate::queue::machine) fn writers(&self) -> &SmallSet<NodeName> {
        &self.writers
    }

    pub(in crate::queue::machine) fn ready(&self) -> &SmallSet<NodeName> {
        &self.waiting.ready
    }

    /// Returns our first node that no listing on this connection has shown, if fewer than `few`
    /// waiters are ahead of it. Only waiters that want an exclusive hold and that a listing has
    /// shown count.
    pub(in crate::queue::machine) fn unseen_behind_fewer_than(&self, few: usize) -> Option<&NodeName> {
        let first = self.waiting.unseen.first()?;
        self.waiting.ready_alone.range(..first).nth(few - 1).is_none().then_some(first)
    }

    pub(in crate::queue::machine) fn long_held(&self) -> &SmallSet<NodeName> {
        &self.long_held
    }

    /// Returns `true` if a node of ours is ahead of `name` and conflicts with it.
    pub(in crate::queue::machine) fn blocks(&self, name: &NodeName, kind: Kind) -> bool {
        let first = match kind {
            Kind::Read => self.writers.first(),
            Kind::Exclusive | Kind::Write | Kind::Lead => self.all.first_key_value().map(|(first, _)| first),
            Kind::Permit(_) => None,
        };
        first.is_some_and(|first| first < name)
    }

    /// Returns our first node behind `name`. The node `name` can be ours or another client's.
    pub(in crate::queue::machine) fn behind(&self, name: &NodeName) -> Option<&NodeName> {
        let range = (Bound::Excluded(name), Bound::Unbounded);
        self.all.range::<NodeName, _>(range).next().map(|(name, _)| name)
    }

    /// Returns the number of our nodes ahead of `name`. Two nodes can have the same sequence
    /// number, because a downgrade gives the reader the number of its writer.
    pub(in crate::queue::machine) fn rank(&self, name: &NodeName) -> usize {
        let same = NodeName::first_of(name.sequence());
        self.ranks.below(name.sequence()) + self.all.range(same..name.clone()).count()
    }
}

/// Like [`update`](super::update), for an index of nodes.
#[inline]
fn update_names<'a>(
    names: impl FnOnce() -> &'a mut SmallSet<NodeName>,
    before: Option<&Entry>,
    after: Option<&Entry>,
    name: impl Fn(&Entry) -> Option<&NodeName>,
) {
    replace(names, before.and_then(&name), after.and_then(&name));
}

impl Deref for LocalOrder {
    type Target = SmallMap<NodeName, JoinId>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}
