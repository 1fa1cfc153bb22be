//! Joining, leaving and refusing contenders.

use super::entry::{Entry, EntryStage};
use super::{ListingMode, Queue};
use crate::queue::action::Action;
use crate::queue::event::{Intent, JoinId, Refusal};
use crate::queue::node_name::{Kind, Naming, NodeName};

impl Queue {
    pub(super) fn join(&mut self, id: JoinId, naming: Naming, kind: Kind, intent: Intent) {
        let stage = match intent {
            Intent::Wait | Intent::Downgrade { .. } => EntryStage::Idle,
            Intent::Try if self.is_known_to_be_taken(kind) => {
                self.actions.push_back(Action::Refuse(id, Refusal::Busy));
                return;
            }
            Intent::Try | Intent::WaitIfFewer(_) => {
                self.request_listing(ListingMode::Plain);
                EntryStage::Looking(self.last_ticket)
            }
        };
        let join = Entry {
            naming,
            kind,
            intent,
            uuid: None,
            leaving: false,
            reply_lost: false,
            unchecked: false,
            writers_czxid: None,
            parent_attempts: 0,
            stage,
        };
        self.entries.insert(id, join);
    }

    /// Removes a contender that no longer wants the lock (rule 9).
    pub(super) fn leave(&mut self, id: JoinId) {
        match self.entries.get(&id).map(|join| &join.stage) {
            None | Some(EntryStage::Held(_)) => {}
            Some(EntryStage::Idle | EntryStage::Looking(_)) => self.entries.remove(id),
            Some(EntryStage::Creating(_) | EntryStage::Unknown(_) | EntryStage::Verifying(..)) => {
                self.entries.change(id, |join| join.leaving = true);
            }
            Some(EntryStage::Queued(place)) => {
                let name = place.name.clone();
                self.entries.remove(id);
                self.request_delete(name);
            }
        }
    }

    pub(super) fn rejoin(&mut self, id: JoinId, name: &NodeName) {
        self.request_delete(name.clone());
        self.create_again(id);
    }

    /// Makes a contender create its node again. The new node has another name, so that it cannot be
    /// mistaken for an earlier node.
    pub(super) fn create_again(&mut self, id: JoinId) {
        self.entries.change(id, |join| {
            join.stage = EntryStage::Idle;
            join.uuid = None;
            join.reply_lost = false;
        });
    }

    /// Refuses a contender, which then leaves the queue. If the contender might have a node, the
    /// queue deletes that node as soon as it is known to exist.
    pub(super) fn refuse(&mut self, id: JoinId, refusal: Refusal) {
        if self.entries.get(&id).is_some_and(|join| !join.leaving) {
            self.actions.push_back(Action::Refuse(id, refusal));
        }
        self.leave(id);
    }

    /// Refuses all contenders that do not hold the lock.
    pub(super) fn refuse_all(&mut self, refusal: &Refusal) {
        let waiting: Vec<_> =
            self.entries.iter().filter(|(_, join)| !join.is_held()).map(|(id, _)| *id).collect();
        for id in waiting {
            self.refuse(id, refusal.clone());
        }
    }
}
