//! Models rule 19: a client hands a lock's node on to its next waiter, or keeps the node for a
//! while. One part of this code runs in the application's threads, under the mutex of the hold
//! table. The other part runs in the driver.
//!
//! A holder can hand its node on to another waiter of the same client (`cohort`). A node that is
//! released can be kept for a while, so that the client can acquire the lock again without a
//! request (`linger`). The client's waiters without nodes wait in a *line*. One contender in the
//! queue represents them.
//!
//! The crate's own code makes these decisions ([`HoldCounts`], [`HoldFacts`], [`Representative`],
//! [`KeptNodes`], [`KeepingState`]):
//! - the number of holds that a node may have,
//! - the contender that represents the waiters without a node,
//! - when a node is kept, acquired again and given up.
//!
//! This module models the order in which `lease/cohort.rs`, `lease/linger.rs` and
//! `driver/directory/` call that code. Operations of threads are atomic here. `tests/threads` tests
//! their interleavings.
//!
//! The model leaves out:
//! - the pause after nodes were given up too often,
//! - `max_hold` and transactions,
//! - watches beyond the client's limit,
//! - the remaining time for which the session is certain to exist,
//! - requests to give up the lock that arrive before the lock is granted.

use std::collections::BTreeSet;

use zklock::queue::{
    Access, Contention, Event, HoldCounts, HoldFacts, Intent, JoinId, KeepingFacts, KeepingState,
    KeepingStep, KeptNodes, Kind, Naming, NodeName, Representative,
};

use super::client::{Client, Guard, Hold, Input, Notification, Place};
use super::foreign::conflict;
use super::mutants::Pipe;
use super::server::{SessionId, Zxid};
use super::session::Session;
use super::world::World;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LocalOptions {
    /// Maximum number of consecutive holds on one node.
    pub(crate) cohort: u16,
    pub(crate) linger: bool,
}

impl LocalOptions {
    fn cohort_of(self, kind: Kind) -> u16 {
        if matches!(kind, Kind::Exclusive | Kind::Write) { self.cohort } else { 0 }
    }
}

/// The state of the time for which a node is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum KeepingTime {
    /// The node was never kept.
    Unbegun,
    Runs,
    Over,
}

/// The state that consecutive holds on one node share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SharedNode {
    row: HoldCounts,
    time: KeepingTime,
    /// `true` if the holder was asked to give up the lock.
    revoked: bool,
    /// `true` if a reader is about to take over the position of the node in the queue.
    pub(super) downgrading: bool,
    /// Number of consecutive holds on the node, including this one. The model counts them itself.
    in_row: u16,
    /// `true` if the client was ever asked to give up the node.
    asked: bool,
}

impl SharedNode {
    fn after(&self, row: HoldCounts, in_row: u16) -> Self {
        let Self { time, asked, .. } = *self;
        Self { row, time, revoked: false, downgrading: false, in_row, asked }
    }
}

/// A kept node. No owner currently holds the lock through it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeptNode {
    kind: Kind,
    place: Option<Place>,
    czxid: Zxid,
    session: SessionId,
    guard: Guard,
    shared: SharedNode,
}

/// The client's waiters without nodes, and its kept nodes. Other clients do not see them
/// individually.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Local {
    options: LocalOptions,
    /// The client's waiters without a node (the *line*).
    line: BTreeSet<JoinId>,
    representative: Option<Representative>,
    kept: KeptNodes<KeptNode>,
    keeping: Option<KeepingState>,
}

impl Local {
    pub(crate) fn new(options: LocalOptions) -> Self {
        Self { options, ..Self::default() }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.options);
    }

    /// Returns the shared state of the first hold on a node.
    pub(super) fn first(&self, kind: Kind) -> Option<SharedNode> {
        let LocalOptions { linger, .. } = self.options;
        let cohort = self.options.cohort_of(kind);
        (cohort > 1 || linger).then(|| SharedNode {
            row: HoldCounts::new(0, cohort),
            time: KeepingTime::Unbegun,
            revoked: false,
            downgrading: false,
            in_row: 1,
            asked: false,
        })
    }

    pub(crate) fn kept(&self) -> impl Iterator<Item = &NodeName> {
        self.kept.iter().map(|(node, _)| node)
    }

    /// Returns `true` if this contender waits in the queue on behalf of the client's waiters
    /// without nodes.
    pub(super) fn needs(&self, join: JoinId) -> bool {
        let representative = self.representative.as_ref();
        !self.line.is_empty() && representative.is_some_and(|standing| standing.join() == Some(join))
    }
}

