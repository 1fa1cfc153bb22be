//! Downgrades: the owner of a writer that holds the lock continues as a reader. The reader's node
//! gets the position of the writer's node in the queue (rule 4).

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
            self.rejoin(reader, &name);
        }
    }

    /// Returns the contender whose hold this node identifies.
    pub(super) fn holder(&self, name: &NodeName) -> Option<JoinId> {
        let id = *self.line().get(name)?;
        self.entries.get(&id)?.is_held().then_some(id)
    }

    /// Returns the czxid of a node whose contender holds the lock.
    pub(super) fn held_since(&self, name: &NodeName) -> Option<i64> {
        match &self.entries.get(&self.holder(name)?)?.stage {
            EntryStage::Held(place) => Some(place.czxid),
            _ => None,
        }
    }

    pub(super) fn is_downgrading(&self, writer: &NodeName) -> bool {
        self.entries.downgrading().any(|(_, join)| join.takes_place_of(writer) && !join.leaving)
    }

    /// Completes the delayed releases of writers. A writer is released only after its owner's
    /// reader has the writer's position in the queue. Returns `true` if any release was completed.
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

    /// Returns the readers that have their writer's position in the queue, while the writer still
    /// holds the lock.
    fn readers_in_place(&self) -> impl Iterator<Item = JoinId> {
        self.entries.downgrading().filter_map(|(id, join)| match (&join.stage, &join.intent) {
            (EntryStage::Queued(_), Intent::Downgrade { writer, .. }) => self.holder(writer).map(|_| id),
            _ => None,
        })
    }

    pub(super) fn has_reader_in_place(&self) -> bool {
        self.readers_in_place().next().is_some()
    }

    /// Grants the lock to readers that have their writer's position in the queue, while the writer
    /// still holds the lock. Nothing blocks such a reader.
    pub(super) fn grant_downgrades(&mut self) {
        let due: Vec<_> = self.readers_in_place().collect();
        for id in due {
            self.hold(id);
        }
    }

    /// Returns `true` if a contender can create its node at the end of the queue now. A reader
    /// whose writer was lost proceeds like any other reader. If that reader must not wait, it first
    /// lists the directory to find out whether the lock is free (rules 14 and 21).
    pub(super) fn may_create_without_place(&mut self, id: JoinId) -> bool {
        let Some(Entry { intent: Intent::Downgrade { tries, .. }, kind, .. }) = self.entries.get(&id) else {
            return true;
        };
        let (tries, kind) = (*tries, *kind);
        self.entries.change(id, |join| join.intent = join.intent.without_place());
        if !tries {
            return true;
        }
        if self.entries.has_conflicting_contender(kind) {
            self.refuse(id, Refusal::Busy);
        } else {
            self.request_listing(ListingMode::Plain);
            self.entries.set_stage(id, EntryStage::Looking(self.last_ticket));
        }
        false
    }

    /// Handles the reply that the writer's node does not exist, so that a reader cannot get its
    /// position. The writer's lock is lost, and the reader proceeds like any other reader. If the
    /// outcome of an earlier create is unknown, rule 8 applies first, because that create might
    /// have been carried out while the writer's node existed.
    pub(super) fn on_writer_missing(&mut self, id: JoinId, writer: &NodeName, sent: Ticket) {
        let Some(Entry { leaving, reply_lost, .. }) = self.entries.get(&id) else { return };
        if *leaving {
            self.entries.remove(id);
        } else if *reply_lost {
            self.entries.set_stage(id, EntryStage::Unknown(sent));
            self.request_listing(ListingMode::Synced);
        } else {
            self.entries.set_stage(id, EntryStage::Idle);
        }
        self.missing(writer);
    }

    /// Returns `true` if a reader of a downgrade must give up its node. There are two cases:
    /// * The node does not have the writer's position in the queue, because it was created before
    ///   the writer held the lock.
    /// * The node was created without the check that the writer's node exists, and the writer is
    ///   lost. The writer's node might have been gone when the reader's node was created, so a
    ///   contender behind it might already hold the lock.
    pub(super) fn out_of_place(&self, id: JoinId, name: &NodeName) -> bool {
        let Some(Entry { intent: Intent::Downgrade { writer, .. }, unchecked, .. }) = self.entries.get(&id)
        else {
            return false;
        };
        (*unchecked && self.holder(writer).is_none()) || writer.sequence() != name.sequence()
    }

    /// Keeps a reader's node, even if the writer is lost now, because the node was created together
    /// with a check that the writer's node existed. While the writer's node existed, no contender
    /// behind it could hold the lock, and the reader's node has been ahead of those contenders ever
    /// since. Only a listing can show that the reader's node still exists.
    pub(super) fn stay_in_place(&mut self, id: JoinId) {
        let Some(Entry { intent: Intent::Downgrade { writer, .. }, .. }) = self.entries.get(&id) else {
            return;
        };
        if self.holder(writer).is_none() {
            self.request_listing(ListingMode::Plain);
        }
    }

    /// Handles the loss of a writer. A reader with the writer's position keeps it if its node was
    /// created together with a check that the writer's node existed.
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
                self.rejoin(reader, &name);
            } else {
                self.stay_in_place(reader);
            }
        }
    }
}
