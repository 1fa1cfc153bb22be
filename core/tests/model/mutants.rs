//! Known mistakes in the protocol (mutants).
//!
//! The queue turns events into actions, so a mistake can be simulated without changing the queue. A
//! [`Pipe`] in front of the real queue rewrites or drops events and actions. Without a mutant, it
//! passes all of them on unchanged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zklock::queue::{Action, Contention, Event, Intent, Kind, NodeName, Outcome, Queue, Refusal, Ticket};

use super::ledger::Ledger;

/// A known mistake in implementing a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    /// Bug: a waiter whose session was replaced keeps waiting. It acquires the lock through the
    /// node of its old session (rule 1). The client's driver does not check which session owns a
    /// node.
    Curator604,
    /// Bug: after a lost reply, the client mistakes the old session's node for a node of the new
    /// session (rule 1). Its driver does not check which session owns a node.
    Curator498,
    /// Bug: the reader of a downgrade queues at the end, like any other reader. While it waits, the
    /// client treats it as a holder (rule 4).
    Curator621,
    /// Bug: after the reply to a create was lost, the client trusts a listing from a server that
    /// lags behind and does not show the new node yet (rule 8).
    MissingSync,
    /// Bug: when a writer's node is gone, the client assumes that no reader has taken over its
    /// position in the queue (rule 6).
    NoDowngradeException,
    /// Bug: after a reconnection, the client trusts what it knew before (rule 10). The driver also
    /// trusts what it knew about the session. If it did not, a heartbeat would find that the node
    /// is gone.
    NoRelist,
    /// Bug: a contender that leaves the queue does not delete its node (rule 9).
    LeaveWithoutDelete,
    /// Bug: the client grants locks even when its session is no longer certain to exist (rule 16).
    GrantWithoutTerm,
    /// Bug: the fencing token is the sequence number (rule 12).
    TokenFromSequence,
    /// Bug: sequence numbers are compared as text. When the counter wraps, the negative numbers
    /// therefore sort first (rule 2).
    StringOrder,
    /// Bug: the client treats the end of a session like a release, and grants the lock to its next
    /// waiter (rules 7 and 11).
    AdjacentAcrossSessions,
    /// Bug: the client watches the node ahead of the predecessor instead of the predecessor (rule
    /// 6).
    WrongPredecessor,
    /// Bug: the client remembers that a writer was deleted. It sends the next listing without a
    /// sync and ignores the writer in the reply (rule 5).
    Tombstones,
    /// Bug: a writer's release does not wait for the reader that takes over its position (rule 4).
    DowngradeDoesNotBlock,
    /// Bug: the client grants the lock because of a watch event, without knowing that its own node
    /// exists (rule 6).
    NoOwnNodeWatch,
    /// Bug: the client uses a node name again in the next session (rule 1).
    UuidKept,
    /// Bug: the client trusts a listing that was sent together with a create, although the client
    /// reconnected between the two requests (rule 3). The driver makes this mistake too.
    TornPair,
    /// Bug: a downgrade creates the reader's node without a check that the writer's node still
    /// exists (rule 4).
    UncheckedPlace,
    /// Bug: if a listing after a sync does not show a node, the client assumes forever that the
    /// node does not exist. It does not recognize the node in a later listing (rule 8).
    FinalSync,
    /// Bug: a new process uses the node names of the process that died (rule 1). The driver makes
    /// this mistake too.
    SeedKept,
    /// Bug: the client accepts any reply to a heartbeat as proof that its session is alive, even if
    /// the reply belongs to another session (rule 11). The driver makes this mistake too.
    BlindHeartbeat,
    /// Bug: the client does not watch the node of a holder that has held the lock for long (rule
    /// 12).
    UnguardedHold,
    /// Bug: a contender relies only on watch events to learn that it is next (rule 10).
    NoLook,
    /// Bug: the client does not repeat a delete that the server did not execute (rule 13).
    DeleteOnce,
    /// Bug: a try (an acquire that does not wait) waits behind a contender that arrived between its
    /// two listings (rule 14).
    PatientTry,
    /// Bug: a downgrade waits if the writer's node is gone, although it must not wait (rule 21).
    PatientDowngrade,
    /// Bug: the client grants a reader the lock because of a watch event, without knowing that the
    /// reader's own node exists (rule 6).
    NoReaderWatch,
    /// Bug: the client does not set the watch on the directory's children again after a
    /// reconnection (rule 17).
    ChildWatchKept,
    /// Bug: a node in a listing does not block other contenders if the reply to its create is still
    /// missing (rule 8).
    UnansweredOverlooked,
    /// Bug: if no listing has shown a contender yet, the client assumes that the last listing shows
    /// all nodes ahead of it (rule 3).
    OldListing,
    /// Bug: a contender that joined without a listing never requests one (rule 3).
    NoLookAhead,
    /// Bug: after a probe (a check of some nodes by name), the client assumes that all these nodes
    /// are gone, regardless of the reply (rule 6).
    ProbeBelieved,
    /// Bug: a probe (a check of some nodes by name) asks only for the farthest node. The client
    /// assumes that the other nodes are gone (rule 6).
    ShortProbe,
    /// Bug: after a reconnection, a contender far from the front trusts what the client knew
    /// before, even that the session exists (rule 10).
    FarBelieved,
    /// Bug: the client ignores the reply to a probe (rule 10).
    CheckIgnored,
    /// Bug: after a reconnection, a contender far from the front relies on its watches alone (rule
    /// 10).
    NoCheckAfterReconnection,
    /// Bug: after a reconnection, a contender far from the front does not list the directory when a
    /// watch reports a change (rule 10).
    DeferralKept,
    /// Bug: a try creates a node without a listing before (rule 14).
    BlindTry,
    /// Bug: a try is refused although its listing shows no other contender (rule 14).
    HastyTry,
    /// Bug: a refused try leaves its node (rule 14).
    TryLeavesNode,
    /// Bug: after its session is lost, a try waits like an ordinary waiter (rule 21).
    TryForgotten,
    /// Bug: a downgrade that must not wait lists the directory first, as other tries do. The writer
    /// of the same owner then blocks it (rule 21).
    TryBehindItself,
    /// Bug: the client acquires several locks in the order in which the caller names them (rule
    /// 18).
    UnsortedLocks,
    /// Bug: an acquire of several locks that ends early keeps the locks that it has acquired (rule
    /// 18).
    MembersKept,
    /// Bug: when the last of several locks is granted, the client does not check whether it still
    /// holds the other locks (rules 17 and 18).
    LossUnchecked,
    /// Bug: when a member of a multi-lock is lost, it is acquired again while later members are
    /// still held (rule 18).
    LaterKept,
    /// Bug: permits are requested without the semaphore's mutex, which is called the turn (rule
    /// 17).
    NoTurn,
    /// Bug: a contender that has lost the semaphore's mutex (its turn) keeps waiting for permits
    /// (rule 17).
    TurnForgotten,
    /// Bug: the semaphore's mutex (the turn) is not released when the permits are granted (rule
    /// 17).
    TurnKept,
    /// Bug: when an acquire of several permits ends early, the node of one permit stays in the
    /// queue (rule 17).
    PartKept,
    /// Bug: the client ignores the permits of other clients (rules 4 and 17).
    OthersUncounted,
    /// Bug: the client counts the time for which the session is certain to exist from the reply,
    /// instead of from the sending of the request (rule 16).
    TermFromAnswer,
    /// Bug: the client relies on the session for longer than its guaranteed lifetime (rule 16).
    LongTerm,
    /// Bug: the client relies on the session until a loss is reported, and ignores the clock (rule
    /// 16).
    ClockIgnored,
}