/// The part of the code that runs in the application's threads.
impl Client {
    /// Ends a hold and hands its node to the first of the client's waiters without nodes. Returns
    /// `false` if that is not allowed.
    pub(super) fn hand_on(&mut self, node: &NodeName) -> bool {
        let Some((hold, shared)) = self.shared(node) else { return false };
        let Some(local) = &self.local else { return false };
        let Some(first) = local.line.first().copied() else { return false };
        let (kind, other_half) = (self.waiting[&first].kind, self.waiting[&first].other_half);
        let next = shared.row.next(local.options.cohort_of(kind));
        let permitted = self.facts(hold, shared).may_have_successor() && self.term_runs();
        let Some(row) = next.filter(|_| permitted && kind == hold.kind) else { return false };
        let shared = shared.after(row, shared.in_row + 1);
        let hold = Hold { join: first, place: None, shared: Some(shared), ..hold.clone() };
        if let Some(local) = &mut self.local {
            local.line.remove(&first);
        }
        self.begin_hold(hold);
        self.inbox.push_back(Input::HandedOn(node.clone(), kind, other_half));
        true
    }

    /// Ends a hold and keeps its node. Returns `false` if that is not allowed.
    pub(super) fn keep_node(&mut self, node: &NodeName) -> bool {
        let Some((hold, shared)) = self.shared(node) else { return false };
        let Some(local) = self.local.as_ref().filter(|local| local.options.linger) else { return false };
        let may_keep = local.kept.may_keep(!local.line.is_empty());
        if !may_keep || !self.facts(hold, shared).may_have_successor() || shared.time == KeepingTime::Over {
            return false;
        }
        let shared = SharedNode { time: KeepingTime::Runs, ..shared.after(shared.row, 0) };
        let Hold { kind, place, czxid, session, guard, .. } = *hold;
        self.holds.remove(node);
        if let Some(local) = &mut self.local {
            local.kept.keep(node.clone(), KeptNode { kind, place, czxid, session, guard, shared });
        }
        true
    }

    /// Begins a hold on a kept node if there is a suitable one. Returns `true` if a hold began.
    pub(super) fn take_again(&mut self, join: JoinId, kind: Kind, intent: &Intent, access: Access) -> bool {
        let has_term = self.term_runs();
        let is_watched = self.session.as_ref().is_some_and(Session::watches_children);
        let Some(local) = self.local.as_mut().filter(|local| local.options.linger) else { return false };
        if matches!(intent, Intent::Downgrade { .. }) {
            return false;
        }
        let suits = |kept: &KeptNode| kept.kind == kind && kept.shared.time == KeepingTime::Runs && has_term;
        let Some((node, kept)) = local.kept.take(access, suits) else { return false };
        let row = kept.shared.row.taken_again(local.options.cohort_of(kind));
        let KeptNode { place, czxid, session, guard, shared, .. } = kept;
        let shared = Some(shared.after(row, 1));
        // A kept node has a different owner than the writer.
        let place = place.map(|place| Place { writer: JoinId(0), ..place });
        if access == Access::AnyThread && !is_watched {
            self.notifications.push(Notification::Unwatched(join));
        }
        self.begin_hold(Hold {
            join,
            directory: 0,
            part: false,
            kind,
            place,
            node,
            czxid,
            session,
            guard,
            shared,
        });
        true
    }

