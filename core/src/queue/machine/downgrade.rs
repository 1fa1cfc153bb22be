//! Downgrades: a reader takes the place of a writer that its owner holds (rule 4).

use super::entry::{Entry, EntryStage};
use super::{ListingMode, Queue};
use crate::queue::event::{Intent, JoinId, Refusal, Ticket};
use crate::queue::node_name::NodeName;

impl Queue {
    pub(super) fn downgrade(&mut self, reader: JoinId, writer: NodeName) {
        let queued = self.entries.change(reader, |join| {
            join.intent = join.intent.in_place_of(writer);
            match &join.stage {
                EntryStage::Queued(place) => Some(place.name.clone()),
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
        self.entries.get(&id)?.is_held().then_some(id)
    }

    /// The czxid of a node through which a contender holds.
    pub(super) fn held_since(&self, name: &NodeName) -> Option<i64> {
        match &self.entries.get(&self.holder(name)?)?.stage {
            EntryStage::Held(place) => Some(place.czxid),
            _ => None,
        }
    }

    /// Whether a reader is on its way into the place of this writer.
    pub(super) fn is_downgrading(&self, writer: &NodeName) -> bool {
        self.entries.downgrading().any(|(_, join)| join.takes_place_of(writer) && !join.leaving)
    }

    /// Releases the writers that waited for a reader in their place and no longer need to. Returns whether there were
    /// any.
    pub(super) fn finish_releases(&mut self) -> bool {
        let released = |(_, join): (JoinId, &Entry)| match &join.stage {
            EntryStage::Held(place) if !self.is_downgrading(&place.name) => Some(place.name.clone()),
            _ => None,
        };
        let due: Vec<_> = self.entries.departing().filter_map(released).collect();
        let any = !due.is_empty();
        for name in due {
            self.release(name);
        }
        any
    }

    /// The readers that stand in the place of a writer that their owner holds.
    fn readers_in_place(&self) -> impl Iterator<Item = JoinId> {
        self.entries.downgrading().filter_map(|(id, join)| match (&join.stage, &join.intent) {
            (EntryStage::Queued(_), Intent::Downgrade { writer, .. }) => self.holder(writer).map(|_| id),
            _ => None,
        })
    }

    /// Whether there is one.
    pub(super) fn has_reader_in_place(&self) -> bool {
        self.readers_in_place().next().is_some()
    }

    /// A reader in the place of a writer that its owner holds needs nothing but its node.
    pub(super) fn grant_downgrades(&mut self) {
        let due: Vec<_> = self.readers_in_place().collect();
        for id in due {
            self.hold(id);
        }
    }

    /// Whether a contender that has no writer's place to take creates a node. A reader that was to take one has lost it
    /// with the writer, and proceeds like any other from now on. If it only tries, it looks first whether the lock is
    /// free (rules 14 and 21).
    pub(super) fn creates_without_place(&mut self, id: JoinId) -> bool {
        let Some(Entry { intent: Intent::Downgrade { tries, .. }, kind, .. }) = self.entries.get(&id) else {
            return true;
        };
        let (tries, kind) = (*tries, *kind);
        self.entries.change(id, |join| join.intent = join.intent.without_place());
        if !tries {
            return true;
        }
        if self.entries.contend_against(kind) {
            self.refuse(id, Refusal::Busy);
        } else {
            self.want(ListingMode::Plain);
            self.entries.set_stage(id, EntryStage::Looking(self.last_ticket));
        }
        false
    }

    /// The node of the writer whose place a reader was to take does not exist. So the writer's lock is lost, and the
    /// reader proceeds like any other. But if it is not known what became of an earlier create, that one may have been
    /// carried out while the writer's node existed: then rule 8 comes first.
    pub(super) fn no_place(&mut self, id: JoinId, writer: &NodeName, sent: Ticket) {
        let Some(Entry { leaving, reply_lost, .. }) = self.entries.get(&id) else { return };
        if *leaving {
            self.entries.remove(id);
        } else if *reply_lost {
            self.entries.set_stage(id, EntryStage::Unknown(sent));
            self.want(ListingMode::Synced);
        } else {
            self.entries.set_stage(id, EntryStage::Idle);
        }
        self.missing(writer);
    }

    /// Whether a reader that belongs in a writer's place stands elsewhere, because it was created before the writer
    /// held; or has no right to the place, because the writer is lost and did perhaps not exist any more when the
    /// reader was created: then another contender may hold behind it.
    pub(super) fn out_of_place(&self, id: JoinId, name: &NodeName) -> bool {
        let Some(Entry { intent: Intent::Downgrade { writer, .. }, unchecked, .. }) = self.entries.get(&id)
        else {
            return false;
        };
        (*unchecked && self.holder(writer).is_none()) || writer.sequence() != name.sequence()
    }

    /// A reader whose node was created under the check keeps its place, although the writer is lost: while the writer's
    /// node existed nobody behind it could hold, and since then the reader stands before them. Only a listing can tell
    /// that it still does.
    pub(super) fn stay_in_place(&mut self, id: JoinId) {
        let Some(Entry { intent: Intent::Downgrade { writer, .. }, .. }) = self.entries.get(&id) else {
            return;
        };
        if self.holder(writer).is_none() {
            self.want(ListingMode::Plain);
        }
    }

    /// A writer is lost. Readers in its place stay there if their nodes were created under the check.
    pub(super) fn displace_readers(&mut self, writer: &NodeName) {
        let waits = |(id, join): (JoinId, &Entry)| match &join.stage {
            EntryStage::Queued(place) if join.takes_place_of(writer) => {
                Some((id, place.name.clone(), join.unchecked))
            }
            _ => None,
        };
        let readers: Vec<_> = self.entries.downgrading().filter_map(waits).collect();
        for (reader, name, unchecked) in readers {
            if unchecked {
                self.begin_anew(reader, &name);
            } else {
                self.stay_in_place(reader);
            }
        }
    }
}
