//! This client's contenders for one lock, and which of them an event may concern.

mod counts;
pub(super) mod order;
mod rank;

use std::hash::{Hash, Hasher};
use std::ops::Deref;

use self::counts::{Census, Class};
use self::order::LocalOrder;
use super::entry::{Entry, EntryStage};
use crate::queue::event::{Intent, JoinId, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::small_map::{SmallMap, SmallSet};

/// The contenders.
///
/// Thousands may hold together or wait for their turn, and nearly every event concerns one of them or none, so drawing
/// conclusions from an event must not mean looking at all of them. Every question that a conclusion asks has an index
/// here. The indexes follow from the contenders: [`change`](Self::change) keeps them so.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    all: SmallMap<JoinId, Entry>,
    line: LocalOrder,
    idle: SmallSet<JoinId>,
    looking: SmallSet<JoinId>,
    /// Whose create, or whose look at a Stat, has this ticket.
    asked: SmallSet<(Ticket, JoinId)>,
    /// Only try, and have a place.
    trying: SmallSet<JoinId>,
    /// Belong in a writer's place, and do not hold yet.
    downgrading: SmallSet<JoinId>,
    /// Hold, and are leaving.
    departing: SmallSet<JoinId>,
    /// Hold.
    holding: Census,
    /// Are not leaving, and do more than look whether the lock is free.
    staying: Census,
    /// Wait for one of so many permits, and are not leaving.
    wanting: SmallSet<(u32, JoinId)>,
    /// Were seen in the queue, and wait for a permit.
    awaiting: SmallSet<JoinId>,
    /// Are not leaving, and have a place to wait in or are about to.
    queueing: Census,
}

impl Entries {
    pub(super) fn insert(&mut self, id: JoinId, join: Entry) {
        self.index(id, None, Some(&join));
        self.all.insert(id, join);
    }

    pub(super) fn remove(&mut self, id: JoinId) {
        if let Some(join) = self.all.remove(&id) {
            self.index(id, Some(&join), None);
        }
    }

    /// Removes all.
    pub(super) fn take_all(&mut self) -> SmallMap<JoinId, Entry> {
        std::mem::take(self).all
    }

    /// Changes a contender, if there is such a one.
    pub(super) fn change<T>(&mut self, id: JoinId, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let join = self.all.get_mut(&id)?;
        let before = join.clone();
        let told = change(join);
        let after = join.clone();
        self.index(id, Some(&before), Some(&after));
        Some(told)
    }

    pub(super) fn set_stage(&mut self, id: JoinId, stage: EntryStage) {
        self.change(id, |join| join.stage = stage);
    }

    fn index(&mut self, id: JoinId, before: Option<&Entry>, after: Option<&Entry>) {
        let queued = |join: &Entry| matches!(join.stage, EntryStage::Queued(_));
        self.line.index(id, before, after);
        update(&mut self.idle, before, after, |join| (join.stage == EntryStage::Idle).then_some(id));
        update(&mut self.looking, before, after, |join| match join.stage {
            EntryStage::Looking(_) => Some(id),
            _ => None,
        });
        update(&mut self.asked, before, after, |join| match join.stage {
            EntryStage::Creating(ticket) | EntryStage::Verifying(ticket, _) => Some((ticket, id)),
            _ => None,
        });
        update(&mut self.trying, before, after, |join| {
            (join.intent.only_tries() && queued(join)).then_some(id)
        });
        update(&mut self.downgrading, before, after, |join| {
            (matches!(join.intent, Intent::Downgrade { .. }) && !join.is_held()).then_some(id)
        });
        update(&mut self.departing, before, after, |join| (join.is_held() && join.leaving).then_some(id));
        self.holding.update(before, after, Entry::is_held);
        self.staying
            .update(before, after, |join| !join.leaving && !matches!(join.stage, EntryStage::Looking(_)));
        update(&mut self.wanting, before, after, |join| match join.kind {
            Kind::Permit(permits) if !join.leaving && !join.is_held() => Some((permits, id)),
            _ => None,
        });
        update(&mut self.awaiting, before, after, |join| match (&join.stage, join.kind) {
            (EntryStage::Queued(place), Kind::Permit(_)) if place.confirmed => Some(id),
            _ => None,
        });
        self.queueing.update(before, after, |join| {
            matches!(join.stage, EntryStage::Creating(_) | EntryStage::Queued(_)) && !join.leaving
        });
    }