    fn begin_hold(&mut self, hold: Hold) {
        let join = hold.join;
        self.waiting.remove(&join);
        let asked = hold.shared.as_ref().is_some_and(|shared| shared.asked);
        self.notifications.push(match self.connected {
            true if asked => Notification::AskedFor(join),
            true => Notification::Granted(join),
            false => Notification::Unconnected(join),
        });
        self.holds.insert(hold.node.clone(), hold);
    }

    fn shared(&self, node: &NodeName) -> Option<(&Hold, &SharedNode)> {
        let hold = self.holds.get(node)?;
        Some((hold, hold.shared.as_ref()?))
    }

    fn facts(&self, hold: &Hold, shared: &SharedNode) -> HoldFacts {
        HoldFacts {
            held: self.connected && self.term_runs(),
            revoked: shared.revoked,
            too_old: false,
            transacting: false,
            downgrading: shared.downgrading,
            beside_writer: hold.kind == Kind::Read
                && hold.place.is_some_and(|place| self.holds.values().any(|hold| hold.join == place.writer)),
        }
    }

    pub(crate) fn end_keeping_time(&mut self, node: &NodeName) {
        let held = self.holds.get_mut(node).and_then(|hold| hold.shared.as_mut());
        if let Some(shared) = held.filter(|shared| shared.time == KeepingTime::Runs) {
            shared.time = KeepingTime::Over;
        }
        if let Some(local) = &mut self.local
            && local.kept.contains(node)
        {
            local.kept.change(node, |kept| kept.shared.time = KeepingTime::Over);
        }
        self.inbox.push_back(Input::KeepingEnds(node.clone()));
    }

    /// Returns the nodes whose keeping time runs.
    pub(crate) fn lingering(&self) -> Vec<NodeName> {
        let runs = |shared: &SharedNode| shared.time == KeepingTime::Runs;
        let held = self.holds.values().filter(|hold| hold.shared.as_ref().is_some_and(runs));
        let kept = self.local.iter().flat_map(|local| local.kept.iter());
        let kept = kept.filter(|(_, kept)| runs(&kept.shared)).map(|(node, _)| node);
        held.map(|hold| &hold.node).chain(kept).cloned().collect()
    }

    /// Returns the nodes of the client's holds, and its kept nodes.
    pub(crate) fn shared_nodes(&self) -> Vec<NodeName> {
        let kept = self.local.iter().flat_map(|local| local.kept());
        self.holds.keys().chain(kept).cloned().collect()
    }

    pub(crate) fn revoke(&mut self, node: NodeName) {
        self.inbox.push_back(Input::Revoked(node));
    }
}

/// The part of the code that runs in the driver.
impl Client {
    /// Serves a request within the client, if possible: the waiter acquires a kept node or is added
    /// to the line of waiters without nodes. Returns `false` if the waiter must join the queue.
    pub(super) fn join_locally(&mut self, join: JoinId, naming: Naming, kind: Kind, intent: &Intent) -> bool {
        if !self.waiting.contains_key(&join) {
            return self.local.is_some();
        }
        if self.take_again(join, kind, intent, Access::Driver) {
            return true;
        }
        self.give_up_conflicting_nodes(kind);
        let Some(local) = &mut self.local else { return false };
        let wanted = local.options.cohort_of(kind) > 1 && *intent == Intent::Wait;
        let representative = || Representative::new(kind, naming);
        if !wanted || !local.representative.get_or_insert_with(representative).takes(kind, naming) {
            return false;
        }
        local.line.insert(join);
        if let Some(representative) = &mut local.representative {
            representative.enter();
        }
        self.unsettled = true;
        true
    }

    /// Removes a waiter from the line of waiters without nodes. Returns `false` if it was not
    /// there.
    pub(super) fn leave_locally(&mut self, join: JoinId) -> bool {
        let Some(local) = &mut self.local else { return false };
        let was_there = local.line.remove(&join);
        if was_there {
            self.unsettled = true;
            self.leave_representative();
        }
        was_there
    }

    fn leave_representative(&mut self) {
        if let Some(representative) = self.local.as_mut().and_then(|local| local.representative.as_mut()) {
            representative.leave();
        }
    }

