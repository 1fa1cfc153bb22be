//! This client's contenders for one lock, with indexes to find the few contenders that an event
//! affects.

mod counts;
pub(super) mod order;
mod rank;

use std::hash::{Hash, Hasher};
use std::ops::Deref;

use self::counts::{Class, ClassCounts};
use self::order::LocalOrder;
use super::entry::{Entry, EntryStage};
use crate::queue::event::{Intent, JoinId, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::rare::{Empty, Rare};
use crate::queue::small_map::{SmallMap, SmallSet};

/// The contenders.
///
/// Thousands of contenders can hold the lock or wait for it at the same time, and nearly every
/// event affects at most one of them. So a flush does not examine all of them, but finds the
/// affected contenders through indexes. [`change`](Self::change) keeps the indexes up to date.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    all: SmallMap<JoinId, Entry>,
    indexes: Indexes,
}

/// The indexes, which are derived from the contenders.
#[derive(Clone, Debug, Default)]
struct Indexes {
    line: LocalOrder,
    idle: SmallSet<JoinId>,
    /// Contenders with a create or a Stat request in progress, by the ticket of that request.
    asked: SmallSet<(Ticket, JoinId)>,
    /// Contenders that hold the lock.
    holding: ClassCounts,
    /// Counts of the contenders that are neither leaving nor in the stage `Looking`.
    staying: ClassCounts,
    /// Counts of the contenders that wait in the queue or create their node, unless they are
    /// leaving.
    queueing: ClassCounts,
    rare: Rare<RareIndexes>,
}

/// Indexes that are empty for most locks.
#[derive(Clone, Debug, Default)]
struct RareIndexes {
    looking: SmallSet<JoinId>,
    /// Contenders that have a node in the queue but must not wait, e.g. with `Intent::Try`.
    trying: SmallSet<JoinId>,
    /// Readers that take over the position of a writer of the same owner (a downgrade) and do not
    /// hold the lock yet.
    downgrading: SmallSet<JoinId>,
    /// Contenders that hold the lock and are leaving.
    departing: SmallSet<JoinId>,
    /// Contenders that wait for a permit and are not leaving, each with the semaphore's number of
    /// permits.
    wanting: SmallSet<(u32, JoinId)>,
    /// Contenders that wait for a permit, if a listing has shown their node.
    awaiting: SmallSet<JoinId>,
}

impl Empty for RareIndexes {
    const EMPTY: &'static Self = &Self {
        looking: SmallSet::EMPTY,
        trying: SmallSet::EMPTY,
        downgrading: SmallSet::EMPTY,
        departing: SmallSet::EMPTY,
        wanting: SmallSet::EMPTY,
        awaiting: SmallSet::EMPTY,
    };

    fn is_unused(&self) -> bool {
        let Self { looking, trying, downgrading, departing, wanting, awaiting } = self;
        let joins = [looking, trying, downgrading, departing, awaiting];
        joins.into_iter().all(SmallSet::is_empty) && wanting.is_empty()
    }
}

impl Entries {
    pub(super) fn insert(&mut self, id: JoinId, join: Entry) {
        self.indexes.update(id, None, Some(&join));
        self.all.insert(id, join);
    }

    pub(super) fn remove(&mut self, id: JoinId) {
        if let Some(join) = self.all.remove(&id) {
            self.indexes.update(id, Some(&join), None);
        }
    }

    pub(super) fn take_all(&mut self) -> SmallMap<JoinId, Entry> {
        std::mem::take(self).all
    }

    pub(super) fn change<T>(&mut self, id: JoinId, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let join = self.all.get_mut(&id)?;
        let before = join.clone();
        let result = change(join);
        self.indexes.update(id, Some(&before), Some(join));
        Some(result)
    }

    pub(super) fn set_stage(&mut self, id: JoinId, stage: EntryStage) {
        self.change(id, |join| join.stage = stage);
    }

    pub(super) fn line(&self) -> &LocalOrder {
        &self.indexes.line
    }

    /// Frees the memory of indexes that are empty.
    pub(super) fn trim(&mut self) {
        self.indexes.line.trim();
        self.indexes.rare.trim();
    }

    pub(super) fn take_moved(&mut self) -> SmallSet<NodeName> {
        self.indexes.line.take_moved()
    }

    pub(super) fn idle(&self) -> impl Iterator<Item = JoinId> {
        self.indexes.idle.iter().copied()
    }

    pub(super) fn looking(&self) -> impl Iterator<Item = (JoinId, &Entry)> {
        self.with_ids(&self.indexes.rare.looking)
    }

    pub(super) fn trying(&self) -> impl Iterator<Item = (JoinId, &Entry)> {
        self.with_ids(&self.indexes.rare.trying)
    }

    pub(super) fn downgrading(&self) -> impl Iterator<Item = (JoinId, &Entry)> {
        self.with_ids(&self.indexes.rare.downgrading)
    }

    pub(super) fn departing(&self) -> impl Iterator<Item = (JoinId, &Entry)> {
        self.with_ids(&self.indexes.rare.departing)
    }

    pub(super) fn awaiting(&self) -> impl Iterator<Item = JoinId> {
        self.indexes.rare.awaiting.iter().copied()
    }

