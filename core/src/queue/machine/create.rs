//! Creates contenders' nodes, and finds a node after the reply to its create was lost (rules 1, 3
//! and 8).

use super::entry::{Entry, EntryStage, QueuePlace};
use super::listing::MIN_SEEN_AHEAD;
use super::{ListingMode, Queue};
use crate::queue::action::Action;
use crate::queue::event::{Intent, JoinId, Outcome, Refusal, Ticket};
use crate::queue::node_name::{Kind, NodeName};

/// Maximum number of times that a contender creates missing parents. More attempts are necessary
/// only if another client or the server's container cleanup deletes the parents again and again.
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
        self.entries.idle().collect()
    }

    fn create(&mut self, id: JoinId) {
        let writers_place = match self.entries.get(&id).map(|join| &join.intent) {
            Some(Intent::Downgrade { writer, .. }) => {
                self.held_since(writer).map(|czxid| ((**writer).clone(), czxid))
            }
            _ => None,
        };
        if writers_place.is_none() && !self.may_create_without_place(id) {
            return;
        }
        let ticket = self.ticket();
        let may_be_next_soon = self.entries.get(&id).is_some_and(|join| self.may_be_next_soon(join));
        let Some(namer) = self.namer.as_mut() else { return };
        let Some((prefix, unchecked)) = self.entries.change(id, |join| {
            let uuid = *join.uuid.get_or_insert_with(|| namer.next_uuid());
            join.stage = EntryStage::Creating(ticket);
            join.writers_czxid = writers_place.as_ref().map(|(_, czxid)| *czxid);
            (join.naming.prefix(uuid, join.kind), join.unchecked)
        }) else {
            return;
        };
        if let Some((writer, _)) = writers_place {
            let name = format!("{prefix}{:010}", writer.sequence());
            let check = (!unchecked).then_some(writer);
            self.actions.push_back(Action::CreateInPlace(ticket, id, name, check));
            return;
        }
        self.actions.push_back(Action::Create(ticket, id, prefix));
        if may_be_next_soon {
            self.request_listing(ListingMode::Plain);
        }
    }

    /// Returns `true` if the contender might soon be the next holder. A listing must then follow
    /// its create immediately, without waiting for the reply. For other contenders,
    /// [`list_for_next_waiter`](Self::list_for_next_waiter) requests a listing later. The later
    /// listing is sufficient, because no node can appear before an existing one (F1).
    fn may_be_next_soon(&self, join: &Entry) -> bool {
        let unordered = join.intent.only_tries() || matches!(join.kind, Kind::Permit(_));
        unordered || self.entries.queueing() < MIN_SEEN_AHEAD
    }

    pub(super) fn created(&mut self, ticket: Ticket, outcome: Outcome<(String, i64)>) {
        let Some(id) = self.creator(ticket) else { return };
        let Some(Entry { leaving, intent, .. }) = self.entries.get(&id) else { return };
        match outcome {
            Outcome::Done((name, czxid)) => self.on_node_found(id, NodeName::parse(&name), czxid, ticket),
            Outcome::Lost => {
                self.entries.change(id, |join| {
                    join.reply_lost = true;
                    join.stage = EntryStage::Unknown(ticket);
                });
                self.request_listing(ListingMode::Synced);
            }
            // The server created no node.
            Outcome::NoNode => match intent {
                Intent::Downgrade { writer, .. } => {
                    let writer = writer.clone();
                    self.on_writer_missing(id, &writer, ticket);
                }
                _ if *leaving => self.entries.remove(id),
                _ => self.make_parents(id),
            },
            Outcome::Refused(_) if *leaving => self.entries.remove(id),
            Outcome::Refused(refusal) => {
                self.entries.set_stage(id, EntryStage::Idle);
                self.refuse(id, refusal);
            }
        }
    }

    fn creator(&self, ticket: Ticket) -> Option<JoinId> {
        let id = self.entries.asked(ticket)?;
        matches!(self.entries.get(&id)?.stage, EntryStage::Creating(_)).then_some(id)
    }

    /// Handles the server's refusal to check that the writer's node exists. The reader then creates
    /// its node without this check.
    pub(super) fn check_forbidden(&mut self, ticket: Ticket) {
        let Some(id) = self.creator(ticket) else { return };
        if self.entries.get(&id).is_some_and(|join| join.leaving) {
            return self.entries.remove(id);
        }
        self.entries.change(id, |join| {
            join.unchecked = true;
            join.stage = EntryStage::Idle;
        });
    }

    fn make_parents(&mut self, id: JoinId) {
        let attempts = self.entries.change(id, |join| {
            join.stage = EntryStage::Idle;
            join.parent_attempts += 1;
            join.parent_attempts
        });
        if attempts > Some(PARENT_ATTEMPTS) {
            let problem = "the lock directory was deleted again each time it was created";
            self.refuse(id, Refusal::Server(problem.to_owned()));
        } else if self.making_parents.is_none() {
            let ticket = self.ticket();
            self.making_parents = Some(ticket);
            self.actions.push_back(Action::MakeParents(ticket));
        }
    }

    /// Returns `true` if the lock directory was just created for this contender, which has no node
    /// yet.
    pub(crate) fn has_new_directory(&self, id: JoinId) -> bool {
        self.entries.get(&id).is_some_and(|join| join.parent_attempts > 0)
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

    /// Handles the proof that a contender's node exists.
    fn on_node_found(&mut self, id: JoinId, name: Option<NodeName>, czxid: i64, created: Ticket) {
        let Some(name) = name else {
            self.entries.set_stage(id, EntryStage::Idle);
            let problem = "the server created a node without a sequence number";
            return self.refuse(id, Refusal::Server(problem.to_owned()));
        };
        let Some(leaving) = self.entries.change(id, |join| {
            join.stage =
                EntryStage::Queued(QueuePlace { name: name.clone(), czxid, created, confirmed: false });
            join.parent_attempts = 0;
            join.leaving
        }) else {
            return;
        };
        if leaving {
            self.entries.remove(id);
            self.request_delete(name);
        } else if name.is_at_the_end() {
            self.refuse(id, Refusal::SequenceExhausted);
        } else if self.out_of_place(id, &name) {
            self.rejoin(id, &name);
        } else {
            self.stay_in_place(id);
        }
    }

    /// Requests the Stat of a node whose create got no reply, after a listing has shown the node.
    pub(super) fn verify(&mut self, id: JoinId, name: &NodeName) {
        let ticket = self.ticket();
        self.actions.push_back(Action::Verify(ticket, name.clone()));
        self.entries.set_stage(id, EntryStage::Verifying(ticket, name.clone()));
    }

    pub(super) fn verified(&mut self, ticket: Ticket, outcome: Outcome<Option<i64>>) {
        let Some(id) = self.entries.asked(ticket) else { return };
        let Some(Entry { stage: EntryStage::Verifying(_, name), leaving, .. }) = self.entries.get(&id) else {
            return;
        };
        let (name, leaving) = (name.clone(), *leaving);
        self.entries.set_stage(id, EntryStage::Unknown(ticket));
        match outcome {
            // The node is ours. The next listing confirms its position in the queue.
            Outcome::Done(Some(czxid)) => self.on_node_found(id, Some(name), czxid, ticket),
            // The node belongs to another session (rule 12). Start again with another name, so that
            // the new node cannot be mistaken for this one.
            Outcome::Done(None) if leaving => self.entries.remove(id),
            Outcome::Done(None) => self.create_again(id),
            Outcome::NoNode => self.request_listing(ListingMode::Synced),
            Outcome::Lost => {
                // The view does not contain this node, because the last listing treated it as ours.
                // But it might be ahead of our other contenders, so drop the view until the next
                // listing.
                self.view = None;
                self.request_listing(ListingMode::Synced);
            }
            Outcome::Refused(refusal) => {
                self.entries.set_stage(id, EntryStage::Idle);
                self.refuse(id, refusal);
                self.request_delete(name);
            }
        }
        self.request_listing(ListingMode::Plain);
    }
}
