//! The state machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uuid::Uuid;

use super::name::{Mint, SEQUENCE_LIMIT, uuid_of};
use super::view::View;
use super::{Action, Event, Intent, JoinId, Kind, Names, Naming, NodeName, Outcome, Refusal, Ticket};

/// How often a contender makes missing parents before it gives up: each time somebody, or the server's reaper of
/// empty containers, deleted them in between.
const PARENT_ATTEMPTS: u32 = 16;

/// The queue of one lock directory as one client sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    connected: bool,
    /// Names this session's nodes; none between sessions.
    mint: Option<Mint>,
    joins: BTreeMap<JoinId, Join>,
    /// The places of our joins in the queue, whether they wait, hold, or are being verified.
    line: BTreeMap<NodeName, JoinId>,
    /// Our nodes that are to be deleted. They do not block our own waiters (rule 4).
    doomed: BTreeMap<NodeName, Doomed>,
    /// What is known of the others; none until a listing on this connection (rule 10).
    view: Option<View>,
    watches: BTreeMap<NodeName, Watch>,
    listing: Option<Ticket>,
    /// Whether the listing in flight follows a sync.
    listing_synced: bool,
    making_parents: Option<Ticket>,
    want_listing: bool,
    want_sync: bool,
    warned: bool,
    last_ticket: Ticket,
    actions: VecDeque<Action>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Join {
    naming: Naming,
    kind: Kind,
    intent: Intent,
    /// Kept over all retries within a session, never beyond it (rule 1).
    uuid: Option<Uuid>,
    /// No longer wanted, but its node's fate is not known yet.
    leaving: bool,
    parent_attempts: u32,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Has no node, and none is under way.
    Idle,
    /// Waits for a listing sent later than the ticket to tell whether the lock is free.
    Looking(Ticket),
    /// The create is under way.
    Creating(Ticket),
    /// The reply to the create with this ticket was lost: there may be a node.
    Unknown(Ticket),
    /// A node with its uuid was found, and its Stat is being read.
    Verifying(Ticket, NodeName),
    /// Has a node, and waits.
    Queued(Place),
    /// Holds.
    Held(Place),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    name: NodeName,
    czxid: i64,
    /// A listing later than this one must show the node.
    created: Ticket,
    /// Queued: a listing on this connection showed the node. Held: the node is to be watched.
    confirmed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Doomed {
    /// The delete under way, if any.
    ticket: Option<Ticket>,
    /// The hold that ends with it.
    release: Option<JoinId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Watch {
    ticket: Ticket,
    /// Acknowledged by the server.
    armed: bool,
}

impl Queue {
    /// A queue with nobody in it, out of touch with the server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is left to do, so that the queue may be dropped.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.joins.is_empty() && self.doomed.is_empty() && self.actions.is_empty()
    }

    /// How many stand before a contender, as far as is known.
    #[must_use]
    pub fn ahead_of(&self, join: JoinId) -> Option<usize> {
        match &self.joins.get(&join)?.stage {
            Stage::Queued(place) => {
                let others = self
                    .view
                    .as_ref()
                    .map_or(0, |view| view.count_before(&place.name));
                Some(others + self.line.range(..&place.name).count())
            }
            _ => None,
        }
    }

    /// Takes an event. Call [`settle`](Self::settle) after one or several, then carry out what
    /// [`next_action`](Self::next_action) returns.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Join(join, naming, kind, intent) => self.join(join, naming, kind, intent),
            Event::Leave(join) => self.leave(join),
            Event::Release(join) => self.release(join),
            Event::Guard(join) => {
                if let Some(Join {
                    stage: Stage::Held(place),
                    ..
                }) = self.joins.get_mut(&join)
                {
                    place.confirmed = true;
                }
            }
            Event::SessionBegan(seed) => self.mint = Some(Mint::new(seed)),
            Event::SessionLost => self.session_lost(),
            Event::Connected => self.connected(),
            Event::Disconnected => self.disconnected(),
            Event::LookAgain => self.want_listing |= !self.line.is_empty(),
            Event::Created(ticket, outcome) => self.created(ticket, outcome),
            Event::ParentsMade(ticket, outcome) => self.parents_made(ticket, outcome),
            Event::Listed(ticket, outcome) => self.listed(ticket, outcome),
            Event::Verified(ticket, outcome) => self.verified(ticket, outcome),
            Event::Watched(ticket, outcome) => self.watched(ticket, &outcome),
            Event::Gone(ticket) => {
                if let Some(name) = self.watch_used(ticket) {
                    self.gone(&name);
                }
            }
            Event::Changed(ticket) => drop(self.watch_used(ticket)),
            Event::Deleted(ticket, outcome) => self.deleted(ticket, &outcome),
        }
    }

    /// Draws the conclusions of the events so far.
    pub fn settle(&mut self) {
        if !self.connected {
            return;
        }
        self.grant();
        self.adjust_watches();
        self.send();
    }

    /// The next thing to do, in order.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket.0 += 1;
        self.last_ticket
    }

    // Joining, leaving, releasing.

    fn join(&mut self, id: JoinId, naming: Naming, kind: Kind, intent: Intent) {
        let stage = match intent {
            Intent::Wait => Stage::Idle,
            // Somebody on this client is in the queue already: taken, and no request needed to know it.
            Intent::Try if self.joins.values().any(|join| !join.leaving) => {
                self.actions.push_back(Action::Refuse(id, Refusal::Busy));
                return;
            }
            Intent::Try => {
                self.want_listing = true;
                Stage::Looking(self.last_ticket)
            }
        };
        let join = Join {
            naming,
            kind,
            intent,
            uuid: None,
            leaving: false,
            parent_attempts: 0,
            stage,
        };
        self.joins.insert(id, join);
    }

    fn leave(&mut self, id: JoinId) {
        let Some(join) = self.joins.get_mut(&id) else {
            return;
        };
        match &join.stage {
            Stage::Held(_) => {}
            Stage::Idle | Stage::Looking(_) => drop(self.joins.remove(&id)),
            Stage::Creating(_) | Stage::Unknown(_) | Stage::Verifying(..) => join.leaving = true,
            Stage::Queued(place) => {
                let name = place.name.clone();
                self.joins.remove(&id);
                self.doom(name, None);
            }
        }
    }

    fn release(&mut self, id: JoinId) {
        match self.joins.get(&id) {
            Some(Join {
                stage: Stage::Held(place),
                ..
            }) => {
                let name = place.name.clone();
                self.joins.remove(&id);
                self.doom(name, Some(id));
            }
            // Lost before: the node is gone already.
            _ => self.actions.push_back(Action::Released(id)),
        }
    }

    /// Refuses a contender, and deletes what it may have left on the server.
    fn refuse(&mut self, id: JoinId, refusal: Refusal) {
        let Some(join) = self.joins.remove(&id) else {
            return;
        };
        if let Stage::Queued(place) = join.stage {
            self.doom(place.name, None);
        }
        if !join.leaving {
            self.actions.push_back(Action::Refuse(id, refusal));
        }
    }

    fn refuse_all(&mut self, refusal: &Refusal) {
        let waiting: Vec<_> = self.waiting().collect();
        for id in waiting {
            self.refuse(id, refusal.clone());
        }
    }

    fn waiting(&self) -> impl Iterator<Item = JoinId> {
        self.joins
            .iter()
            .filter(|(_, join)| !matches!(join.stage, Stage::Held(_)))
            .map(|(id, _)| *id)
    }

    fn doom(&mut self, name: NodeName, release: Option<JoinId>) {
        self.line.remove(&name);
        self.doomed.entry(name).or_insert(Doomed {
            ticket: None,
            release,
        });
    }

    // The connection and the session.

    fn connected(&mut self) {
        self.connected = true;
        // Everything known is from the old connection. What has a place, or may have one, is looked for; the sync makes
        // sure that a lagging server does not hide a node whose create was not acknowledged (rule 8).
        let look = |join: &Join| !matches!(join.stage, Stage::Idle);
        if self.joins.values().any(look) {
            self.want_listing = true;
            self.want_sync = true;
        }
    }

    fn disconnected(&mut self) {
        self.connected = false;
        self.view = None;
        for join in self.joins.values_mut() {
            if let Stage::Queued(place) = &mut join.stage {
                place.confirmed = false;
            }
        }
    }

    fn session_lost(&mut self) {
        self.disconnected();
        self.mint = None;
        self.line.clear();
        self.watches.clear();
        self.listing = None;
        self.making_parents = None;
        for (_, doomed) in std::mem::take(&mut self.doomed) {
            self.actions.extend(doomed.release.map(Action::Released));
        }
        let last_ticket = self.last_ticket;
        let actions = &mut self.actions;
        self.joins.retain(|id, join| {
            join.uuid = None;
            match join.stage {
                Stage::Held(_) => actions.push_back(Action::NodeLost(*id)),
                Stage::Looking(_) => join.stage = Stage::Looking(last_ticket),
                _ => join.stage = Stage::Idle,
            }
            !join.leaving && !matches!(join.stage, Stage::Held(_))
        });
    }

    // Outcomes.

    fn created(&mut self, ticket: Ticket, outcome: Outcome<(String, i64)>) {
        let creating = |join: &Join| matches!(join.stage, Stage::Creating(sent) if sent == ticket);
        let Some((&id, join)) = self.joins.iter_mut().find(|(_, join)| creating(join)) else {
            return;
        };
        match outcome {
            Outcome::Done((name, czxid)) => self.placed(id, NodeName::parse(&name), czxid, ticket),
            Outcome::Lost => {
                join.stage = Stage::Unknown(ticket);
                self.want_listing = true;
                self.want_sync = true;
            }
            // Nothing was created, whether it is still wanted or not.
            Outcome::NoNode | Outcome::Refused(_) if join.leaving => drop(self.joins.remove(&id)),
            Outcome::NoNode => {
                join.stage = Stage::Idle;
                join.parent_attempts += 1;
                if join.parent_attempts > PARENT_ATTEMPTS {
                    let problem = "the lock directory is deleted again and again while it is being made";
                    self.refuse(id, Refusal::Server(problem.to_owned()));
                } else if self.making_parents.is_none() {
                    let ticket = self.ticket();
                    self.making_parents = Some(ticket);
                    self.actions.push_back(Action::MakeParents(ticket));
                }
            }
            Outcome::Refused(refusal) => self.refuse(id, refusal),
        }
    }

    /// A join's node exists.
    fn placed(&mut self, id: JoinId, name: Option<NodeName>, czxid: i64, created: Ticket) {
        let Some(join) = self.joins.get_mut(&id) else {
            return;
        };
        let Some(name) = name else {
            return self.refuse(
                id,
                Refusal::Server("the server made a node without a sequence number".to_owned()),
            );
        };
        let place = Place {
            name: name.clone(),
            czxid,
            created,
            confirmed: false,
        };
        join.stage = Stage::Queued(place);
        if join.leaving {
            self.joins.remove(&id);
            self.doom(name, None);
        } else if name.sequence() > SEQUENCE_LIMIT {
            self.refuse(id, Refusal::SequenceExhausted);
        } else {
            self.line.insert(name, id);
        }
    }

    fn parents_made(&mut self, ticket: Ticket, outcome: Outcome<()>) {
        if self.making_parents != Some(ticket) {
            return;
        }
        self.making_parents = None;
        if let Outcome::Refused(refusal) = outcome {
            let idle: Vec<_> = self
                .waiting()
                .filter(|id| self.joins[id].stage == Stage::Idle)
                .collect();
            for id in idle {
                self.refuse(id, refusal.clone());
            }
        }
    }

    fn listed(&mut self, ticket: Ticket, outcome: Outcome<Vec<String>>) {
        if self.listing != Some(ticket) {
            return;
        }
        self.listing = None;
        let synced = std::mem::take(&mut self.listing_synced);
        match outcome {
            Outcome::Done(children) => self.look_at(ticket, synced, &children),
            Outcome::NoNode => self.look_at(ticket, synced, &[]),
            Outcome::Lost => {
                self.want_listing = true;
                self.want_sync |= synced;
            }
            Outcome::Refused(refusal) => self.refuse_all(&refusal),
        }
    }

    /// Takes in a listing, sent with `ticket`, after a sync or not.
    fn look_at(&mut self, ticket: Ticket, synced: bool, children: &[String]) {
        if !self.connected {
            self.want_listing = true;
            self.want_sync |= synced;
            return;
        }
        let by_uuid: BTreeMap<Uuid, JoinId> = self
            .joins
            .iter()
            .filter_map(|(id, join)| Some((join.uuid?, *id)))
            .collect();
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
        if others.last().is_some_and(|name| name.sequence() > SEQUENCE_LIMIT) {
            self.refuse_all(&Refusal::SequenceExhausted);
        }
        self.place_joins(ticket, synced, &found);
        self.answer_lookers(ticket, others.is_empty());
        self.view = Some(View::new(others));
        self.refuse_blocked_tries();
    }

    /// What a listing says of each of our joins.
    fn place_joins(&mut self, ticket: Ticket, synced: bool, found: &BTreeMap<JoinId, NodeName>) {
        let ids: Vec<_> = self.joins.keys().copied().collect();
        for id in ids {
            let Some(join) = self.joins.get_mut(&id) else {
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
                    self.joins
                        .entry(id)
                        .and_modify(|join| join.stage = Stage::Verifying(ticket, name));
                }
                // Only a listing sent after a sync, and after the create, may conclude that there is no node (rule 8).
                (Stage::Unknown(sent), None) if synced && *sent < ticket => {
                    if join.leaving {
                        self.joins.remove(&id);
                    } else {
                        join.stage = Stage::Idle;
                    }
                }
                (Stage::Unknown(_), None) => {
                    self.want_listing = true;
                    self.want_sync = true;
                }
                _ => {}
            }
        }
    }

    /// Tells those that only look whether the lock is free.
    fn answer_lookers(&mut self, ticket: Ticket, free: bool) {
        let looking = |join: &Join| matches!(join.stage, Stage::Looking(asked) if asked < ticket);
        let lookers: Vec<_> = self
            .joins
            .iter()
            .filter(|(_, join)| looking(join))
            .map(|(id, _)| *id)
            .collect();
        for id in lookers {
            if free && self.line.is_empty() {
                self.joins.entry(id).and_modify(|join| join.stage = Stage::Idle);
            } else {
                self.refuse(id, Refusal::Busy);
            }
        }
    }

    /// A contender that only tries does not wait behind somebody who came in between.
    fn refuse_blocked_tries(&mut self) {
        let blocked: Vec<_> = self
            .joins
            .iter()
            .filter_map(|(id, join)| match &join.stage {
                Stage::Queued(place) if join.intent == Intent::Try && place.confirmed => {
                    let behind_ours = self.line.range(..&place.name).next().is_some();
                    let behind_others = self
                        .view
                        .as_ref()
                        .is_some_and(|view| view.blocks_exclusive(&place.name));
                    (behind_ours || behind_others).then_some(*id)
                }
                _ => None,
            })
            .collect();
        for id in blocked {
            self.refuse(id, Refusal::Busy);
        }
    }

    fn verified(&mut self, ticket: Ticket, outcome: Outcome<Option<i64>>) {
        let verifying = |join: &Join| matches!(join.stage, Stage::Verifying(sent, _) if sent == ticket);
        let Some((&id, join)) = self.joins.iter_mut().find(|(_, join)| verifying(join)) else {
            return;
        };
        let stage = std::mem::replace(&mut join.stage, Stage::Unknown(ticket));
        let Stage::Verifying(_, name) = stage else { return };
        self.line.remove(&name);
        match outcome {
            // Shown by a listing, but that is a while ago: the next one confirms it.
            Outcome::Done(Some(czxid)) => self.placed(id, Some(name), czxid, ticket),
            // Not this session's after all (rule 12): begin anew, under a name that cannot be mistaken.
            Outcome::Done(None) => {
                join.stage = Stage::Idle;
                join.uuid = None;
                if join.leaving {
                    self.joins.remove(&id);
                }
            }
            Outcome::NoNode | Outcome::Lost => self.want_sync = true,
            Outcome::Refused(refusal) => {
                self.doom(name, None);
                self.refuse(id, refusal);
            }
        }
        self.want_listing = true;
    }

    fn deleted(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        let sent = |doomed: &Doomed| doomed.ticket == Some(ticket);
        let Some((name, doomed)) = self.doomed.iter_mut().find(|(_, doomed)| sent(doomed)) else {
            return;
        };
        if *outcome == Outcome::Lost {
            doomed.ticket = None;
            return;
        }
        let name = name.clone();
        // The watch on the node, if any, went with it.
        self.watches.remove(&name);
        if let Some(Doomed {
            release: Some(id), ..
        }) = self.doomed.remove(&name)
        {
            self.actions.push_back(Action::Released(id));
        }
    }

    // Watches and what they tell.

    fn watched(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        match outcome {
            Outcome::Done(()) => {
                if let Some(watch) = self.watches.values_mut().find(|watch| watch.ticket == ticket) {
                    watch.armed = true;
                }
            }
            Outcome::NoNode => {
                if let Some(name) = self.watch_used(ticket) {
                    self.gone(&name);
                }
            }
            Outcome::Lost => drop(self.watch_used(ticket)),
            Outcome::Refused(refusal) => {
                drop(self.watch_used(ticket));
                self.refuse_all(refusal);
            }
        }
    }

    /// Forgets a watch that fired or never was; the name that it was on.
    fn watch_used(&mut self, ticket: Ticket) -> Option<NodeName> {
        let name = self
            .watches
            .iter()
            .find(|(_, watch)| watch.ticket == ticket)?
            .0
            .clone();
        self.watches.remove(&name);
        Some(name)
    }

    fn gone(&mut self, name: &NodeName) {
        if let Some(id) = self.line.get(name).copied() {
            self.own_node_gone(id, name);
        } else if let Some(view) = &mut self.view {
            self.want_listing |= view.subtract(name) && !self.line.is_empty();
        }
    }

    /// Somebody else deleted our node.
    fn own_node_gone(&mut self, id: JoinId, name: &NodeName) {
        self.line.remove(name);
        self.watches.remove(name);
        let Some(join) = self.joins.get_mut(&id) else {
            return;
        };
        match join.stage {
            Stage::Held(_) => {
                self.joins.remove(&id);
                self.actions.push_back(Action::NodeLost(id));
            }
            _ => {
                join.stage = Stage::Idle;
                join.uuid = None;
            }
        }
    }

    // Conclusions.

    /// Grants to the first of our line, if nobody is before it.
    ///
    /// Why this is safe: sequence numbers only grow, so nobody can come before a node that exists, and a listing
    /// that shows ours shows everybody before it. What stood there is gone when the view says so: it was
    /// taken from that listing, and only what the server said to be gone was taken out since.
    fn grant(&mut self) {
        let Some(view) = &mut self.view else { return };
        // Not only the first: a contender whose place was found late may stand before a holder.
        if self
            .joins
            .values()
            .any(|join| matches!(join.stage, Stage::Held(_)))
        {
            return;
        }
        let Some((name, &id)) = self.line.first_key_value() else {
            return;
        };
        let Some(join) = self.joins.get_mut(&id) else {
            return;
        };
        let Stage::Queued(place) = &join.stage else { return };
        if !place.confirmed || view.blocks_exclusive(name) {
            return;
        }
        // Told by events, not by a listing: then our own node must be known to exist still, or somebody behind us may
        // have been told the same (rule 6).
        if view.stale_before(name) {
            match self.watches.get(name) {
                Some(watch) if watch.armed => view.confirm(),
                Some(_) => return,
                None => {
                    self.want_listing = true;
                    return;
                }
            }
        }
        let place = Place {
            confirmed: false,
            ..place.clone()
        };
        self.actions
            .push_back(Action::Grant(id, place.name.clone(), place.czxid));
        join.stage = Stage::Held(place);
    }

    /// Sets the watches that are needed and drops those that are not.
    ///
    /// Needed are: for each of ours whose predecessor is somebody else's, that node, the one before it if that is
    /// somebody else's too, and our own; and our own while we hold for long.
    fn adjust_watches(&mut self) {
        let mut needed = BTreeSet::new();
        let mut next: Option<&NodeName> = None;
        for other in self.view.iter().flat_map(View::nodes).rev() {
            // The first of ours behind `other`, if no other stands between.
            let ours = self
                .line
                .range(other..)
                .next()
                .filter(|(name, _)| next.is_none_or(|next| *name < next));
            next = Some(other);
            let Some((name, id)) = ours else { continue };
            match &self.joins[id].stage {
                Stage::Queued(place) if place.confirmed => {}
                _ => continue,
            }
            needed.extend([name.clone(), other.clone()]);
            let before_ours = self.line.range(..other).next_back().map(|(name, _)| name);
            let before = self.view.as_ref().and_then(|view| view.before(other));
            needed.extend(
                before
                    .filter(|before| before_ours.is_none_or(|ours| ours < *before))
                    .cloned(),
            );
        }
        for join in self.joins.values() {
            match &join.stage {
                Stage::Held(place) if place.confirmed => drop(needed.insert(place.name.clone())),
                _ => {}
            }
        }
        // Our own nodes' watches stay: they go with the node, and dropping one would be a request.
        let (line, doomed, actions) = (&self.line, &self.doomed, &mut self.actions);
        self.watches.retain(|name, watch| {
            let keep = needed.contains(name) || line.contains_key(name) || doomed.contains_key(name);
            if !keep {
                actions.push_back(Action::Unwatch(watch.ticket));
            }
            keep
        });
        needed.retain(|name| !self.watches.contains_key(name));
        // What is behind a node that went may be gone too: look again instead of watching what may not exist (rule 6).
        let stale = self.view.as_ref().is_some_and(View::stale);
        if stale && needed.iter().any(|name| !self.line.contains_key(name)) {
            self.want_listing = true;
            needed.retain(|name| self.line.contains_key(name));
        }
        for name in needed {
            let ticket = self.ticket();
            self.watches.insert(name.clone(), Watch { ticket, armed: false });
            self.actions.push_back(Action::Watch(ticket, name));
        }
    }

    /// Sends the requests that are due: creates, then deletes, then one listing that answers all creates before it.
    fn send(&mut self) {
        if self.making_parents.is_none() {
            let idle: Vec<_> = self
                .waiting()
                .filter(|id| self.joins[id].stage == Stage::Idle)
                .collect();
            for id in idle {
                self.create(id);
            }
        }
        let unsent: Vec<_> = self
            .doomed
            .iter()
            .filter(|(_, doomed)| doomed.ticket.is_none())
            .map(|(name, _)| name.clone())
            .collect();
        for name in unsent {
            let ticket = self.ticket();
            self.doomed
                .entry(name.clone())
                .and_modify(|doomed| doomed.ticket = Some(ticket));
            self.actions.push_back(Action::Delete(ticket, name));
        }
        if self.want_listing && self.listing.is_none() {
            self.want_listing = false;
            let ticket = self.ticket();
            let sync = std::mem::take(&mut self.want_sync);
            self.listing = Some(ticket);
            self.listing_synced = sync;
            self.actions.push_back(Action::List { ticket, sync });
        }
    }

    fn create(&mut self, id: JoinId) {
        let ticket = self.ticket();
        let (Some(join), Some(mint)) = (self.joins.get_mut(&id), self.mint.as_mut()) else {
            return;
        };
        let uuid = *join.uuid.get_or_insert_with(|| mint.mint());
        join.stage = Stage::Creating(ticket);
        self.actions
            .push_back(Action::Create(ticket, id, join.naming.prefix(uuid, join.kind)));
        self.want_listing = true;
    }
}
