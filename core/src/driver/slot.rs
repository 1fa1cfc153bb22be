//! One lock directory in a driver: its queue, who waits in it, and who holds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::LONG_HOLD;
use super::link::Link;
use super::timers::{Alarm, AlarmKey, Timers};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Entry, Grant, Lease, LockPath, LossReason};
use crate::meter::Wait;
use crate::owner::Owner;
use crate::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Queue, Refusal, Ticket};

/// How often a queue looks for itself that cannot watch.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Somebody who waits for the lock.
pub(super) struct Waiter {
    pub(super) lock: Arc<LockPath>,
    pub(super) owner: Owner,
    pub(super) naming: Naming,
    pub(super) kind: Kind,
    pub(super) intent: Intent,
    /// The data of its node.
    pub(super) data: Vec<u8>,
    pub(super) alarms: Vec<AlarmKey>,
    /// How its caller had waited before; `None` for what is not to be counted as a hold.
    pub(super) wait: Option<Wait>,
    /// Whether it had to wait for somebody.
    pub(super) contended: bool,
    pub(super) reply: oneshot::Sender<Result<Lease>>,
}

/// A watch on the server.
struct Watch {
    task: AbortHandle,
    /// The length of its path.
    bytes: usize,
}

pub(super) struct Slot {
    queue: Queue,
    waiters: BTreeMap<JoinId, Waiter>,
    /// Per owner its waiters that queue, oldest first. Only the first is in the queue: when it is granted, the
    /// others re-enter; in the queue they would wait for their own owner.
    lines: HashMap<(Owner, Kind), Vec<JoinId>>,
    /// Those of the waiters of whom it is not known yet whether they have to wait for somebody.
    newcomers: Vec<JoinId>,
    holders: HashMap<JoinId, Weak<LockPath>>,
    releasing: HashMap<JoinId, oneshot::Sender<()>>,
    /// Nodes of waiters that were asked to give the lock up before they had it.
    revoked: BTreeSet<NodeName>,
    watches: HashMap<Ticket, Watch>,
    /// Watches for which there is no room.
    parked: Vec<(Ticket, NodeName)>,
    /// Whether it will look for itself, because watches are parked.
    polling: bool,
    /// The room of watches that ended, in bytes.
    freed: usize,
    /// Whether anything was heard since the last look at the clock.
    heard: bool,
    /// Whether the queue was told something since it last drew conclusions.
    unsettled: bool,
}

impl Slot {
    /// `last_ticket`: what tickets come after; `live`: there is a session; `connected`: it has a connection; `term`: its
    /// term runs. A session without a connection may get it back, and is not announced again then.
    pub(super) fn new(last_ticket: Ticket, live: bool, connected: bool, term: bool) -> Self {
        let mut queue = Queue::after(last_ticket);
        if live {
            queue.handle(Event::SessionBegan(crate::session::random()));
        }
        if connected {
            queue.handle(Event::Connected);
        }
        if term {
            queue.handle(Event::TermBegan);
        }
        Self {
            queue,
            waiters: BTreeMap::new(),
            lines: HashMap::new(),
            newcomers: Vec::new(),
            holders: HashMap::new(),
            releasing: HashMap::new(),
            revoked: BTreeSet::new(),
            watches: HashMap::new(),
            parked: Vec::new(),
            polling: false,
            freed: 0,
            heard: true,
            unsettled: true,
        }
    }

    pub(super) fn hear(&mut self, event: Event) {
        self.heard = true;
        self.unsettled = true;
        match &event {
            Event::Gone(ticket) | Event::Changed(ticket) => self.watch_ended(*ticket),
            Event::Watched(ticket, outcome) if *outcome != Outcome::Done(()) => self.watch_ended(*ticket),
            Event::SessionLost => {
                self.watches.clear();
                self.parked.clear();
                self.freed = 0;
                self.lose_all(LossReason::SessionExpired);
            }
            _ => {}
        }
        self.queue.handle(event);
    }

    fn watch_ended(&mut self, ticket: Ticket) {
        if let Some(watch) = self.watches.remove(&ticket) {
            self.freed += watch.bytes;
        }
    }

    /// Whether nothing was heard since the last time that this was asked.
    pub(super) fn silent(&mut self) -> bool {
        !std::mem::take(&mut self.heard)
    }

    /// Has a queue that cannot watch look for itself.
    pub(super) fn poll(&mut self) {
        self.polling = false;
        self.look_again();
    }

    /// The room that its watches take, in bytes.
    pub(super) fn watched(&self) -> usize {
        self.watches.values().map(|watch| watch.bytes).sum()
    }

    pub(super) fn last_ticket(&self) -> Ticket {
        self.queue.last_ticket()
    }