impl Mutant {
    pub(crate) const ALL: [Self; 54] = [
        Self::Curator604,
        Self::Curator498,
        Self::Curator621,
        Self::MissingSync,
        Self::NoDowngradeException,
        Self::NoRelist,
        Self::LeaveWithoutDelete,
        Self::GrantWithoutTerm,
        Self::TokenFromSequence,
        Self::StringOrder,
        Self::AdjacentAcrossSessions,
        Self::WrongPredecessor,
        Self::Tombstones,
        Self::DowngradeDoesNotBlock,
        Self::NoOwnNodeWatch,
        Self::UuidKept,
        Self::TornPair,
        Self::UncheckedPlace,
        Self::FinalSync,
        Self::SeedKept,
        Self::BlindHeartbeat,
        Self::UnguardedHold,
        Self::NoLook,
        Self::DeleteOnce,
        Self::PatientTry,
        Self::PatientDowngrade,
        Self::NoReaderWatch,
        Self::ChildWatchKept,
        Self::UnansweredOverlooked,
        Self::OldListing,
        Self::NoLookAhead,
        Self::ProbeBelieved,
        Self::ShortProbe,
        Self::FarBelieved,
        Self::CheckIgnored,
        Self::NoCheckAfterReconnection,
        Self::DeferralKept,
        Self::BlindTry,
        Self::HastyTry,
        Self::TryLeavesNode,
        Self::TryForgotten,
        Self::TryBehindItself,
        Self::UnsortedLocks,
        Self::MembersKept,
        Self::LossUnchecked,
        Self::LaterKept,
        Self::NoTurn,
        Self::TurnForgotten,
        Self::TurnKept,
        Self::PartKept,
        Self::OthersUncounted,
        Self::TermFromAnswer,
        Self::LongTerm,
        Self::ClockIgnored,
    ];
}

