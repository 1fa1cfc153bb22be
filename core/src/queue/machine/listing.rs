//! What a listing tells.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::super::mutants::{Mutant, planted};
use super::super::name::uuid_of;
use super::super::view::View;
use super::super::{Action, Intent, JoinId, Kind, Names, NodeName, Refusal, Ticket};
use super::{DOUBTFUL_LOOKS, Join, Look, Place, Queue, Stage, conflict};

impl Queue {
    /// Takes in a listing, sent with `ticket`.
    pub(super) fn look_at(&mut self, ticket: Ticket, look: Look, children: &[String]) {
        if !self.connected {
            return self.want(look);
        }
        let by_uuid: BTreeMap<Uuid, JoinId> =
            self.joins.iter().filter_map(|(id, join)| Some((join.uuid?, *id))).collect();
        let mut others = Names::new();
        let mut orphans = Names::new();
        let mut found: BTreeMap<JoinId, NodeName> = BTreeMap::new();
        for child in children {
            let Some(name) = NodeName::parse(child) else {
                if !std::mem::replace(&mut self.warned, true) {
                    self.actions.push_back(Action::Ignored(child.clone()));
                }
                continue;
            };
            let uuid =
                uuid_of(child).filter(|uuid| self.mint.as_ref().is_some_and(|mint| mint.minted(*uuid)));
            let Some(uuid) = uuid else {
                others.insert(name);
                continue;
            };
            if self.line.contains_key(&name) || self.doomed.contains_key(&name) {
                if let Some(id) = self.line.get(&name) {
                    found.insert(*id, name);
                }
                continue;
            }
            match by_uuid.get(&uuid).map(|id| (*id, &self.joins[id].stage)) {
                // Its own reply will tell.
                Some((_, Stage::Creating(_))) => {}
                // The lowest is kept, the others are orphans: the create was sent more than once.
                Some((id, Stage::Unknown(_))) => match found.get(&id) {
                    Some(lowest) if *lowest < name => drop(orphans.insert(name)),
                    _ => orphans.extend(found.insert(id, name)),
                },
                _ => drop(orphans.insert(name)),
            }
        }
        // A node that carries a uuid of this session and belongs to no join (rule 8).
        for orphan in orphans {
            self.doom(orphan, None);
        }
        if others.last().is_some_and(NodeName::is_at_the_end) {
            self.refuse_all(&Refusal::SequenceExhausted);
        }
        self.place_joins(ticket, look, &found);
        self.answer_lookers(ticket, &others);
        let mut view = View::new(others);
        if planted(Mutant::Tombstones) {
            view.bury_again(&self.view.take().unwrap_or_default());
        }
        self.view = Some(view);
        self.refuse_blocked_tries();
    }

    /// What a listing says of each of our joins.
    fn place_joins(&mut self, ticket: Ticket, look: Look, found: &BTreeMap<JoinId, NodeName>) {
        let ids: Vec<_> = self.joins.keys().copied().collect();
        for id in ids {
            let Some(join) = self.joins.get_mut(id) else {
                continue;
            };
            match (&mut join.stage, found.get(&id)) {
                (Stage::Queued(place), Some(_)) => place.confirmed = true,
                // Sent before the create: says nothing.
                (Stage::Queued(place) | Stage::Held(place), None) if place.created < ticket => {
                    let name = place.name.clone();
                    self.own_node_gone(id, &name);
                }
                (Stage::Unknown(_), Some(name)) => {
                    let name = name.clone();
                    let ticket = self.ticket();
                    self.actions.push_back(Action::Verify(ticket, name.clone()));
                    self.line.insert(name.clone(), id);
                    if let Some(join) = self.joins.get_mut(id) {
                        join.stage = Stage::Verifying(ticket, name);
                    }
                }
                // Only a listing sent after a sync, and after the create, may conclude that there is no node (rule 8).
                (Stage::Unknown(sent), None)
                    if (look == Look::Synced || planted(Mutant::TornPair)) && *sent < ticket =>
                {
                    // Not yet: a server that was out of touch may have it still, and carries it out late if the client
                    // tried to come back there before it went elsewhere.
                    self.doubt = DOUBTFUL_LOOKS;
                    if join.leaving {
                        self.joins.remove(id);
                    } else {
                        join.stage = Stage::Idle;
                    }
                }
                (Stage::Unknown(_), None) => {
                    self.want(Look::Synced);
                }
                _ => {}
            }
        }
    }

    /// Tells those that only look whether the lock is free for them.
    fn answer_lookers(&mut self, ticket: Ticket, others: &Names) {
        let looking = |join: &Join| matches!(join.stage, Stage::Looking(asked) if asked < ticket);
        let lookers: Vec<_> =
            self.joins.active().filter(|(_, join)| looking(join)).map(|(id, join)| (id, join.kind)).collect();
        for (id, kind) in lookers {
            let taken = match kind {
                Kind::Permit(permits) => others.len() + self.line.len() >= permits as usize,
                kind => others.iter().chain(self.line.keys()).any(|name| conflict(kind, name.kind())),
            };
            if taken {
                self.refuse(id, Refusal::Busy);
            } else if let Some(join) = self.joins.get_mut(id) {
                join.stage = Stage::Idle;
            }
        }
    }

    /// A contender that only tries does not wait behind somebody who came in between.
    fn refuse_blocked_tries(&mut self) {
        let blocked = |place: &Place, kind: Kind| {
            let by_ours = self.line.range(..&place.name).any(|(name, _)| conflict(kind, name.kind()));
            let by_others = self.view.as_ref().is_some_and(|view| view.blocks(&place.name, kind));
            by_ours || by_others || self.exhausted(kind)
        };
        let due: Vec<_> = self
            .joins
            .active()
            .filter(|(_, join)| join.intent == Intent::Try)
            .filter_map(|(id, join)| match &join.stage {
                Stage::Queued(place) if place.confirmed && blocked(place, join.kind) => Some(id),
                _ => None,
            })
            .collect();
        for id in due {
            self.refuse(id, Refusal::Busy);
        }
    }
}