    fn with_ids<'a>(&'a self, ids: &'a SmallSet<JoinId>) -> impl Iterator<Item = (JoinId, &'a Entry)> {
        ids.iter().filter_map(|id| Some((*id, self.all.get(id)?)))
    }

    /// Returns the contender whose create or Stat request has this ticket and is in progress.
    pub(super) fn asked(&self, ticket: Ticket) -> Option<JoinId> {
        let (found, id) = self.indexes.asked.range((ticket, JoinId(0))..).next()?;
        (*found == ticket).then_some(*id)
    }

    /// Returns the number of contenders that wait for an exclusive hold or create their node for
    /// one.
    pub(super) fn queueing(&self) -> usize {
        self.indexes.queueing.of(Class::Alone)
    }

    pub(super) fn holders(&self) -> usize {
        self.indexes.holding.all()
    }

    /// Returns `true` if a holder conflicts with this kind.
    pub(super) fn has_conflicting_holder(&self, kind: Kind) -> bool {
        self.indexes.holding.conflicts(kind)
    }

    /// Returns `true` if a contender conflicts with this kind. Contenders do not count if they are
    /// leaving, or if they still wait for a listing to show whether the lock is free.
    pub(super) fn has_conflicting_contender(&self, kind: Kind) -> bool {
        self.indexes.staying.conflicts(kind)
    }

    /// Returns the lowest number of permits among the waiters.
    pub(super) fn permits(&self) -> Option<usize> {
        self.indexes.rare.wanting.first().map(|(permits, _)| *permits as usize)
    }

    /// Returns `true` if a contender asks for a permit or holds one.
    pub(super) fn of_permits(&self) -> bool {
        let looks = || self.looking().next().is_some_and(|(_, join)| matches!(join.kind, Kind::Permit(_)));
        self.indexes.holding.of(Class::Permit) > 0 || self.indexes.staying.of(Class::Permit) > 0 || looks()
    }
}

impl Indexes {
    fn update(&mut self, id: JoinId, before: Option<&Entry>, after: Option<&Entry>) {
        self.line.index(id, before, after);
        update(|| &mut self.idle, before, after, |join| (join.stage == EntryStage::Idle).then_some(id));
        update(
            || &mut self.asked,
            before,
            after,
            |join| match join.stage {
                EntryStage::Creating(ticket) | EntryStage::Verifying(ticket, _) => Some((ticket, id)),
                _ => None,
            },
        );
        self.holding.update(before, after, Entry::is_held);
        self.staying
            .update(before, after, |join| !join.leaving && !matches!(join.stage, EntryStage::Looking(_)));
        self.queueing.update(before, after, |join| {
            matches!(join.stage, EntryStage::Creating(_) | EntryStage::Queued(_)) && !join.leaving
        });
        if before.into_iter().chain(after).any(is_rare) {
            self.update_rare(id, before, after);
        }
    }

    fn update_rare(&mut self, id: JoinId, before: Option<&Entry>, after: Option<&Entry>) {
        let queued = |join: &Entry| matches!(join.stage, EntryStage::Queued(_));
        update(
            || &mut self.rare.looking,
            before,
            after,
            |join| match join.stage {
                EntryStage::Looking(_) => Some(id),
                _ => None,
            },
        );
        update(
            || &mut self.rare.trying,
            before,
            after,
            |join| (join.intent.only_tries() && queued(join)).then_some(id),
        );
        update(
            || &mut self.rare.downgrading,
            before,
            after,
            |join| (matches!(join.intent, Intent::Downgrade { .. }) && !join.is_held()).then_some(id),
        );
        update(
            || &mut self.rare.departing,
            before,
            after,
            |join| (join.is_held() && join.leaving).then_some(id),
        );
        update(
            || &mut self.rare.wanting,
            before,
            after,
            |join| match join.kind {
                Kind::Permit(permits) if !join.leaving && !join.is_held() => Some((permits, id)),
                _ => None,
            },
        );
        update(
            || &mut self.rare.awaiting,
            before,
            after,
            |join| match (&join.stage, join.kind) {
                (EntryStage::Queued(place), Kind::Permit(_)) if place.confirmed => Some(id),
                _ => None,
            },
        );
    }
}

/// Returns `false` if a contender is in none of the [`RareIndexes`]. Most contenders wait for a lock
/// that they then hold and release.
fn is_rare(join: &Entry) -> bool {
    join.leaving
        || join.intent != Intent::Wait
        || matches!(join.kind, Kind::Permit(_))
        || matches!(join.stage, EntryStage::Looking(_))
}

impl Deref for Entries {
    type Target = SmallMap<JoinId, Entry>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

/// Compares only the contenders, because the indexes are derived from them.
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

/// Replaces a contender's old key in an index with its new one. `keys` returns the index.
#[inline]
fn update<'a, K: Ord + Clone + 'a>(
    keys: impl FnOnce() -> &'a mut SmallSet<K>,
    before: Option<&Entry>,
    after: Option<&Entry>,
    key: impl Fn(&Entry) -> Option<K>,
) {
    replace(keys, before.and_then(&key).as_ref(), after.and_then(&key).as_ref());
}

/// Replaces a key in an index. Copies the new key only if it differs from the old one.
#[inline]
fn replace<'a, K: Ord + Clone + 'a>(
    keys: impl FnOnce() -> &'a mut SmallSet<K>,
    before: Option<&K>,
    after: Option<&K>,
) {
    if before != after {
        let keys = keys();
        if let Some(before) = before {
            keys.remove(before);
        }
        keys.extend(after.cloned());
    }
}
