//! Creating a contender's node, and finding it after its reply was lost (rules 1, 3 and 8).

use super::super::action::Action;
use super::super::event::{Intent, JoinId, Outcome, Refusal, Ticket};
use super::super::name::NodeName;
use super::join::{Join, Place, Stage};
use super::state::{Look, Queue};

/// How often a contender creates missing parents before it gives up: each time, another client or the server's reaper
/// of empty containers has deleted them again.
const PARENT_ATTEMPTS: u32 = 16;

impl Queue {
    pub(super) fn send_creates(&mut self) {
        if self.making_parents.is_none() {
            for id in self.idle() {
                self.create(id);
            }
        }
    }

    fn idle(&self) -> Vec<JoinId> {
        self.joins.active().filter(|(_, join)| join.stage == Stage::Idle).map(|(id, _)| id).collect()
    }

    fn create(&mut self, id: JoinId) {
        let ticket = self.ticket();
        let writers_place = match self.joins.get(&id).map(|join| &join.intent) {
            Some(Intent::Downgrade(writer)) if self.holder(writer).is_some() => Some(writer.sequence()),
            _ => None,
        };
        let (Some(join), Some(mint)) = (self.joins.get_mut(id), self.mint.as_mut()) else { return };
        let uuid = *join.uuid.get_or_insert_with(|| mint.mint());
        let prefix = join.naming.prefix(uuid, join.kind);
        join.stage = Stage::Creating(ticket);
        if let Some(sequence) = writers_place {
            self.actions.push_back(Action::CreateInPlace(ticket, id, format!("{prefix}{sequence:010}")));
            return;
        }
        // The writer whose place it was to take is gone: it is an ordinary reader.
        if join.intent != Intent::Try {
            join.intent = Intent::Wait;
        }
        self.actions.push_back(Action::Create(ticket, id, prefix));
        self.want(Look::Plain);
    }

    pub(super) fn created(&mut self, ticket: Ticket, outcome: Outcome<(String, i64)>) {
        let creating = |join: &Join| matches!(join.stage, Stage::Creating(sent) if sent == ticket);
        let Some((id, _)) = self.joins.active().find(|(_, join)| creating(join)) else { return };
        let Some(join) = self.joins.get_mut(id) else { return };
        match outcome {
            Outcome::Done((name, czxid)) => self.placed(id, NodeName::parse(&name), czxid, ticket),
            Outcome::Lost => {
                join.stage = Stage::Unknown(ticket);
                self.want(Look::Synced);
            }
            // Nothing was created, whether or not it is still wanted.
            Outcome::NoNode | Outcome::Refused(_) if join.leaving => drop(self.joins.remove(id)),
            Outcome::NoNode => self.make_parents(id),
            Outcome::Refused(refusal) => {
                join.stage = Stage::Idle;
                self.refuse(id, refusal);
            }
        }
    }

    fn make_parents(&mut self, id: JoinId) {
        let Some(join) = self.joins.get_mut(id) else { return };
        join.stage = Stage::Idle;
        join.parent_attempts += 1;
        if join.parent_attempts > PARENT_ATTEMPTS {
            let problem = "the lock directory was deleted again each time it was created";
            self.refuse(id, Refusal::Server(problem.to_owned()));
        } else if self.making_parents.is_none() {
            let ticket = self.ticket();
            self.making_parents = Some(ticket);
            self.actions.push_back(Action::MakeParents(ticket));
        }
    }

    pub(super) fn parents_made(&mut self, ticket: Ticket, outcome: Outcome<()>) {
        if self.making_parents.take_if(|sent| *sent == ticket).is_none() {
            return;
        }
        if let Outcome::Refused(refusal) = outcome {
            for id in self.idle() {
                self.refuse(id, refusal.clone());
            }
        }
    }

    /// A contender's node exists.
    fn placed(&mut self, id: JoinId, name: Option<NodeName>, czxid: i64, created: Ticket) {
        let Some(join) = self.joins.get_mut(id) else {
            return;
        };
        let Some(name) = name else {
            join.stage = Stage::Idle;
            let problem = "the server created a node without a sequence number";
            return self.refuse(id, Refusal::Server(problem.to_owned()));
        };
        join.stage = Stage::Queued(Place { name: name.clone(), czxid, created, confirmed: false });
        if join.leaving {
            self.joins.remove(id);
            self.doom(name);
        } else if name.is_at_the_end() {
            self.refuse(id, Refusal::SequenceExhausted);
        } else if self.out_of_place(id, &name) {
            self.begin_anew(id, &name);
        } else {
            self.line.insert(name, id);
        }
    }

    /// Asks for the Stat of a node that was found after the reply to its create was lost.
    pub(super) fn verify(&mut self, id: JoinId, name: &NodeName) {
        let ticket = self.ticket();
        self.actions.push_back(Action::Verify(ticket, name.clone()));
        self.line.insert(name.clone(), id);
        if let Some(join) = self.joins.get_mut(id) {
            join.stage = Stage::Verifying(ticket, name.clone());
        }
    }

    pub(super) fn verified(&mut self, ticket: Ticket, outcome: Outcome<Option<i64>>) {
        let verifying = |join: &Join| matches!(join.stage, Stage::Verifying(sent, _) if sent == ticket);
        let Some((id, _)) = self.joins.active().find(|(_, join)| verifying(join)) else { return };
        let Some(join) = self.joins.get_mut(id) else { return };
        let stage = std::mem::replace(&mut join.stage, Stage::Unknown(ticket));
        let Stage::Verifying(_, name) = stage else { return };
        self.line.remove(&name);
        match outcome {
            // A listing showed it, but some time ago: the next one confirms it.
            Outcome::Done(Some(czxid)) => self.placed(id, Some(name), czxid, ticket),
            // Not this session's after all (rule 12): start again, under a name that cannot be mistaken.
            Outcome::Done(None) => {
                join.stage = Stage::Idle;
                join.uuid = None;
                if join.leaving {
                    self.joins.remove(id);
                }
            }
            Outcome::NoNode | Outcome::Lost => self.want(Look::Synced),
            Outcome::Refused(refusal) => {
                join.stage = Stage::Idle;
                self.refuse(id, refusal);
                self.doom(name);
            }
        }
        self.want(Look::Plain);
    }
}