/// A node that never existed.
const UNKNOWN_NODE: &str = "__WRIT__0000000000";

/// The queue, with or without a simulated bug.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pipe {
    queue: Queue,
    planted: Option<Planted>,
}

impl Pipe {
    /// Creates a queue whose tickets follow `last_ticket`.
    pub(crate) fn new(mutant: Option<Mutant>, last_ticket: Ticket, far_beyond: u8) -> Self {
        Self { queue: Queue::after(last_ticket).far_beyond(far_beyond), planted: mutant.map(Planted::new) }
    }

    pub(crate) fn handle(&mut self, event: Event) {
        match &mut self.planted {
            None => self.queue.handle(event),
            Some(planted) => {
                (planted.far, planted.deferred) = (!self.queue.is_near(), self.queue.defers_listing());
                planted.tell(event).into_iter().for_each(|event| self.queue.handle(event));
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        self.queue.flush();
    }

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        let Some(planted) = &mut self.planted else { return self.queue.next_action() };
        loop {
            if let Some(action) = planted.ahead.pop_front() {
                return Some(action);
            }
            let action = self.queue.next_action()?;
            match planted.carry(action, &self.queue) {
                ActionEffect::Out(action) => return Some(action),
                ActionEffect::Suppressed(answer) => {
                    self.queue.handle(answer);
                    self.queue.flush();
                }
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    pub(crate) fn guard(&mut self, guards: bool) {
        self.queue.guard(guards);
    }

    /// Returns the listing whose watch on the children may fire.
    pub(crate) fn child_watch(&self) -> Option<Ticket> {
        self.queue.child_watch()
    }

    pub(crate) fn contention(&self) -> Option<Contention> {
        self.queue.contention()
    }

    pub(crate) fn doubt(&self) -> Option<Ticket> {
        self.queue.doubt()
    }

    pub(crate) fn last_ticket(&self) -> Ticket {
        self.queue.last_ticket()
    }

    pub(crate) fn is_near(&self) -> bool {
        self.queue.is_near()
    }

    /// Returns the client's nodes by the names that the server knows.
    pub(crate) fn places(&self) -> Vec<NodeName> {
        let real = |name: &NodeName| match &self.planted {
            None => name.clone(),
            Some(planted) => planted.real(name.clone()),
        };
        self.queue.places(usize::MAX).map(real).collect()
    }
}

enum ActionEffect {
    Out(Action),
    /// The action is dropped, but the queue receives this event as if the action had been executed.
    Suppressed(Event),
}

#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Planted {
    mutant: Mutant,
    ledger: Ledger,
    /// Actions that the queue did not request. They are executed before the queue's own actions.
    ahead: VecDeque<Action>,
    /// For each node name on the server, the name that the queue receives instead.
    names: BTreeMap<String, String>,
    /// `Curator621`: for each create, the requested position in the queue.
    places: BTreeMap<Ticket, String>,
    /// `LeaveWithoutDelete`: the nodes of the contenders that left.
    left: BTreeSet<NodeName>,
    /// `Tombstones`: deleted writers.
    deleted_writers: BTreeSet<NodeName>,
    /// `UuidKept`: the seed for the names of the first session.
    seed: Option<u64>,
    /// `TornPair`: the create that was sent together with a listing, and whose reply was lost.
    torn: Option<Ticket>,
    /// `FinalSync`: the name prefixes of the nodes whose create got no reply.
    unknown: BTreeSet<String>,
    /// `FinalSync`: for each synced listing, the prefixes in `unknown` when the listing was
    /// requested.
    asked: BTreeMap<Ticket, BTreeSet<String>>,
    /// `FinalSync`: the prefixes for which a synced listing showed no node.
    denied: BTreeSet<String>,
    /// `OldListing`: the children in the last listing.
    listed: Option<Vec<String>>,
    /// `ShortProbe`: the nodes that the probe leaves out.
    farther: BTreeMap<Ticket, Vec<NodeName>>,
    /// `true` if none of the queue's contenders is near the front.
    far: bool,
    /// `true` if the queue postpones its listing.
    deferred: bool,
    /// `true` if the queue does not know that the connection is lost.
    cut_off: bool,
    /// `true` if the queue has received a connection event.
    connected: bool,
    /// `true` if the queue has received a second connection event.
    reconnected: bool,
}

impl Planted {
    fn new(mutant: Mutant) -> Self {
        Self {
            mutant,
            ledger: Ledger::default(),
            ahead: VecDeque::new(),
            names: BTreeMap::new(),
            places: BTreeMap::new(),
            left: BTreeSet::new(),
            deleted_writers: BTreeSet::new(),
            seed: None,
            torn: None,
            unknown: BTreeSet::new(),
            asked: BTreeMap::new(),
            denied: BTreeSet::new(),
            listed: None,
            farther: BTreeMap::new(),
            far: false,
            deferred: false,
            cut_off: false,
            connected: false,
            reconnected: false,
        }
    }

    /// Returns the events that the queue receives in place of this event.
    fn tell(&mut self, event: Event) -> Vec<Event> {
        let event = self.rename(event);
        let told = self.rewrite(&event);
        self.ledger.hear(&event);
        told.unwrap_or_else(|| vec![event])
    }

    /// Returns the replacement for an event, or `None` to pass the event itself.
    #[allow(clippy::too_many_lines, reason = "one arm per bug")]
    fn rewrite(&mut self, event: &Event) -> Option<Vec<Event>> {
        match (self.mutant, event) {
            (Mutant::Curator604, Event::SessionLost)
                if self.ledger.held.is_empty() && !self.ledger.waiting.is_empty() =>
            {
                Some(self.only_disconnected())
            }
            (Mutant::Curator498, Event::SessionLost)
                if self.ledger.waiting.is_empty()
                    && self.ledger.held.is_empty()
                    && self.ledger.is_creating() =>
            {
                Some(self.only_disconnected())
            }
            (Mutant::Curator498, Event::Verified(ticket, Outcome::Done(None))) => {
                Some(vec![Event::Verified(*ticket, Outcome::Done(Some(0)))])
            }
            (Mutant::NoRelist, Event::Disconnected)
            | (Mutant::GrantWithoutTerm, Event::TermEnded)
            | (Mutant::UnguardedHold, Event::WatchHold(_))
            | (Mutant::NoLook, Event::Resync) => Some(Vec::new()),
            (Mutant::FarBelieved, Event::Disconnected) if self.far => {
                self.cut_off = true;
                Some(Vec::new())
            }
            (Mutant::FarBelieved, Event::Connected) if std::mem::take(&mut self.cut_off) => Some(Vec::new()),
            (Mutant::CheckIgnored, Event::Probed(ticket, Outcome::Done(_))) => {
                Some(vec![Event::Probed(*ticket, Outcome::Done(Vec::new()))])
            }
            (Mutant::NoCheckAfterReconnection, Event::Resync) | (Mutant::DeferralKept, Event::Gone(_))
                if self.deferred =>
            {
                Some(Vec::new())
            }
            (Mutant::DeleteOnce, Event::Deleted(ticket, Outcome::Lost)) => {
                Some(vec![Event::Deleted(*ticket, Outcome::Done(()))])
            }
            (Mutant::PatientDowngrade, Event::Join(join, naming, kind, Intent::Downgrade { writer, .. })) => {
                let intent = Intent::Downgrade { writer: writer.clone(), tries: false };
                Some(vec![Event::Join(*join, *naming, *kind, intent)])
            }
            (Mutant::BlindTry, Event::Join(join, naming, kind, Intent::Try)) => {
                Some(vec![Event::Join(*join, *naming, *kind, Intent::Wait)])
            }
            (
                Mutant::TryBehindItself,
                Event::Join(join, naming, kind, Intent::Downgrade { tries: true, .. }),
            ) => Some(vec![Event::Join(*join, *naming, *kind, Intent::Try)]),
            (Mutant::HastyTry, Event::Listed(ticket, Outcome::Done(children)))
                if self.ledger.only_looks() =>
            {
                let children = children.iter().cloned().chain([UNKNOWN_NODE.to_owned()]).collect();
                Some(vec![Event::Listed(*ticket, Outcome::Done(children))])
            }
            (Mutant::TryForgotten, Event::SessionLost) => {
                let tries = self.ledger.tries();
                let leave = tries.iter().map(|(join, ..)| Event::Leave(*join));
                let wait =
                    tries.iter().map(|(join, naming, kind)| Event::Join(*join, *naming, *kind, Intent::Wait));
                Some(leave.chain([Event::SessionLost]).chain(wait).collect())
            }
            (Mutant::OthersUncounted, Event::Listed(ticket, Outcome::Done(children))) => {
                let counts = |child: &&String| self.ledger.is_own(child) || !child.contains("-lease-");
                let ours = children.iter().filter(counts).cloned().collect();
                Some(vec![Event::Listed(*ticket, Outcome::Done(ours))])
            }
            (Mutant::ChildWatchKept, Event::Connected) => {
                self.reconnected = std::mem::replace(&mut self.connected, true);
                None
            }
            (Mutant::NoRelist, Event::Connected) => {
                std::mem::replace(&mut self.connected, true).then(Vec::new)
            }
            (Mutant::LeaveWithoutDelete, Event::Leave(join)) => {
                self.left.extend(self.ledger.waiting.get(join).map(|(node, _)| node.clone()));
                None
            }
            (Mutant::GrantWithoutTerm, Event::SessionBegan(_)) => Some(vec![event.clone(), Event::TermBegan]),
            (Mutant::AdjacentAcrossSessions, Event::SessionLost) => {
                let next = self.ledger.first_waiter();
                self.ahead.extend(next.map(|(join, node, czxid)| Action::Grant(join, node, czxid)));
                None
            }
            (Mutant::Tombstones, Event::Gone(ticket)) => {
                let gone = self.ledger.watches.get(ticket).filter(|name| name.kind() == Kind::Write);
                self.deleted_writers.extend(gone.cloned());
                None
            }
            (Mutant::Tombstones, Event::Listed(ticket, Outcome::Done(children))) => {
                let deleted_writers = std::mem::take(&mut self.deleted_writers);
                let stands =
                    |child: &&String| !deleted_writers.iter().any(|name| name.as_str() == child.as_str());
                let children = children.iter().filter(stands).cloned().collect();
                Some(vec![Event::Listed(*ticket, Outcome::Done(children))])
            }
            (Mutant::DowngradeDoesNotBlock, Event::Release(writer)) => Some(self.release_at_once(writer)),
            (Mutant::UuidKept, Event::SessionBegan(seed)) => {
                Some(vec![Event::SessionBegan(*self.seed.get_or_insert(*seed))])
            }
            (Mutant::UnansweredOverlooked, Event::Listed(ticket, Outcome::Done(children))) => {
                let answered = |child: &&String| !self.ledger.is_unanswered(child);
                let children = children.iter().filter(answered).cloned().collect();
                Some(vec![Event::Listed(*ticket, Outcome::Done(children))])
            }
            (Mutant::OldListing, Event::Listed(_, Outcome::Done(children))) => {
                self.listed = Some(children.clone());
                None
            }
            (Mutant::ShortProbe, Event::Probed(ticket, Outcome::Done(gone))) => {
                let farther = self.farther.remove(ticket).unwrap_or_default();
                let gone = farther.into_iter().chain(gone.iter().cloned()).collect();
                Some(vec![Event::Probed(*ticket, Outcome::Done(gone))])
            }
            (Mutant::TornPair, event) => self.believe_torn_pair(event),
            (Mutant::FinalSync, Event::Created(ticket, Outcome::Lost)) => {
                self.unknown.extend(self.ledger.prefix(*ticket).map(str::to_owned));
                None
            }
            (Mutant::FinalSync, Event::Listed(ticket, Outcome::Done(children))) => {
                Some(vec![Event::Listed(*ticket, Outcome::Done(self.hide_denied(*ticket, children)))])
            }
            _ => None,
        }
    }

    /// Removes from a listing the nodes that an earlier synced listing did not show.
    fn hide_denied(&mut self, listing: Ticket, children: &[String]) -> Vec<String> {
        let asked = self.asked.remove(&listing).unwrap_or_default();
        let lacks = |prefix: &String| !children.iter().any(|child| child.starts_with(prefix));
        self.denied.extend(asked.into_iter().filter(lacks));
        let acknowledged = |child: &str| {
            let mut waiting = self.ledger.waiting.values().map(|(node, _)| node);
            waiting.any(|node| node.as_str() == child)
                || self.ledger.held.iter().any(|node| node.as_str() == child)
        };
        let denied = |child: &str| self.denied.iter().any(|prefix| child.starts_with(prefix));
        children.iter().filter(|child| !denied(child) || acknowledged(child)).cloned().collect()
    }

    /// Turns the end of the session into the end of its connection.
    fn only_disconnected(&mut self) -> Vec<Event> {
        let lost = self.ledger.lose_all();
        [Event::Disconnected].into_iter().chain(lost).collect()
    }

    /// Makes readers that are taking over a writer's position forget the writer. Its release then
    /// does not wait for them.
    fn release_at_once(&self, writer: &NodeName) -> Vec<Event> {
        let readers = self.ledger.downgrading(writer).into_iter();
        let forget = |reader| Event::Downgrade(reader, parse(UNKNOWN_NODE));
        readers.map(forget).chain([Event::Release(writer.clone())]).collect()
    }

    /// Uses the listing to decide the result of the create that was sent together with it, although
    /// the connection was lost between the two.
    fn believe_torn_pair(&mut self, event: &Event) -> Option<Vec<Event>> {
        match event {
            Event::Disconnected if self.ledger.is_listing() => {
                self.cut_off = true;
                Some(Vec::new())
            }
            Event::Created(ticket, Outcome::Lost) if self.cut_off => {
                self.torn = Some(*ticket);
                Some(Vec::new())
            }
            Event::Connected if self.cut_off => Some(Vec::new()),
            Event::Listed(_, outcome) if self.cut_off => {
                self.cut_off = false;
                let torn = self.torn.take();
                let created = |outcome| torn.map(|ticket| Event::Created(ticket, outcome));
                let prefix = torn.and_then(|ticket| self.ledger.prefix(ticket)).unwrap_or_default();
                let told = match outcome {
                    Outcome::Done(children) if !children.iter().any(|child| child.starts_with(prefix)) => {
                        [None, created(Outcome::NoNode)]
                    }
                    Outcome::Done(_) => [None, created(Outcome::Lost)],
                    _ => [Some(Event::Disconnected), created(Outcome::Lost)],
                };
                Some(told.into_iter().flatten().chain([event.clone()]).collect())
            }
            _ => None,
        }
    }

    /// Returns `true` if there was a listing and it did not show all waiting contenders.
    fn shows_no_place(&self) -> bool {
        let shown = |node: &NodeName| self.listed.iter().flatten().any(|child| child == node.as_str());
        self.listed.is_some() && self.ledger.waiting.values().any(|(node, _)| !shown(node))
    }

    /// Decides the effect of an action that the queue requests.
    fn carry(&mut self, action: Action, queue: &Queue) -> ActionEffect {
        let mut refused_with_node = false;
        if let Action::Refuse(join, Refusal::Busy) = &action {
            let node = self.ledger.waiting.get(join).map(|(node, _)| node.clone());
            refused_with_node = node.is_some();
            self.left.extend(node);
        }
        self.ledger.note(&action);
        let done = |ticket| ActionEffect::Suppressed(Event::Watched(ticket, Outcome::Done(())));
        match (self.mutant, self.rename_back(action)) {
            (Mutant::MissingSync, Action::List { ticket, .. }) => {
                ActionEffect::Out(Action::List { ticket, sync: false })
            }
            (Mutant::OldListing, Action::List { ticket, sync: false })
                if !self.ledger.awaits_create() && self.shows_no_place() =>
            {
                let ours = self.ledger.waiting.values().map(|(node, _)| node).chain(&self.ledger.held);
                let ours = ours.map(|node| node.as_str().to_owned());
                let others = self.listed.iter().flatten().filter(|child| !self.ledger.is_own(child)).cloned();
                let children: Vec<_> = others.chain(ours).collect();
                self.listed = Some(children.clone());
                ActionEffect::Suppressed(Event::Listed(ticket, Outcome::Done(children)))
            }
            (Mutant::NoLookAhead, Action::List { ticket, sync: false })
                if !self.ledger.waiting.is_empty() && !self.ledger.awaits_create() =>
            {
                // The queue ignores this event, so the listing gets no reply.
                ActionEffect::Suppressed(Event::Watched(ticket, Outcome::Lost))
            }
            (Mutant::ProbeBelieved, Action::Probe(ticket, nodes)) => {
                ActionEffect::Suppressed(Event::Probed(ticket, Outcome::Done(nodes)))
            }
            (Mutant::ShortProbe, Action::Probe(ticket, nodes)) => {
                self.farther.insert(ticket, nodes[1..].to_vec());
                ActionEffect::Out(Action::Probe(ticket, nodes))
            }
            // The contender leaves, so that its node is deleted. Keeping the node would be a
            // different mistake.
            (Mutant::PatientTry, Action::Refuse(join, Refusal::Busy)) if refused_with_node => {
                ActionEffect::Suppressed(Event::Leave(join))
            }
            (Mutant::TryLeavesNode, Action::Delete(ticket, node)) if self.left.remove(&node) => {
                ActionEffect::Suppressed(Event::Deleted(ticket, Outcome::Done(())))
            }
            (Mutant::FinalSync, Action::List { ticket, sync: true }) => {
                self.asked.insert(ticket, self.unknown.clone());
                ActionEffect::Out(Action::List { ticket, sync: true })
            }
            (Mutant::Tombstones, Action::List { ticket, .. }) if !self.deleted_writers.is_empty() => {
                ActionEffect::Out(Action::List { ticket, sync: false })
            }
            (Mutant::LeaveWithoutDelete, Action::Delete(ticket, node)) if self.left.remove(&node) => {
                ActionEffect::Suppressed(Event::Deleted(ticket, Outcome::Done(())))
            }
            (Mutant::TokenFromSequence, Action::Grant(join, node, _)) => {
                let token = i64::from_ne_bytes(node.sequence().to_ne_bytes());
                ActionEffect::Out(Action::Grant(join, node, token))
            }
            (Mutant::NoOwnNodeWatch, Action::Watch(ticket, node)) if queue.is_ours(&node) => done(ticket),
            (Mutant::NoReaderWatch, Action::Watch(ticket, node))
                if queue.is_ours(&node) && node.kind() == Kind::Read =>
            {
                done(ticket)
            }
            (Mutant::ChildWatchKept, Action::ListAndWatch { ticket, sync }) if self.reconnected => {
                ActionEffect::Out(Action::List { ticket, sync })
            }
            (Mutant::WrongPredecessor, Action::Watch(ticket, node)) if !queue.is_ours(&node) => {
                match self.ledger.before(&node) {
                    Some(before) => ActionEffect::Out(Action::Watch(ticket, before.clone())),
                    None => done(ticket),
                }
            }
            (Mutant::UncheckedPlace, Action::CreateInPlace(ticket, join, name, _)) => {
                ActionEffect::Out(Action::CreateInPlace(ticket, join, name, None))
            }
            (Mutant::Curator621, Action::CreateInPlace(ticket, join, name, _)) => {
                let prefix = name[..name.len() - 10].to_owned();
                self.places.insert(ticket, name);
                ActionEffect::Out(Action::Create(ticket, join, prefix))
            }
            (_, action) => ActionEffect::Out(action),
        }
    }

    // These functions translate the server's node names to the names that the queue receives, and
    // back.

    fn rename(&mut self, event: Event) -> Event {
        match event {
            Event::Created(ticket, Outcome::Done((name, czxid))) => {
                let place = self.places.remove(&ticket);
                if let Some(place) = place {
                    self.names.insert(name.clone(), place);
                }
                Event::Created(ticket, Outcome::Done((self.told(name), czxid)))
            }
            Event::Listed(ticket, Outcome::Done(children)) => {
                let children = children.into_iter().map(|child| self.told(child)).collect();
                Event::Listed(ticket, Outcome::Done(children))
            }
            Event::Probed(ticket, Outcome::Done(gone)) => {
                let gone = gone.iter().map(|node| self.told_node(node)).collect();
                Event::Probed(ticket, Outcome::Done(gone))
            }
            Event::Join(join, naming, kind, Intent::Downgrade { writer, tries }) => {
                let writer = Box::new(self.told_node(&writer));
                Event::Join(join, naming, kind, Intent::Downgrade { writer, tries })
            }
            Event::Downgrade(reader, writer) => Event::Downgrade(reader, self.told_node(&writer)),
            Event::Release(node) => Event::Release(self.told_node(&node)),
            Event::WatchHold(node) => Event::WatchHold(self.told_node(&node)),
            Event::Missing(node) => Event::Missing(self.told_node(&node)),
            event => event,
        }
    }

    fn told(&mut self, name: String) -> String {
        if let Some(told) = self.names.get(&name) {
            return told.clone();
        }
        let told = match self.mutant {
            // Hide that other clients' nodes belong to writers.
            Mutant::NoDowngradeException if !self.ledger.is_own(&name) => name.replace("__WRIT__", "lock-"),
            Mutant::StringOrder => as_text(&name),
            _ => return name,
        };
        self.names.insert(name, told.clone());
        told
    }

    fn told_node(&mut self, node: &NodeName) -> NodeName {
        parse(&self.told(node.as_str().to_owned()))
    }

    fn real(&self, node: NodeName) -> NodeName {
        let told = self.names.iter().find(|(_, told)| told.as_str() == node.as_str());
        told.map_or(node, |(name, _)| parse(name))
    }

    fn rename_back(&self, action: Action) -> Action {
        match action {
            Action::CreateInPlace(ticket, join, name, check) => {
                Action::CreateInPlace(ticket, join, name, check.map(|writer| self.real(writer)))
            }
            Action::Verify(ticket, node) => Action::Verify(ticket, self.real(node)),
            Action::Probe(ticket, nodes) => {
                Action::Probe(ticket, nodes.into_iter().map(|node| self.real(node)).collect())
            }
            Action::Watch(ticket, node) => Action::Watch(ticket, self.real(node)),
            Action::Delete(ticket, node) => Action::Delete(ticket, self.real(node)),
            Action::Grant(join, node, czxid) => Action::Grant(join, self.real(node), czxid),
            Action::NodeLost(node) => Action::NodeLost(self.real(node)),
            Action::Released(node) => Action::Released(self.real(node)),
            action => action,
        }
    }
}

fn parse(name: &str) -> NodeName {
    NodeName::parse(name).expect("a sequential name")
}

/// Renumbers a name, so that numeric order equals the text order of the original numbers. A
/// negative number becomes zero and sorts first. The other numbers must be large.
fn as_text(name: &str) -> String {
    let (stem, number) = name.split_at(name.len() - 10);
    match (stem.strip_suffix("--"), number.parse::<u64>()) {
        (Some(stem), _) => format!("{stem}-{:010}", 0),
        (None, Ok(number)) => format!("{stem}{:010}", number.saturating_sub(1 << 30)),
        (None, Err(_)) => name.to_owned(),
    }
}
