//! Decides when the directory is listed, and handles the reply (rules 2, 3, 5 and 8).

use uuid::Uuid;

use super::doubt::Doubt;
use super::entry::{Entry, EntryStage, QueuePlace};
use super::{ListingMode, Queue};
use crate::queue::action::Action;
use crate::queue::event::{JoinId, Outcome, Refusal, Ticket};
use crate::queue::node_name::{Kind, NodeName, is_kazoos};
use crate::queue::remote_view::RemoteView;
use crate::queue::small_map::{SmallMap, SmallSet};

/// A contender can join without a listing if a listing has shown at least this many of our waiters
/// for an exclusive hold. If the number were one, a hand-off from this waiter to the next would
/// have to wait for a listing.
pub(super) const MIN_SEEN_AHEAD: usize = 2;

/// The children in a listing, sorted by owner.
#[derive(Default)]
struct Children {
    /// Nodes of other clients.
    others: Vec<NodeName>,
    /// Nodes whose names contain a uuid of this session, but that belong to no contender.
    orphans: SmallSet<NodeName>,
    /// Nodes of our contenders: the lowest one for each contender.
    found: SmallMap<JoinId, NodeName>,
}

impl Children {
    /// Adds a node of a contender. If several of the contender's creates were carried out, keeps
    /// its lowest node and treats the others as orphans.
    fn keep_lowest(&mut self, id: JoinId, name: NodeName) {
        match self.found.get(&id) {
            Some(lowest) if *lowest < name => drop(self.orphans.insert(name)),
            _ => self.orphans.extend(self.found.insert(id, name)),
        }
    }
}

impl Queue {
    /// Requests a listing. If both modes are requested, the listing is sent after a sync.
    pub(super) fn request_listing(&mut self, look: ListingMode) {
        self.wanted = self.wanted.max(Some(look));
        self.deferred = false;
    }