    /// Has the queue look at the server again. No news, so the silence goes on.
    pub(super) fn look_again(&mut self) {
        self.queue.handle(Event::LookAgain);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.waiters.is_empty()
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    pub(super) fn is_waiting(&self, join: JoinId) -> bool {
        self.waiters.contains_key(&join)
    }

    pub(super) fn only_tries(&self, join: JoinId) -> bool {
        self.waiters.get(&join).is_some_and(|waiter| waiter.intent == Intent::Try)
    }

    pub(super) fn join(&mut self, join: JoinId, waiter: Waiter) {
        let (line, intent) = ((waiter.owner, waiter.kind), waiter.intent);
        self.waiters.insert(join, waiter);
        self.newcomers.push(join);
        let first = match intent {
            Intent::Try => true,
            Intent::Wait | Intent::Downgrade(_) => {
                let line = self.lines.entry(line).or_default();
                line.push(join);
                line.len() == 1
            }
        };
        if first {
            self.enter_queue(join);
        }
    }

    fn enter_queue(&mut self, join: JoinId) {
        if let Some(Waiter { naming, kind, intent, .. }) = self.waiters.get(&join) {
            self.hear(Event::Join(join, *naming, *kind, *intent));
        }
    }

    /// Takes a waiter out; its place in the queue goes to its owner's next.
    pub(super) fn leave(&mut self, join: JoinId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&join)?;
        self.queue.handle(Event::Leave(join));
        self.leave_line((waiter.owner, waiter.kind), join);
        Some(waiter)
    }

    fn leave_line(&mut self, key: (Owner, Kind), join: JoinId) {
        let Some(line) = self.lines.get_mut(&key) else {
            return;
        };
        let was_first = line.first() == Some(&join);
        line.retain(|other| *other != join);
        match line.first().copied() {
            Some(next) if was_first => self.enter_queue(next),
            Some(_) => {}
            None => drop(self.lines.remove(&key)),
        }
    }

    pub(super) fn release(&mut self, join: JoinId, done: Option<oneshot::Sender<()>>) {
        self.holders.remove(&join);
        if let Some(done) = done {
            self.releasing.insert(join, done);
        }
        self.hear(Event::Release(join));
    }

    pub(super) fn fail_all(&mut self, error: &Error) {
        for (join, waiter) in std::mem::take(&mut self.waiters) {
            self.queue.handle(Event::Leave(join));
            waiter.reply.send(Err(error.clone())).ok();
        }
        self.lines.clear();
    }

    /// The term is over: what is held is lost, and its nodes are deleted as soon as the server can be told.
    pub(super) fn end_term(&mut self) {
        let holders: Vec<_> = self.holders.keys().copied().collect();
        for join in holders {
            self.expire(join);
        }
    }

    /// A holder has lost the lock because the term was over when somebody looked.
    pub(super) fn expire(&mut self, join: JoinId) {
        let Some(lock) = self.holders.remove(&join) else {
            return;
        };
        if let Some(lock) = lock.upgrade() {
            lock.lose(join, LossReason::TermEnded);
        }
        self.hear(Event::Release(join));
    }

    /// The owner of a node of ours is asked to give the lock up; if it only waits yet, it will hear of it when it holds.
    pub(super) fn revoked(&mut self, node: NodeName) {
        let mut holders = self.holders.values().filter_map(Weak::upgrade);
        if holders.any(|lock| lock.revoke(node.as_str())) {
            return;
        }
        self.revoked.retain(|waiter| self.queue.is_ours(waiter));
        if self.queue.is_ours(&node) {
            self.revoked.insert(node);
        }
    }

    /// The holders are out of touch with the server, or in touch again.
    pub(super) fn suspend(&self, suspended: bool) {
        for (join, lock) in &self.holders {
            if let Some(lock) = lock.upgrade() {
                lock.suspend(*join, suspended);
            }
        }
    }

