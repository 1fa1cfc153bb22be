//! Downgrades: a reader takes the place of a writer that its owner holds (rule 4).

use super::super::event::{Intent, JoinId};
use super::super::name::NodeName;
use super::join::{Join, Stage};
use super::state::Queue;

impl Queue {
    pub(super) fn downgrade(&mut self, reader: JoinId, writer: NodeName) {
        let queued = self.joins.change(reader, |join| {
            join.intent = Intent::Downgrade(writer);
            match &join.stage {
                Stage::Queued(place) => Some(place.name.clone()),
                _ => None,
            }
        });
        if let Some(name) = queued.flatten() {
            self.begin_anew(reader, &name);
        }
    }

    /// The contender whose hold this node identifies.
    pub(super) fn holder(&self, name: &NodeName) -> Option<JoinId> {
        let id = *self.line().get(name)?;
        self.joins.get(&id)?.is_held().then_some(id)
    }

    /// Whether a reader is on its way into the place of this writer.
    pub(super) fn is_downgrading(&self, writer: &NodeName) -> bool {
        self.joins.downgrading().any(|(_, join)| join.takes_place_of(writer) && !join.leaving)
    }

    /// Releases the writers that waited for a reader in their place and no longer need to. Returns whether there were
    /// any.
    pub(super) fn finish_releases(&mut self) -> bool {
        let released = |(_, join): (JoinId, &Join)| match &join.stage {
            Stage::Held(place) if !self.is_downgrading(&place.name) => Some(place.name.clone()),
            _ => None,
        };
        let due: Vec<_> = self.joins.departing().filter_map(released).collect();
        let any = !due.is_empty();
        for name in due {
            self.release(name);
        }
        any
    }

    /// A reader in the place of a writer that its owner holds needs nothing but its node. It keeps the writer's token.
    pub(super) fn grant_downgrades(&mut self) {
        let placed = |(id, join): (JoinId, &Join)| match (&join.stage, &join.intent) {
            (Stage::Queued(_), Intent::Downgrade(writer)) => {
                match &self.joins.get(&self.holder(writer)?)?.stage {
                    Stage::Held(place) => Some((id, place.czxid)),
                    _ => None,
                }
            }
            _ => None,
        };
        let due: Vec<_> = self.joins.downgrading().filter_map(placed).collect();
        for (id, czxid) in due {
            self.hold(id, Some(czxid));
        }
    }

    /// Whether a reader that belongs in a writer's place stands elsewhere, because it was created before the writer
    /// held, or the writer is lost, so that another contender may hold behind the reader's place.
    pub(super) fn out_of_place(&self, id: JoinId, name: &NodeName) -> bool {
        match self.joins.get(&id).map(|join| &join.intent) {
            Some(Intent::Downgrade(writer)) => {
                self.holder(writer).is_none() || writer.sequence() != name.sequence()
            }
            _ => false,
        }
    }

    /// A writer is lost: readers that wait in its place no longer have a right to it.
    pub(super) fn displace_readers(&mut self, writer: &NodeName) {
        let waits = |(id, join): (JoinId, &Join)| match &join.stage {
            Stage::Queued(place) if join.takes_place_of(writer) => Some((id, place.name.clone())),
            _ => None,
        };
        let readers: Vec<_> = self.joins.downgrading().filter_map(waits).collect();
        for (reader, name) in readers {
            self.begin_anew(reader, &name);
        }
    }
}