    /// Returns `true` if one of our contenders has a node, or might have one, and does not hold the
    /// lock.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.line().len() > self.entries.holders()
    }

    /// Requests a listing if a contender that no listing has shown might soon be the next holder. A
    /// listing sent now shows every node that can ever be ahead of this contender. A listing in
    /// progress is sufficient if it was sent after the create.
    pub(super) fn list_for_next_waiter(&mut self) {
        if self.deferred {
            return;
        }
        let Some(first) = self.line().unseen_behind_fewer_than(MIN_SEEN_AHEAD) else { return };
        let place = self.line().get(first).and_then(|id| match &self.entries.get(id)?.stage {
            EntryStage::Queued(place) => Some(place.created),
            _ => None,
        });
        if place.is_some_and(|created| self.listing.is_none_or(|(sent, _)| sent < created)) {
            self.request_listing(ListingMode::Plain);
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
            Outcome::Done(children) => self.apply_listing(ticket, look, &children),
            Outcome::NoNode => self.apply_listing(ticket, look, &[]),
            Outcome::Lost => {
                self.drop_child_watch(ticket);
                self.request_listing(look);
            }
            Outcome::Refused(refusal) => {
                // The refused listing has set no watch.
                self.drop_child_watch(ticket);
                self.refuse_all(&refusal);
                // Only a listing can show the node of a create whose reply was lost. The doubt
                // makes the queue list the directory again later.
                let unknown = |join: &Entry| matches!(join.stage, EntryStage::Unknown(_));
                if matches!(self.doubt, Doubt::UntilListed(_)) || self.entries.values().any(unknown) {
                    self.begin_doubt();
                }
            }
        }
    }

    /// Handles the reply to the listing with this ticket. The reply replaces all earlier knowledge
    /// (rule 5).
    fn apply_listing(&mut self, ticket: Ticket, look: ListingMode, children: &[String]) {
        if !self.connected {
            return self.request_listing(look);
        }
        self.answer_doubt(ticket);
        let Children { others, orphans, found } = self.classify_children(children);
        for orphan in orphans {
            self.request_delete(orphan);
        }
        if others.iter().any(NodeName::is_at_the_end) {
            self.refuse_all(&Refusal::SequenceExhausted);
        }
        self.refuse_candidates_beside_kazoo(&others);
        self.apply_to_contenders(ticket, look, &found);
        self.view = Some(RemoteView::new(others));
        self.old_view = None;
        self.watches.mark_all_changed();
        self.decide_looking_contenders(ticket);
        self.refuse_blocked_tries();
    }

    /// Refuses election candidates if a contender uses kazoo. Candidates wait for kazoo's
    /// contenders, but kazoo's contenders do not wait for candidates. No option of kazoo's election
    /// changes that (rule 2).
    fn refuse_candidates_beside_kazoo(&mut self, others: &[NodeName]) {
        let campaigns = |join: &Entry| join.kind == Kind::Lead && !join.is_held();
        let candidates: Vec<_> =
            self.entries.iter().filter(|(_, join)| campaigns(join)).map(|(id, _)| *id).collect();
        if candidates.is_empty() {
            return;
        }
        // `others` can include nodes of ours whose creates are in progress. Their names can have
        // kazoo's format.
        let own_uuid = |name: &str| self.namer.as_ref().is_some_and(|namer| namer.own_uuid(name).is_some());
        let foreign = |other: &&NodeName| is_kazoos(other.as_str()) && !own_uuid(other.as_str());
        if let Some(kazoos) = others.iter().find(foreign) {
            for id in candidates {
                self.refuse(id, Refusal::BesideKazoo(kazoos.clone()));
            }
        }
    }

    /// Sorts the children by owner. Ignores children that are not contenders, and logs one warning
    /// about them (rule 2).
    fn classify_children(&mut self, names: &[String]) -> Children {
        // Search by uuid only for contenders that might have an unknown node. All other contenders
        // have a known node, so any other node with their uuid is an orphan.
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
            match self.namer.as_ref().and_then(|namer| namer.own_uuid(child)) {
                Some(uuid) => self.classify_own_children(name, by_uuid.get(&uuid).copied(), &mut children),
                None => children.others.push(name),
            }
        }
        children
    }

    /// Assigns a node with a uuid of this session to its contender, or treats it as an orphan.
    fn classify_own_children(&self, name: NodeName, join: Option<JoinId>, children: &mut Children) {
        if self.deletes.contains_key(&name) {
            return;
        }
        match join.and_then(|id| Some((id, self.entries.get(&id)?))) {
            // The reply to the create is not known yet. It decides whether the contender's position
            // in the queue is that of this node or of a node from another create. Until then, this
            // node must block our contenders behind it, like another client's node.
            Some((_, Entry { stage: EntryStage::Creating(_), .. })) => children.others.push(name),
            Some((id, Entry { stage: EntryStage::Unknown(_), .. })) => children.keep_lowest(id, name),
            // The server had carried out an earlier create, but its reply was lost, so the
            // contender created another node. The earlier node is the contender's real node.
            Some((id, Entry { stage: EntryStage::Queued(place), .. })) if name < place.name => {
                children.keep_lowest(id, name);
            }
            _ => drop(children.orphans.insert(name)),
        }
    }

    /// Updates each of our contenders according to a listing.
    fn apply_to_contenders(&mut self, ticket: Ticket, look: ListingMode, found: &SmallMap<JoinId, NodeName>) {
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
                // A listing that was sent before the create does not show whether the node exists
                // (rule 3).
                (EntryStage::Queued(place) | EntryStage::Held(place), None) if place.created < ticket => {
                    let name = place.name.clone();
                    self.own_node_gone(id, &name);
                }
                (EntryStage::Unknown(_), Some(name)) => self.verify(id, name),
                (EntryStage::Unknown(sent), None) if look == ListingMode::Synced && *sent < ticket => {
                    self.conclude_no_node(id);
                }
                (EntryStage::Unknown(_), None) => self.request_listing(ListingMode::Synced),
                _ => {}
            }
        }
    }

    /// Concludes that a contender has no node. This requires a listing that was sent after a sync
    /// and after the create, and that does not show the node (rule 8). The conclusion is not final:
    /// if the client tried to reconnect to a server that was cut off, and then connected to another
    /// one, the first server might still carry out the create late.
    fn conclude_no_node(&mut self, id: JoinId) {
        self.begin_doubt();
        if self.entries.get(&id).is_some_and(|join| join.leaving) {
            self.entries.remove(id);
        } else {
            self.entries.set_stage(id, EntryStage::Idle);
        }
    }
}