    /// Whether somebody holds.
    pub(super) fn holds(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Whether somebody waits whose turn may come soon.
    pub(super) fn is_near(&self) -> bool {
        self.queue.is_near()
    }

    /// Our nodes, at most so many.
    pub(super) fn places(&self, limit: usize) -> impl Iterator<Item = &NodeName> {
        self.queue.places(limit)
    }

    pub(super) fn lose_all(&mut self, reason: LossReason) {
        for (join, lock) in self.holders.drain() {
            if let Some(lock) = lock.upgrade() {
                lock.lose(join, reason);
            }
        }
    }

    /// The error of a contender whose time is up: whether the lock was taken, or the server out of reach.
    pub(super) fn timeout_error(&self, join: JoinId, connected: bool) -> Error {
        let path = self.waiters.get(&join).map_or("", |waiter| waiter.lock.place.path());
        let message = match (connected, self.queue.ahead_of(join)) {
            (true, _) if self.queue.awaits_permits() => too_few_permits(path),
            (false, _) => format!("no answer from the server in time while acquiring {path}"),
            (true, Some(ahead @ 1..)) => format!("{path} is taken: {ahead} still ahead in the queue"),
            (true, _) => format!("{path} was not acquired in time"),
        };
        Error::new(ErrorKind::LockTimeout, message)
    }

    /// Draws the queue's conclusions and carries them out.
    pub(super) fn settle(&mut self, path: &Arc<str>, link: &mut Link, timers: &mut Timers) {
        // Carrying out an action may tell the queue something: a refusal lets its owner's next in.
        loop {
            self.unsettled = false;
            self.queue.settle();
            while let Some(action) = self.queue.next_action() {
                tracing::trace!(%path, ?action, "queue");
                self.act(action, path, link, timers);
            }
            if !self.unsettled {
                break;
            }
        }
        self.note_contended();
        link.free_watches(std::mem::take(&mut self.freed));
        for (ticket, name) in std::mem::take(&mut self.parked) {
            self.watch(ticket, name, path, link);
        }
        if !self.parked.is_empty() && !self.polling {
            self.polling = true;
            tracing::debug!(%path, "no room for more watches on one session: looking every now and then");
            timers.set(Instant::now() + POLL_INTERVAL, Alarm::Poll(Arc::clone(path)));
        }
        if self.queue.awaits_permits() {
            for waiter in self.waiters.values() {
                waiter.lock.permits.waiting.notify_waiters();
            }
        }
    }

    /// Who was seen in the queue behind somebody, and has not been granted the lock all the same, has to wait for it.
    fn note_contended(&mut self) {
        self.newcomers.retain(|join| {
            let Some(waiter) = self.waiters.get_mut(join) else { return false };
            waiter.contended |= self.queue.stands_behind_another(*join);
            !waiter.contended
        });
    }

    /// Sets a watch, or parks it until there is room.
    fn watch(&mut self, ticket: Ticket, name: NodeName, path: &Arc<str>, link: &mut Link) {
        let bytes = path.len() + 1 + name.as_str().len();
        match link.wire(path) {
            Some(wire) if link.reserve_watch(bytes) => {
                let task = link.spawn(wire.watch(ticket, name));
                self.watches.insert(ticket, Watch { task, bytes });
            }
            Some(_) => self.parked.push((ticket, name)),
            // Without a session the queue asks for nothing; what it asked for before is forgotten with the session.
            None => {}
        }
    }

    fn act(&mut self, action: Action, path: &Arc<str>, link: &mut Link, timers: &mut Timers) {
        match action {
            Action::Grant(join, node, czxid) => {
                self.grant(join, &node, czxid, link, timers);
            }
            Action::Refuse(join, refusal) => self.refuse(join, refusal, timers),
            Action::NodeLost(join) => {
                let reason =
                    if link.is_live() { LossReason::NodeDeleted } else { LossReason::SessionExpired };
                if let Some(lock) = self.holders.remove(&join).and_then(|lock| lock.upgrade()) {
                    lock.lose(join, reason);
                }
            }
            Action::Released(join) => {
                if let Some(done) = self.releasing.remove(&join) {
                    done.send(()).ok();
                }
            }
            Action::Unwatch(ticket) => {
                self.parked.retain(|(parked, _)| *parked != ticket);
                if let Some(watch) = self.watches.get(&ticket) {
                    watch.task.abort();
                }
                self.watch_ended(ticket);
            }
            Action::Ignored(child) => {
                tracing::warn!(%path, %child, "a child without a sequence number does not count as a contender");
            }
            Action::Watch(ticket, name) => self.watch(ticket, name, path, link),
            request => self.send(request, path, link),
        }
    }

    fn send(&mut self, request: Action, path: &Arc<str>, link: &mut Link) {
        // Without a session the queue asks for nothing; what it asked for before is forgotten with the session.
        let Some(wire) = link.wire(path) else { return };
        match request {
            Action::Create(ticket, join, prefix) => {
                let data = self.waiters.get(&join).map(|waiter| waiter.data.clone()).unwrap_or_default();
                link.spawn(wire.create(ticket, prefix, data));
            }
            Action::CreateInPlace(ticket, join, name) => {
                let data = self.waiters.get(&join).map(|waiter| waiter.data.clone()).unwrap_or_default();
                link.spawn(wire.create_in_place(ticket, name, data));
            }
            Action::MakeParents(ticket) => drop(link.spawn(wire.make_parents(ticket))),
            Action::List { ticket, sync } => drop(link.spawn(wire.list(ticket, sync))),
            Action::ListAndWatch { ticket, sync } => {
                // One at a time in a directory: not worth counting.
                let task = link.spawn(wire.list_and_watch(ticket, sync));
                self.watches.insert(ticket, Watch { task, bytes: 0 });
            }
            Action::Verify(ticket, name) => drop(link.spawn(wire.verify(ticket, name))),
            Action::Delete(ticket, name) => drop(link.spawn(wire.delete(ticket, name))),
            other => unreachable!("{other:?} is no request"),
        }
    }

    fn grant(&mut self, join: JoinId, node: &NodeName, czxid: i64, link: &Link, timers: &mut Timers) {
        let Some(waiter) = self.waiters.remove(&join) else {
            // Gave up in the same breath.
            self.hear(Event::Release(join));
            return;
        };
        timers.cancel(&waiter.alarms);
        let lock = waiter.lock;
        // The queue grants only while the term of a session runs.
        let term = link.term().map(Arc::clone).unwrap_or_default();
        let grant = Grant {
            join,
            owner: waiter.owner,
            kind: waiter.kind,
            node: node.as_str().to_owned(),
            fencing_token: czxid,
            session_id: link.session_id(),
            term,
            since: waiter.wait.map(|wait| wait.since),
            contended: waiter.contended,
        };
        self.holders.insert(join, Arc::downgrade(&lock));
        timers.set(Instant::now() + LONG_HOLD, Alarm::Guard(Arc::clone(lock.place.full()), join));
        let lease = lock.grant(grant);
        if self.revoked.remove(node) {
            lock.revoke(node.as_str());
        }
        // Its owner's other waiters re-enter, before the first lease can be released.
        let others = self.lines.remove(&(waiter.owner, waiter.kind)).unwrap_or_default();
        for other in others.into_iter().filter(|other| *other != join) {
            if let Some(other) = self.waiters.remove(&other) {
                timers.cancel(&other.alarms);
                if let Ok(Entry::Reentered(lease)) = lock.enter(waiter.owner, waiter.kind, Intent::Wait) {
                    other.reply.send(Ok(lease)).ok();
                }
            }
        }
        self.settle_other_half(&lock, waiter.owner, waiter.kind, join, timers);
        // A lease that nobody receives is dropped, which releases it.
        waiter.reply.send(Ok(lease)).ok();
    }

    /// An owner that asked for both halves of a read/write lock at once has one of them now, and must not wait for
    /// itself with the other.
    fn settle_other_half(
        &mut self,
        lock: &LockPath,
        owner: Owner,
        granted: Kind,
        join: JoinId,
        timers: &mut Timers,
    ) {
        match granted {
            Kind::Read => {
                for writer in self.lines.remove(&(owner, Kind::Write)).unwrap_or_default() {
                    self.queue.handle(Event::Leave(writer));
                    self.unsettled = true;
                    if let Some(waiter) = self.waiters.remove(&writer) {
                        timers.cancel(&waiter.alarms);
                        waiter.reply.send(Err(lock.upgrade_refused())).ok();
                    }
                }
            }
            Kind::Write => {
                if let Some(reader) = self.lines.get(&(owner, Kind::Read)).and_then(|line| line.first()) {
                    self.hear(Event::Downgrade(*reader, join));
                }
            }
            Kind::Exclusive | Kind::Permit(_) => {}
        }
    }

    fn refuse(&mut self, join: JoinId, refusal: Refusal, timers: &mut Timers) {
        let Some(waiter) = self.waiters.remove(&join) else {
            return;
        };
        timers.cancel(&waiter.alarms);
        let path = waiter.lock.place.path();
        let error = match refusal {
            Refusal::Busy => {
                waiter.lock.client.meter().busy();
                let message = match waiter.kind {
                    Kind::Permit(_) => too_few_permits(path),
                    _ => format!("{path} is taken"),
                };
                Error::new(ErrorKind::LockTimeout, message)
            }
            Refusal::SequenceExhausted => Error::new(
                ErrorKind::SequenceExhausted,
                format!(
                    "the sequence numbers of {path} are used up; delete the directory while it is idle, or use another path"
                ),
            ),
            Refusal::NotAuthorized => Error::new(
                ErrorKind::AuthFailed,
                format!(
                    "not permitted to use {path}; check the access control lists and the client's credentials"
                ),
            ),
            Refusal::Server(problem) => Error::new(
                ErrorKind::ConnectionFailed,
                format!("the server refused to queue at {path}: {problem}"),
            ),
        };
        self.leave_line((waiter.owner, waiter.kind), join);
        waiter.reply.send(Err(error)).ok();
    }
}

fn too_few_permits(path: &str) -> String {
    format!("too few permits of {path} are free")
}

pub(super) fn not_authorized(path: &str) -> Error {
    let message =
        format!("not permitted to use {path}; check the access control lists and the client's credentials");
    Error::new(ErrorKind::AuthFailed, message)
}
