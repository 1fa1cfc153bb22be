//! Listings: when one is sent, and what it tells (rules 2, 3, 5 and 8).

use uuid::Uuid;

use super::entry::{Entry, EntryStage, QueuePlace};
use super::{ListingMode, Queue};
use crate::queue::action::Action;
use crate::queue::event::{JoinId, Outcome, Refusal, Ticket};
use crate::queue::node_name::{Kind, NodeName, is_kazoos};
use crate::queue::remote_view::RemoteView;
use crate::queue::small_map::{SmallMap, SmallSet};

/// So many of our contenders that want to hold alone must have been seen in the queue before another one need not be. With
/// one, a hand-off from it to the next would wait for a listing.
pub(super) const SOON: usize = 2;

/// The children of a listing, sorted out.
#[derive(Default)]
struct Children {
    /// Other clients' nodes.
    others: Vec<NodeName>,
    /// Nodes that carry a uuid of this session and belong to no contender.
    orphans: SmallSet<NodeName>,
    /// Our contenders' nodes; for each contender the lowest.
    found: SmallMap<JoinId, NodeName>,
}

impl Children {
    /// Of several nodes of one contender the lowest is kept. The others are orphans: the create was sent more than once.
    fn keep_lowest(&mut self, id: JoinId, name: NodeName) {
        match self.found.get(&id) {
            Some(lowest) if *lowest < name => drop(self.orphans.insert(name)),
            _ => self.orphans.extend(self.found.insert(id, name)),
        }
    }
}

impl Queue {
    /// Asks for a listing; of two requested kinds the stronger prevails.
    pub(super) fn want(&mut self, look: ListingMode) {
        self.wanted = self.wanted.max(Some(look));
        self.deferred = false;
    }

