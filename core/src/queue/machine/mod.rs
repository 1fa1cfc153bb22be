//! The state machine: its state, and how events change it.

mod conclusions;
mod joins;
mod listing;
mod permits;

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

use self::joins::Joins;
use super::mutants::{Mutant, planted};
use super::name::Mint;
use super::view::View;
use super::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Refusal, Ticket};

/// How often a contender makes missing parents before it gives up: each time somebody, or the server's reaper of
/// empty containers, deleted them in between.
const PARENT_ATTEMPTS: u32 = 16;

/// For how many looks, which come every twenty silent seconds, a create may still turn up that was not found after its
/// reply was lost: longer than servers and the network keep what they cannot deliver.
const DOUBTFUL_LOOKS: u32 = 15;

/// The queue of one lock directory as one client sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    connected: bool,
    /// Whether the session's term runs. Nothing is granted without (rule 16).
    term: bool,
    /// Names this session's nodes; none between sessions.
    mint: Option<Mint>,
    joins: Joins,
    /// The places of our joins in the queue, whether they wait, hold, or are being verified.
    line: BTreeMap<NodeName, JoinId>,
    /// Our nodes that are to be deleted. They do not block our own waiters (rule 4).
    doomed: BTreeMap<NodeName, Doomed>,
    /// What is known of the others; none until a listing on this connection (rule 10).
    view: Option<View>,
    watches: BTreeMap<NodeName, Watch>,
    /// The listing in flight.
    listing: Option<(Ticket, Look)>,
    /// The listing to be sent when there is none in flight.
    wanted: Option<Look>,
    /// The listing that watches the children, while it is under way and as long as the watch may fire.
    child_watch: Option<Ticket>,
    making_parents: Option<Ticket>,
    /// For how many looks more a create that was given up may be carried out late (rule 8).
    doubt: u32,
    warned: bool,
    last_ticket: Ticket,
    actions: VecDeque<Action>,
}

