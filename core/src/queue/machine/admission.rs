//! Joining, leaving, and being refused.

use super::entry::{Join, Stage};
use super::{Look, Queue};
use crate::queue::action::Action;
use crate::queue::event::{Intent, JoinId, Refusal};
use crate::queue::node_name::{Kind, Naming, NodeName};

impl Queue {
    pub(super) fn join(&mut self, id: JoinId, naming: Naming, kind: Kind, intent: Intent) {
        let stage = match intent {
            Intent::Wait | Intent::Downgrade { .. } => Stage::Idle,
            Intent::Try if self.is_known_to_be_taken(kind) => {
                self.actions.push_back(Action::Refuse(id, Refusal::Busy));
                return;
            }
            Intent::Try => {
                self.want(Look::Plain);
                Stage::Looking(self.last_ticket)
            }
        };
        let join = Join {
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
        self.joins.insert(id, join);
    }

    /// A contender no longer wants the lock (rule 9).
    pub(super) fn leave(&mut self, id: JoinId) {
        match self.joins.get(&id).map(|join| &join.stage) {
            None | Some(Stage::Held(_)) => {}
            Some(Stage::Idle | Stage::Looking(_)) => self.joins.remove(id),
            Some(Stage::Creating(_) | Stage::Unknown(_) | Stage::Verifying(..)) => {
                self.joins.change(id, |join| join.leaving = true);
            }
            Some(Stage::Queued(place)) => {
                let name = place.name.clone();
                self.joins.remove(id);
                self.doom(name);
            }
        }
    }

    /// Gives up a place in the queue, to join again.
    pub(super) fn begin_anew(&mut self, id: JoinId, name: &NodeName) {
        self.doom(name.clone());
        self.start_again(id);
    }

    /// Has a contender create a node under another name, which cannot be mistaken for an earlier one.
    pub(super) fn start_again(&mut self, id: JoinId) {
        self.joins.change(id, |join| {
            join.stage = Stage::Idle;
            join.uuid = None;
            join.reply_lost = false;
        });
    }

    /// Refuses a contender, which leaves: its node on the server is deleted, at the latest when its fate is known.
    pub(super) fn refuse(&mut self, id: JoinId, refusal: Refusal) {
        if self.joins.get(&id).is_some_and(|join| !join.leaving) {
            self.actions.push_back(Action::Refuse(id, refusal));
        }
        self.leave(id);
    }

    /// Refuses all contenders that do not hold.
    pub(super) fn refuse_all(&mut self, refusal: &Refusal) {
        let waiting: Vec<_> =
            self.joins.iter().filter(|(_, join)| !join.is_held()).map(|(id, _)| *id).collect();
        for id in waiting {
            self.refuse(id, refusal.clone());
        }
    }
}