    /// Records that a holder handed the lock to a waiter without a node.
    pub(super) fn handed_on(&mut self) {
        self.unsettled = true;
        self.leave_representative();
    }

    /// Handles a grant to this contender and returns the waiter that receives the lock: the
    /// contender itself, or the first of the waiters that it represents.
    pub(super) fn granted_waiter(&mut self, join: JoinId) -> Option<JoinId> {
        let Some(local) = &mut self.local else { return Some(join) };
        if !local.representative.as_mut().is_some_and(|representative| representative.end(join)) {
            return Some(join);
        }
        let first = local.line.pop_first();
        self.unsettled = true;
        if first.is_some() {
            self.leave_representative();
        }
        first
    }

    /// Returns the waiters to refuse when this contender is refused.
    pub(super) fn refused_waiters(&mut self, join: JoinId) -> Vec<JoinId> {
        let Some(first) = self.granted_waiter(join) else { return Vec::new() };
        if first == join {
            return vec![join];
        }
        let line = self.local.as_mut().map(|local| std::mem::take(&mut local.line)).unwrap_or_default();
        for _ in &line {
            self.leave_representative();
        }
        std::iter::once(first).chain(line).collect()
    }

    /// After a grant, prepares to keep the new holder's node after its release, if the options
    /// allow it and no waiter conflicts.
    pub(super) fn begin_keeping(&mut self, kind: Kind) {
        if self.keeping().is_some_and(|keeping| keeping.kind() == kind) {
            return;
        }
        self.end_keeping();
        let (state, contention) = (KeepingState::begin(kind), self.contention());
        let nobody_waits = self.waiting.is_empty() && state.is_compatible_with(contention);
        let Some(local) = self.local.as_mut().filter(|local| local.options.linger && nobody_waits) else {
            return;
        };
        local.kept.open();
        local.keeping = Some(state);
        self.guard(true);
    }

    fn keeping(&self) -> Option<KeepingState> {
        self.local.as_ref().and_then(|local| local.keeping)
    }

    fn contention(&self) -> Option<Contention> {
        self.queues.get(&0).and_then(Pipe::contention)
    }

    fn is_watched(&self) -> bool {
        self.queues.get(&0).is_some_and(|queue| queue.child_watch().is_some())
    }

    fn guard(&mut self, guards: bool) {
        if let Some(queue) = self.queues.get_mut(&0) {
            queue.guard(guards);
        }
        self.unsettled = true;
    }

    /// Notifies the queue, and the code that keeps nodes, of all changes.
    pub(super) fn settle_locally(&mut self) {
        let settled = self.local.as_mut().and_then(|local| local.representative.as_mut()?.next_event());
        if let Some(event) = settled {
            self.tell(0, event);
        }
        let (contention, watched) = (self.contention(), self.is_watched());
        let connected = self.connected;
        let holds = !self.holds.is_empty();
        let Some(local) = &mut self.local else { return };
        let holds = holds || !local.kept.is_empty();
        let Some(keeping) = &mut local.keeping else { return };
        let facts = KeepingFacts { can_continue: connected && holds, no_room: false, watched, contention };
        match keeping.next_step(facts, self.waiting.values().map(|request| request.kind)) {
            KeepingStep::Unchanged => {}
            KeepingStep::Access(access) => local.kept.set_access(access),
            KeepingStep::End | KeepingStep::NoRoom | KeepingStep::GiveWay => self.end_keeping(),
        }
    }

    fn give_up_conflicting_nodes(&mut self, kind: Kind) {
        if self.keeping().is_some_and(|keeping| !keeping.suits(kind)) {
            self.end_keeping();
        }
    }

    /// Stops the use of kept nodes, because the connection is lost.
    pub(super) fn suspend_keeping(&mut self) {
        if let Some(local) = &mut self.local
            && let Some(keeping) = &mut local.keeping
        {
            keeping.suspend();
            local.kept.set_access(Access::Closed);
        }
    }