    pub(super) fn line(&self) -> &LocalOrder {
        &self.line
    }

    /// The nodes whose contenders were changed since the last call.
    pub(super) fn take_moved(&mut self) -> SmallSet<NodeName> {
        self.line.take_moved()
    }

    pub(super) fn idle(&self) -> impl Iterator<Item = JoinId> {
        self.idle.iter().copied()
    }

    pub(super) fn looking(&self) -> impl Iterator<Item = (JoinId, &Entry)> {
        self.with_ids(&self.looking)
    }

    pub(super) fn trying(&self) -> impl Iterator<Item = (JoinId, &Entry)> {
        self.with_ids(&self.trying)
    }

    pub(super) fn downgrading(&self) -> impl Iterator<Item = (JoinId, &Entry)> {
        self.with_ids(&self.downgrading)
    }

    pub(super) fn departing(&self) -> impl Iterator<Item = (JoinId, &Entry)> {
        self.with_ids(&self.departing)
    }

    /// Those that were seen in the queue, and wait for a permit.
    pub(super) fn awaiting(&self) -> impl Iterator<Item = JoinId> {
        self.awaiting.iter().copied()
    }

    fn with_ids<'a>(&'a self, ids: &'a SmallSet<JoinId>) -> impl Iterator<Item = (JoinId, &'a Entry)> {
        ids.iter().filter_map(|id| Some((*id, self.all.get(id)?)))
    }

    /// Whose create, or whose look at a Stat, has this ticket.
    pub(super) fn asked(&self, ticket: Ticket) -> Option<JoinId> {
        let (found, id) = self.asked.range((ticket, JoinId(0))..).next()?;
        (*found == ticket).then_some(*id)
    }

    /// How many wait to hold alone, or are about to.
    pub(super) fn queueing(&self) -> usize {
        self.queueing.of(Class::Alone)
    }

    /// How many hold.
    pub(super) fn holders(&self) -> usize {
        self.holding.all()
    }

    /// Whether a holder cannot hold together with this kind.
    pub(super) fn hold_against(&self, kind: Kind) -> bool {
        self.holding.conflicts(kind)
    }

    /// Whether one that is not leaving, and does more than look, cannot hold together with this kind.
    pub(super) fn contend_against(&self, kind: Kind) -> bool {
        self.staying.conflicts(kind)
    }

    /// The lowest number of permits that a waiter knows of.
    pub(super) fn permits(&self) -> Option<usize> {
        self.wanting.first().map(|(permits, _)| *permits as usize)
    }

    /// Whether any of them asks for or holds a permit.
    pub(super) fn of_permits(&self) -> bool {
        let looks = || self.looking().next().is_some_and(|(_, join)| matches!(join.kind, Kind::Permit(_)));
        self.holding.of(Class::Permit) > 0 || self.staying.of(Class::Permit) > 0 || looks()
    }
}

impl Deref for Entries {
    type Target = SmallMap<JoinId, Entry>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

/// The indexes follow from the contenders.
impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Entries {}

impl Hash for Entries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.all.hash(state);
    }
}

/// Moves a contender's key to where it belongs now.
#[inline]
pub(in crate::queue::machine) fn update<K: Ord>(
    keys: &mut SmallSet<K>,
    before: Option<&Entry>,
    after: Option<&Entry>,
    key: impl Fn(&Entry) -> Option<K>,
) {
    let (before, after) = (before.and_then(&key), after.and_then(&key));
    if before != after {
        if let Some(before) = before {
            keys.remove(&before);
        }
        keys.extend(after);
    }
}