/// How to look at the lock directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Look {
    /// A listing, by whatever the server at hand knows.
    Plain,
    /// A listing after a sync: what the ensemble knew before is in it.
    Synced,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Join {
    naming: Naming,
    kind: Kind,
    intent: Intent,
    /// Kept over all retries within a session, never beyond it (rule 1).
    uuid: Option<Uuid>,
    /// No longer wanted, but its node's fate is not known yet, or for a writer that of the reader in its place.
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
    /// The server refused: tried again at the next look.
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Watch {
    ticket: Ticket,
    /// Acknowledged by the server.
    armed: bool,
}

/// Whether two contenders cannot hold at the same time.
fn conflict(one: Kind, other: Kind) -> bool {
    !matches!((one, other), (Kind::Read, Kind::Read) | (Kind::Permit(_), _) | (_, Kind::Permit(_)))
}

impl Queue {
    /// A queue with nobody in it, out of touch with the server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with tickets after this one.
    #[must_use]
    pub fn after(last_ticket: Ticket) -> Self {
        Self { last_ticket, ..Self::default() }
    }

    /// The last ticket that was given to a request.
    #[must_use]
    pub fn last_ticket(&self) -> Ticket {
        self.last_ticket
    }

    /// Whether nothing is left to do or under way, so that the queue may be dropped: the next queue of this path
    /// counts its tickets from one again, and would take an answer that comes late for its own.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let watching = self.child_watch.is_some() || !self.watches.is_empty();
        let under_way = self.listing.is_some() || self.making_parents.is_some() || watching || self.doubt > 0;
        self.joins.is_empty() && self.doomed.is_empty() && self.actions.is_empty() && !under_way
    }

    /// How many stand before a contender, as far as is known.
    #[must_use]
    pub fn ahead_of(&self, join: JoinId) -> Option<usize> {
        match &self.joins.get(&join)?.stage {
            Stage::Queued(place) => Some(self.all_before(&place.name).count()),
            _ => None,
        }
    }

    fn all_before(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        let others = self.view.iter().flat_map(|view| view.all_before(name));
        others.chain(self.line.range(..name).map(|(ours, _)| ours))
    }

    /// Whether a node is one of ours that waits or holds.
    #[must_use]
    pub fn is_ours(&self, node: &NodeName) -> bool {
        self.line.contains_key(node)
    }

    /// Our nodes in the order of the queue, at most so many.
    pub fn places(&self, limit: usize) -> impl Iterator<Item = &NodeName> {
        self.line.keys().take(limit)
    }

    /// Whether somebody of ours waits with at most so many before it that it cannot hold with: soon the term will matter.
    /// Others do not count: a reader does not hear of readers that go, and for a permit it does not matter who was first.
    #[must_use]
    pub fn waits_behind(&self, limit: usize) -> bool {
        let near = |(name, id): (&NodeName, &JoinId)| {
            let Some(Join { kind, stage: Stage::Queued(_), .. }) = self.joins.get(id) else { return false };
            self.all_before(name).filter(|before| conflict(*kind, before.kind())).nth(limit).is_none()
        };
        // Those of ours that are further back have more of ours before them, or are readers as one of these is.
        self.line.iter().take(limit + 1).any(near)
    }

    /// Whether the last listing shows this contender in the queue, and somebody before it.
    #[must_use]
    pub fn stands_behind_another(&self, join: JoinId) -> bool {
        match self.joins.get(&join).map(|join| &join.stage) {
            Some(Stage::Queued(place)) if place.confirmed => {
                let ours = self.line.range(..&place.name).next().is_some();
                ours || self.view.as_ref().is_some_and(|view| view.before(&place.name).is_some())
            }
            _ => false,
        }
    }

    /// Takes an event. Call [`settle`](Self::settle) after one or several, then carry out what
    /// [`next_action`](Self::next_action) returns.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Join(join, naming, kind, intent) => self.join(join, naming, kind, intent),
            Event::Downgrade(reader, writer) => self.downgrade(reader, writer),
            Event::Leave(join) => self.leave(join),
            Event::Release(join) => self.release(join),
            Event::Guard(join) => {
                if let Some(Join { stage: Stage::Held(place), .. }) = self.joins.get_mut(join) {
                    place.confirmed = true;
                }
            }
            Event::SessionBegan(seed) => drop(self.mint.get_or_insert_with(|| Mint::new(seed))),
            Event::SessionLost => self.session_lost(),
            Event::Connected => self.connected(),
            Event::Disconnected => self.disconnected(),
            Event::TermBegan => self.term = true,
            Event::TermEnded => self.term = false,
            Event::LookAgain => self.look_again(),
            Event::Created(ticket, outcome) => self.created(ticket, outcome),
            Event::ParentsMade(ticket, outcome) => self.parents_made(ticket, outcome),
            Event::Listed(ticket, outcome) => self.listed(ticket, outcome),
            Event::Verified(ticket, outcome) => self.verified(ticket, outcome),
            Event::Watched(ticket, outcome) => self.watched(ticket, &outcome),
            Event::Gone(ticket) if self.child_watch == Some(ticket) => self.children_changed(),
            Event::Gone(ticket) => {
                if let Some(name) = self.watch_used(ticket) {
                    self.gone(&name);
                }
            }
            Event::Missing(name) => self.missing(&name),
            Event::Changed(ticket) if self.child_watch == Some(ticket) => self.children_changed(),
            Event::Changed(ticket) => drop(self.watch_used(ticket)),
            Event::Deleted(ticket, outcome) => self.deleted(ticket, &outcome),
        }
    }

    fn look_again(&mut self) {
        self.retry_refused_deletes();
        if !self.line.is_empty() || self.doubt > 0 {
            self.want(Look::Plain);
        }
        self.doubt = self.doubt.saturating_sub(1);
    }

    fn retry_refused_deletes(&mut self) {
        for doomed in self.doomed.values_mut() {
            doomed.refused = false;
        }
    }

    /// Draws the conclusions of the events so far.
    pub fn settle(&mut self) {
        self.joins.calm();
        if !self.connected {
            return;
        }
        self.grant();
        if self.finish_releases() {
            self.grant();
        }
        self.adjust_watches();
        self.adjust_child_watch();
        self.send();
    }

    /// The next thing to do, in order.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Asks for a listing; of two wishes the stronger counts.
    fn want(&mut self, look: Look) {
        self.wanted = self.wanted.max(Some(look));
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket.0 += 1;
        self.last_ticket
    }

    // Joining, leaving, releasing.

    fn join(&mut self, id: JoinId, naming: Naming, kind: Kind, intent: Intent) {
        let stage = match intent {
            Intent::Wait | Intent::Downgrade(_) => Stage::Idle,
            // Somebody on this client is in the way already, and no request needed to know it.
            Intent::Try if self.joins.values().any(|join| !join.leaving && conflict(kind, join.kind)) => {
                self.actions.push_back(Action::Refuse(id, Refusal::Busy));
                return;
            }
            Intent::Try => {
                self.want(Look::Plain);
                Stage::Looking(self.last_ticket)
            }
        };
        let join = Join { naming, kind, intent, uuid: None, leaving: false, parent_attempts: 0, stage };
        self.joins.insert(id, join);
    }

    fn downgrade(&mut self, reader: JoinId, writer: JoinId) {
        let Some(join) = self.joins.get_mut(reader) else { return };
        join.intent = Intent::Downgrade(writer);
        if let Stage::Queued(place) = &join.stage {
            let name = place.name.clone();
            self.begin_anew(reader, &name);
        }
    }

    /// Gives a place in the queue up for another.
    fn begin_anew(&mut self, id: JoinId, name: &NodeName) {
        self.doom(name.clone(), None);
        if let Some(join) = self.joins.get_mut(id) {
            join.stage = Stage::Idle;
            join.uuid = None;
        }
    }

    fn leave(&mut self, id: JoinId) {
        let Some(join) = self.joins.get_mut(id) else {
            return;
        };
        match &join.stage {
            Stage::Held(_) => {}
            Stage::Idle | Stage::Looking(_) => drop(self.joins.remove(id)),
            Stage::Creating(_) | Stage::Unknown(_) | Stage::Verifying(..) => join.leaving = true,
            Stage::Queued(place) => {
                let name = place.name.clone();
                self.joins.remove(id);
                if planted(Mutant::LeaveWithoutDelete) {
                    self.line.remove(&name);
                } else {
                    self.doom(name, None);
                }
            }
        }
    }

    fn release(&mut self, id: JoinId) {
        let downgrading = self.downgrading(id) && !planted(Mutant::DowngradeDoesNotBlock);
        match self.joins.get_mut(id) {
            // The reader that takes its place must stand before it goes, or a writer could slip in between (rule 4).
            Some(join @ Join { stage: Stage::Held(_), .. }) if downgrading => join.leaving = true,
            Some(Join { stage: Stage::Held(place), .. }) => {
                let name = place.name.clone();
                self.joins.remove(id);
                self.doom(name, Some(id));
            }
            // Lost before: the node is gone already.
            _ => self.actions.push_back(Action::Released(id)),
        }
    }

    /// Whether a reader is on its way into the place of this writer.
    fn downgrading(&self, writer: JoinId) -> bool {
        let pending = |join: &Join| !join.leaving && !matches!(join.stage, Stage::Held(_));
        self.joins.active().any(|(_, join)| join.intent == Intent::Downgrade(writer) && pending(join))
    }

    /// Releases the writers that waited for a reader in their place, if that stands. Returns whether there were any.
    fn finish_releases(&mut self) -> bool {
        let released = |join: &Join| join.leaving && matches!(join.stage, Stage::Held(_));
        let due: Vec<_> = self.joins.active().filter(|(_, join)| released(join)).map(|(id, _)| id).collect();
        let due: Vec<_> = due.into_iter().filter(|id| !self.downgrading(*id)).collect();
        for id in &due {
            self.release(*id);
        }
        !due.is_empty()
    }

    /// Refuses a contender, which leaves: what it has on the server is deleted, or will be when its fate is known.
    fn refuse(&mut self, id: JoinId, refusal: Refusal) {
        if self.joins.get(&id).is_some_and(|join| !join.leaving) {
            self.actions.push_back(Action::Refuse(id, refusal));
        }
        self.leave(id);
    }

    fn refuse_all(&mut self, refusal: &Refusal) {
        let waiting: Vec<_> = self.waiting().collect();
        for id in waiting {
            self.refuse(id, refusal.clone());
        }
    }

    fn waiting(&self) -> impl Iterator<Item = JoinId> {
        self.joins.iter().filter(|(_, join)| !matches!(join.stage, Stage::Held(_))).map(|(id, _)| *id)
    }

    fn idle(&self) -> impl Iterator<Item = JoinId> {
        self.joins.active().filter(|(_, join)| join.stage == Stage::Idle).map(|(id, _)| id)
    }

    fn doom(&mut self, name: NodeName, release: Option<JoinId>) {
        self.line.remove(&name);
        self.doomed.entry(name).or_insert(Doomed { ticket: None, release, refused: false });
    }

    // The connection and the session.

    fn connected(&mut self) {
        self.connected = true;
        self.retry_refused_deletes();
        // Everything known is from the old connection. What has a place, or may have one, is looked for; the sync makes
        // sure that a lagging server does not hide a node whose create was not acknowledged (rule 8).
        let look = |join: &Join| !matches!(join.stage, Stage::Idle);
        let torn = planted(Mutant::TornPair) && self.listing.is_some();
        if (self.joins.values().any(look) || self.doubt > 0) && !planted(Mutant::NoRelist) && !torn {
            self.want(if planted(Mutant::Tombstones) { Look::Plain } else { Look::Synced });
        }
    }

    fn disconnected(&mut self) {
        self.connected = false;
        if planted(Mutant::NoRelist) {
            return;
        }
        if !planted(Mutant::Tombstones) {
            self.view = None;
        }
        for join in self.joins.values_mut() {
            if let Stage::Queued(place) = &mut join.stage {
                place.confirmed = false;
            }
        }
    }

    fn session_lost(&mut self) {
        if planted(Mutant::AdjacentAcrossSessions) {
            let next =
                self.line.values().copied().find(|id| matches!(self.joins[id].stage, Stage::Queued(_)));
            if let Some(next) = next {
                self.hold(next, None);
            }
        }
        self.disconnected();
        self.view = None;
        self.term = false;
        // What of a contender outlives its session.
        let keeps = |join: &Join| match join.stage {
            Stage::Queued(_) => planted(Mutant::Curator604),
            Stage::Creating(_) | Stage::Unknown(_) => planted(Mutant::Curator498),
            _ => false,
        };
        let joins = &self.joins;
        self.line.retain(|_, id| joins.get(id).is_some_and(keeps));
        if !joins.values().any(keeps) {
            self.mint = None;
        }
        self.watches.clear();
        self.listing = None;
        self.child_watch = None;
        self.making_parents = None;
        self.doubt = 0;
        for (_, doomed) in std::mem::take(&mut self.doomed) {
            self.actions.extend(doomed.release.map(Action::Released));
        }
        let last_ticket = self.last_ticket;
        let actions = &mut self.actions;
        self.joins.retain(|id, join| {
            if keeps(join) {
                if matches!(join.stage, Stage::Creating(_)) {
                    join.stage = Stage::Unknown(last_ticket);
                }
                return true;
            }
            if !planted(Mutant::UuidKept) {
                join.uuid = None;
            }
            if matches!(join.intent, Intent::Downgrade(_)) {
                join.intent = Intent::Wait;
            }
            match join.stage {
                Stage::Held(_) if join.leaving => actions.push_back(Action::Released(*id)),
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
        let Some((id, _)) = self.joins.active().find(|(_, join)| creating(join)) else { return };
        let Some(join) = self.joins.get_mut(id) else { return };
        match outcome {
            Outcome::Done((name, czxid)) => self.placed(id, NodeName::parse(&name), czxid, ticket),
            Outcome::Lost => {
                join.stage = Stage::Unknown(ticket);
                if !planted(Mutant::TornPair) || self.listing.is_none() {
                    self.want(Look::Synced);
                }
            }
            // Nothing was created, whether it is still wanted or not.
            Outcome::NoNode | Outcome::Refused(_) if join.leaving => drop(self.joins.remove(id)),
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
            Outcome::Refused(refusal) => {
                join.stage = Stage::Idle;
                self.refuse(id, refusal);
            }
        }
    }

    /// A join's node exists.
    fn placed(&mut self, id: JoinId, name: Option<NodeName>, czxid: i64, created: Ticket) {
        let Some(join) = self.joins.get_mut(id) else {
            return;
        };
        let Some(name) = name else {
            join.stage = Stage::Idle;
            return self
                .refuse(id, Refusal::Server("the server made a node without a sequence number".to_owned()));
        };
        join.stage = Stage::Queued(Place { name: name.clone(), czxid, created, confirmed: false });
        if join.leaving {
            self.joins.remove(id);
            self.doom(name, None);
        } else if name.is_at_the_end() {
            self.refuse(id, Refusal::SequenceExhausted);
        } else if self.out_of_place(id, &name) {
            self.begin_anew(id, &name);
        } else {
            self.line.insert(name, id);
        }
    }

    /// Whether a reader that belongs in a writer's place stands elsewhere: it was asked for before the writer held. Or the
    /// writer is lost: then others may hold behind the place that the reader came into.
    fn out_of_place(&self, id: JoinId, name: &NodeName) -> bool {
        match self.joins.get(&id).map(|join| join.intent) {
            Some(Intent::Downgrade(writer)) => {
                self.held_place(writer) != Some(name.sequence()) && !planted(Mutant::Curator621)
            }
            _ => false,
        }
    }

    fn parents_made(&mut self, ticket: Ticket, outcome: Outcome<()>) {
        if self.making_parents != Some(ticket) {
            return;
        }
        self.making_parents = None;
        if let Outcome::Refused(refusal) = outcome {
            let idle: Vec<_> = self.idle().collect();
            for id in idle {
                self.refuse(id, refusal.clone());
            }
        }
    }

    fn listed(&mut self, ticket: Ticket, outcome: Outcome<Vec<String>>) {
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
            Outcome::Refused(refusal) => self.refuse_all(&refusal),
        }
    }

    fn verified(&mut self, ticket: Ticket, outcome: Outcome<Option<i64>>) {
        let verifying = |join: &Join| matches!(join.stage, Stage::Verifying(sent, _) if sent == ticket);
        let Some((id, _)) = self.joins.active().find(|(_, join)| verifying(join)) else { return };
        let Some(join) = self.joins.get_mut(id) else { return };
        let stage = std::mem::replace(&mut join.stage, Stage::Unknown(ticket));
        let Stage::Verifying(_, name) = stage else { return };
        self.line.remove(&name);
        match outcome {
            // Shown by a listing, but that is a while ago: the next one confirms it.
            Outcome::Done(Some(czxid)) => self.placed(id, Some(name), czxid, ticket),
            Outcome::Done(None) if planted(Mutant::Curator498) => self.placed(id, Some(name), 0, ticket),
            // Not this session's after all (rule 12): begin anew, under a name that cannot be mistaken.
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
                self.doom(name, None);
            }
        }
        self.want(Look::Plain);
    }

    fn deleted(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        let sent = |doomed: &Doomed| doomed.ticket == Some(ticket);
        let Some((name, doomed)) = self.doomed.iter_mut().find(|(_, doomed)| sent(doomed)) else {
            return;
        };
        match outcome {
            Outcome::Lost => {
                doomed.ticket = None;
                return;
            }
            // Its owner need not wait, but it stands in everybody's way until it can be deleted or the session ends.
            Outcome::Refused(_) => {
                doomed.ticket = None;
                doomed.refused = true;
                self.actions.extend(doomed.release.take().map(Action::Released));
                return;
            }
            Outcome::Done(()) | Outcome::NoNode => {}
        }
        let name = name.clone();
        // The watch on the node, if any, went with it.
        self.watches.remove(&name);
        if let Some(Doomed { release: Some(id), .. }) = self.doomed.remove(&name) {
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
        let name = self.watches.iter().find(|(_, watch)| watch.ticket == ticket)?.0.clone();
        self.watches.remove(&name);
        Some(name)
    }

    fn gone(&mut self, name: &NodeName) {
        if let Some(id) = self.line.get(name).copied() {
            self.own_node_gone(id, name);
        } else if let Some(view) = &mut self.view
            && view.subtract(name)
            && self.line.keys().any(|ours| ours.kind() != Kind::Read)
        {
            self.want(Look::Plain);
        }
    }

    /// The heartbeat is a transaction, which the ensemble's leader answers by what is committed: no server is behind it.
    fn missing(&mut self, name: &NodeName) {
        if let Some(id) = self.line.get(name).copied() {
            if let Some(watch) = self.watches.get(name) {
                self.actions.push_back(Action::Unwatch(watch.ticket));
            }
            self.own_node_gone(id, name);
        }
    }

    /// A writer is lost: readers that wait in its place are no better than any others.
    fn displace_readers(&mut self, writer: JoinId) {
        let waits = |(id, join): (JoinId, &Join)| match &join.stage {
            Stage::Queued(place) if join.intent == Intent::Downgrade(writer) => {
                Some((id, place.name.clone()))
            }
            _ => None,
        };
        let readers: Vec<_> = self.joins.active().filter_map(waits).collect();
        for (reader, name) in readers {
            self.begin_anew(reader, &name);
        }
    }

    /// Somebody else deleted our node.
    fn own_node_gone(&mut self, id: JoinId, name: &NodeName) {
        self.line.remove(name);
        self.watches.remove(name);
        let Some(join) = self.joins.get_mut(id) else {
            return;
        };
        if matches!(join.stage, Stage::Held(_)) {
            let action = if join.leaving { Action::Released(id) } else { Action::NodeLost(id) };
            self.joins.remove(id);
            self.actions.push_back(action);
            self.displace_readers(id);
        } else {
            join.stage = Stage::Idle;
            join.uuid = None;
        }
    }
}