    pub(super) fn end_keeping(&mut self) {
        for node in self.forget_keeping() {
            self.tell(0, Event::Release(node));
        }
    }

    /// Stops keeping nodes and returns the nodes that were kept. The caller decides whether to
    /// delete them.
    pub(super) fn forget_keeping(&mut self) -> Vec<NodeName> {
        let Some(local) = &mut self.local else { return Vec::new() };
        if local.keeping.take().is_none() {
            return Vec::new();
        }
        let nodes = local.kept.close();
        self.guard(false);
        nodes
    }

    /// If this node is kept, stops keeping it, deletes it and returns `true`.
    pub(super) fn stop_keeping(&mut self, node: &NodeName) -> bool {
        let kept = self.forget_kept(node);
        if kept {
            self.tell(0, Event::Release(node.clone()));
        }
        kept
    }

    /// Removes a deleted node. Returns `true` if the node was kept.
    pub(super) fn forget_kept(&mut self, node: &NodeName) -> bool {
        self.local.as_mut().is_some_and(|local| local.kept.forget(node))
    }

    /// Handles a request to give up the lock of this node.
    pub(super) fn revoked(&mut self, node: &NodeName) {
        if self.stop_keeping(node) {
            return;
        }
        if let Some(shared) = self.holds.get_mut(node).and_then(|hold| hold.shared.as_mut()) {
            (shared.revoked, shared.asked) = (true, true);
        }
    }

    pub(super) fn begin_downgrade(&mut self, writer: &NodeName) {
        if let Some(shared) = self.holds.get_mut(writer).and_then(|hold| hold.shared.as_mut()) {
            shared.downgrading = true;
        }
    }
}

impl World {
    /// Checks that the number of consecutive holds on a node stays within the limit, and that no
    /// node is kept without a connection.
    pub(super) fn check_rows(&self) -> Result<(), String> {
        for (number, client) in self.clients.iter().enumerate() {
            let Some(local) = &client.local else { continue };
            if let Some(node) = local.kept().next().filter(|_| !client.connected && !client.has_news()) {
                return Err(format!("client {number} keeps {node:?} without a connection"));
            }
            let most = local.options.cohort.max(1);
            let mut rows = client.holds.values().filter_map(|hold| Some((hold, hold.shared.as_ref()?)));
            if let Some((hold, shared)) = rows.find(|(_, shared)| shared.in_row > most) {
                let holds = shared.in_row;
                return Err(format!("client {number} has {holds} holds in a row on {:?}", hold.node));
            }
        }
        Ok(())
    }

    /// Checks that an idle client does not keep a node while a conflicting contender of another
    /// client waits for the lock.
    pub(super) fn check_kept(&self, number: usize) -> Result<(), String> {
        let client = &self.clients[number];
        let Some(local) = &client.local else { return Ok(()) };
        for (node, kept) in local.kept.iter() {
            let who = format!("client {number} keeps {node:?}");
            if client.waiting.values().any(|request| conflict(request.kind, kept.kind)) {
                return Err(format!("{who}, for which its own wait: {:?}", client.waiting));
            }
            if self.server.event_was_missed {
                continue;
            }
            if !self.server.exists(node.as_str()) {
                return Err(format!("{who}, which was deleted"));
            }
            let children = self.server.children_at(0, self.server.now);
            let mut others = children.iter().filter_map(|child| NodeName::parse(child));
            let waits = |other: &NodeName| {
                let foreign = self.server.nodes[other.as_str()].owner != Some(kept.session);
                foreign && conflict(other.kind(), kept.kind)
            };
            if let Some(other) = others.find(waits) {
                return Err(format!("{who}, for which {other:?} waits"));
            }
        }
        Ok(())
    }

    /// Ends the time for which nodes are kept, in all clients. Returns `true` if a node was kept.
    pub(super) fn outlast_keeping(&mut self) -> bool {
        let mut outlasts = false;
        for client in &mut self.clients {
            for node in client.lingering() {
                client.end_keeping_time(&node);
                outlasts = true;
            }
        }
        outlasts
    }
}
