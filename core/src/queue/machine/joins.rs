//! This client's contenders for one lock, and which of them an event may concern.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use super::super::event::{Intent, JoinId};
use super::super::name::Kind;
use super::join::{Join, Stage};

/// The contenders.
///
/// Thousands may wait for their turn, and nearly every event concerns one of them or none, so drawing conclusions
/// from an event must not mean looking at all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Joins {
    all: BTreeMap<JoinId, Join>,
    /// Those that do more than wait for their turn, and some that no longer do.
    active: BTreeSet<JoinId>,
}

/// Whether there is nothing to do for a contender except to grant it the lock when it is first in line.
fn only_waits(join: &Join) -> bool {
    let ordered = !matches!(join.kind, Kind::Permit(_));
    ordered && !join.leaving && join.intent == Intent::Wait && matches!(join.stage, Stage::Queued(_))
}

impl Joins {
    /// All but those that only wait for their turn.
    pub(super) fn active(&self) -> impl Iterator<Item = (JoinId, &Join)> {
        let contenders = self.active.iter().filter_map(|id| Some((*id, self.all.get(id)?)));
        contenders.filter(|(_, join)| !only_waits(join))
    }

    /// Drops those from the active ones that by now only wait for their turn.
    pub(super) fn calm(&mut self) {
        self.active.retain(|id| self.all.get(id).is_some_and(|join| !only_waits(join)));
    }

    pub(super) fn insert(&mut self, id: JoinId, join: Join) {
        self.active.insert(id);
        self.all.insert(id, join);
    }

    pub(super) fn remove(&mut self, id: JoinId) -> Option<Join> {
        self.active.remove(&id);
        self.all.remove(&id)
    }

    pub(super) fn get_mut(&mut self, id: JoinId) -> Option<&mut Join> {
        let join = self.all.get_mut(&id)?;
        self.active.insert(id);
        Some(join)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Join> {
        self.active.extend(self.all.keys());
        self.all.values_mut()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&JoinId, &mut Join) -> bool) {
        self.all.retain(keep);
        self.active = self.all.keys().copied().collect();
    }
}

impl Deref for Joins {
    type Target = BTreeMap<JoinId, Join>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}