    /// Whether one of ours has a place, or may have one, and does not hold.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.line().len() > self.entries.holders()
    }

    /// Since when, by tickets, a create that was given up may still be carried out (rule 8); `None` if none can be.
    /// When enough time has passed, the driver says so.
    #[must_use]
    pub fn doubt(&self) -> Option<Ticket> {
        self.doubt
    }

    /// What was in doubt can no longer come. It may have come since the last look.
    pub(super) fn certain(&mut self, doubt: Ticket) {
        if self.connected && self.doubt.take_if(|since| *since == doubt).is_some() {
            self.want(ListingMode::Plain);
        }
    }

    /// Asks for a listing if the turn of one may come soon that no listing has shown yet: one that is sent now shows all
    /// that will ever be before it and before those behind it. The listing under way will do, if it was sent later than
    /// the create.
    pub(super) fn look_ahead(&mut self) {
        if self.deferred {
            return;
        }
        let Some(first) = self.line().unseen_behind_fewer_than(SOON) else { return };
        let place = self.line().get(first).and_then(|id| match &self.entries.get(id)?.stage {
            EntryStage::Queued(place) => Some(place.created),
            _ => None,
        });
        if place.is_some_and(|created| self.listing.is_none_or(|(sent, _)| sent < created)) {
            self.want(ListingMode::Plain);
        }
    }

    pub(super) fn send_listing(&mut self) {
        let look = if self.listing.is_none() { self.wanted.take() } else { None };
        if let Some(look) = look {
            let ticket = self.ticket();
            self.listing = Some((ticket, look));
            let sync = look == ListingMode::Synced;
            self.actions.push_back(if self.needs_child_watch() && self.child_watch.is_none() {
                self.child_watch = Some(ticket);
                Action::ListAndWatch { ticket, sync }
            } else {
                Action::List { ticket, sync }
            });
        }
    }

    pub(super) fn listed(&mut self, ticket: Ticket, outcome: Outcome<Vec<String>>) {
        let Some((_, look)) = self.listing.take_if(|(sent, _)| *sent == ticket) else {
            return;
        };
        match outcome {
            Outcome::Done(children) => self.look_at(ticket, look, &children),
            Outcome::NoNode => self.look_at(ticket, look, &[]),
            Outcome::Lost => {
                self.drop_child_watch(ticket);
                self.want(look);
            }
            Outcome::Refused(refusal) => {
                // No watch was set with it.
                self.drop_child_watch(ticket);
                self.refuse_all(&refusal);
            }
        }
    }

    /// Takes in a listing that was sent with `ticket`. It replaces all that was known (rule 5).
    fn look_at(&mut self, ticket: Ticket, look: ListingMode, children: &[String]) {
        if !self.connected {
            return self.want(look);
        }
        let Children { others, orphans, found } = self.sort_out(children);
        for orphan in orphans {
            self.doom(orphan);
        }
        if others.iter().any(NodeName::is_at_the_end) {
            self.refuse_all(&Refusal::SequenceExhausted);
        }
        self.refuse_candidates_beside_kazoo(&others);
        self.place_joins(ticket, look, &found);
        self.view = Some(RemoteView::new(others));
        self.old_view = None;
        self.watches.look_at_all();
        self.answer_lookers(ticket);
        self.refuse_blocked_tries();
    }

    /// A candidate waits for contenders on kazoo, but they do not wait for it: no option makes them see its node, as the
    /// election of kazoo has none (rule 2).
    fn refuse_candidates_beside_kazoo(&mut self, others: &[NodeName]) {
        let campaigns = |join: &Entry| join.kind == Kind::Lead && !join.is_held();
        let candidates: Vec<_> =
            self.entries.iter().filter(|(_, join)| campaigns(join)).map(|(id, _)| *id).collect();
        if candidates.is_empty() {
            return;
        }
        // One of ours, whose create is under way, is a lock of this library under kazoo's names.
        let minted = |name: &str| self.namer.as_ref().is_some_and(|namer| namer.minted(name).is_some());
        let foreign = |other: &&NodeName| is_kazoos(other.as_str()) && !minted(other.as_str());
        if let Some(kazoos) = others.iter().find(foreign) {
            for id in candidates {
                self.refuse(id, Refusal::BesideKazoo(kazoos.clone()));
            }
        }
    }

    /// Whose each child is. Children that do not count are ignored, with one warning (rule 2).
    fn sort_out(&mut self, names: &[String]) -> Children {
        // The others have a node, are found by it, and any other with their uuid is an orphan.
        let sought = self.entries.iter().filter(|(_, join)| join.node().is_none() || join.may_have_two());
        let by_uuid: SmallMap<Uuid, JoinId> =
            sought.filter_map(|(id, join)| Some((join.uuid?, *id))).collect();
        let mut children = Children::default();
        for child in names {
            let Some(name) = NodeName::parse(child) else {
                if !std::mem::replace(&mut self.warned, true) {
                    self.actions.push_back(Action::Ignored(child.clone()));
                }
                continue;
            };
            if let Some(id) = self.line().get(&name) {
                children.keep_lowest(*id, name);
                continue;
            }
            match self.namer.as_ref().and_then(|namer| namer.minted(child)) {
                Some(uuid) => self.sort_out_own(name, by_uuid.get(&uuid).copied(), &mut children),
                None => children.others.push(name),
            }
        }
        children
    }

    /// Takes in a node that carries a uuid of this session: a contender's, or an orphan's.
    fn sort_out_own(&self, name: NodeName, join: Option<JoinId>, children: &mut Children) {
        if self.doomed.contains_key(&name) {
            return;
        }
        match join.and_then(|id| Some((id, self.entries.get(&id)?))) {
            // Its own reply will tell, and may be late: if it was lost, the driver may put off saying so; and an earlier
            // create may have been carried out after all. Till then no other of ours may hold behind this one, as if it
            // were somebody else's.
            Some((_, Entry { stage: EntryStage::Creating(_), .. })) => children.others.push(name),
            Some((id, Entry { stage: EntryStage::Unknown(_), .. })) => children.keep_lowest(id, name),
            // The same, and the last one was carried out too: it has stood here all along.
            Some((id, Entry { stage: EntryStage::Queued(place), .. })) if name < place.name => {
                children.keep_lowest(id, name);
            }
            _ => drop(children.orphans.insert(name)),
        }
    }

    /// What a listing says about each of our contenders.
    fn place_joins(&mut self, ticket: Ticket, look: ListingMode, found: &SmallMap<JoinId, NodeName>) {
        let ids: Vec<_> = self.entries.keys().copied().collect();
        for id in ids {
            let Some(join) = self.entries.get(&id) else { continue };
            match (&join.stage, found.get(&id)) {
                (EntryStage::Queued(place), Some(name)) if *name != place.name => self.verify(id, name),
                (EntryStage::Queued(place), Some(_)) if place.confirmed => {}
                (EntryStage::Queued(place), Some(_)) => {
                    let place = QueuePlace { confirmed: true, ..place.clone() };
                    self.entries.set_stage(id, EntryStage::Queued(place));
                }
                // A listing sent before the create says nothing about its node (rule 3).
                (EntryStage::Queued(place) | EntryStage::Held(place), None) if place.created < ticket => {
                    let name = place.name.clone();
                    self.own_node_gone(id, &name);
                }
                (EntryStage::Unknown(_), Some(name)) => self.verify(id, name),
                (EntryStage::Unknown(sent), None) if look == ListingMode::Synced && *sent < ticket => {
                    self.conclude_no_node(id);
                }
                (EntryStage::Unknown(_), None) => self.want(ListingMode::Synced),
                _ => {}
            }
        }
    }

    /// A listing sent after a sync, and after the create, does not show the node: only that allows the conclusion that
    /// there is none (rule 8). Not for good: a server that was cut off may still have the create, and carry it out
    /// late, if the client tried to reconnect there before it went elsewhere.
    fn conclude_no_node(&mut self, id: JoinId) {
        self.doubt = Some(self.last_ticket);
        if self.entries.get(&id).is_some_and(|join| join.leaving) {
            self.entries.remove(id);
        } else {
            self.entries.set_stage(id, EntryStage::Idle);
        }
    }
}
