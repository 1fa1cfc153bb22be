//! One lock directory in a driver: its queue, its waiters and its holders. Events come in here and actions go out: each
//! of them changes at least two of the three, so they are kept together, in one type.

mod cohort;
pub(super) mod deadlock;
mod dispatch;
mod grace;
mod grant;
mod holders;
pub(super) mod inspect;
mod linger;
mod losses;
mod releases;
mod report;
pub(super) mod resync;
mod retry;
pub(super) mod table;
#[cfg(test)]
mod tests;
pub(super) mod waiters;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::grace::Graces;
use self::holders::Holders;
use self::linger::Keeping;
use self::releases::Releases;
use self::resync::{Due, ResyncTimer};
use self::retry::RetryBackoff;
use self::waiters::{Waiter, Waiters};
use self::watches::DirectoryWatches;
use super::connection::Connection;
use super::timers::Timers;
use crate::driver::mailbox::{AcquireAttempt, DirectoryId};
use crate::error::Error;
use crate::error::escape::Escaped;
use crate::error::loss_reason::LossReason;
use crate::lease::hold::AcquireRequest;
use crate::lease::owner::OwnerId;
use crate::lease::release::Release;
use crate::queue::contender::ContenderInfo;
use crate::queue::{
    Action, Event, JoinId, Kind, Naming, NodeName, Outcome, Queue, SmallMap, SmallSet, Ticket, is_kazoos,
};

#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
pub(super) struct Directory {
    id: DirectoryId,
    /// Its path from the ensemble's root.
    path: Arc<str>,
    queue: Queue,
    waiters: Waiters,
    holders: Holders,
    releases: Releases,
    graces: Option<Box<Graces>>,
    /// Whether nodes may be kept while nobody holds through them.
    keeping: Option<Box<Keeping>>,
    /// Nodes of waiters that were asked to give up the lock before they had it, each with the version of its data.
    revoked: SmallMap<NodeName, i32>,
    watches: DirectoryWatches,
    pauses: RetryBackoff,
    /// The creates that wait, while the listings that were to be sent behind them do not.
    late: SmallSet<Ticket>,
    resync: ResyncTimer,
    /// Whether there was a listing since: only that shows who stands before a waiter.
    listed: bool,
    /// Whether the queue was told something since it last drew conclusions.
    unsettled: bool,
    /// Whether there was a contender whose node kazoo sees only if it is told of such names.
    hidden_from_kazoo: bool,
    /// Whether the client is about to close.
    drains: bool,
}

impl Directory {
    /// `last_ticket`: new tickets follow this one; `term`: the session's term runs. A session without a connection may
    /// get it back, and is not announced again then.
    /// `seed`: of the names of its nodes, drawn for it alone.
    pub(super) fn new(
        (id, path): (DirectoryId, Arc<str>),
        last_ticket: Ticket,
        connection: &Connection,
        term: bool,
        seed: u64,
    ) -> Self {
        let mut queue = Queue::after(last_ticket);
        if connection.is_live() {
            queue.handle(Event::SessionBegan(seed));
        }
        if connection.is_connected() {
            queue.handle(Event::Connected);
        }
        if term {
            queue.handle(Event::TermBegan);
        }
        Self {
            id,
            watches: DirectoryWatches::new(id, Arc::clone(&path)),
            path,
            queue,
            waiters: Waiters::default(),
            holders: Holders::default(),
            releases: Releases::default(),
            graces: None,
            keeping: None,
            revoked: SmallMap::default(),
            pauses: RetryBackoff::new(Instant::now()),
            late: SmallSet::default(),
            resync: ResyncTimer::new(Instant::now()),
            listed: false,
            unsettled: true,
            hidden_from_kazoo: false,
            drains: false,
        }
    }

    pub(super) fn path(&self) -> &Arc<str> {
        &self.path
    }

    pub(super) fn on_event(&mut self, event: Event) {
        self.resync.on_event(&event, Instant::now());
        self.unsettled = true;
        self.pauses.on_event(&event);
        self.listed |= matches!(event, Event::Listed(..));
        match &event {
            Event::Gone(ticket) | Event::Changed(ticket) => {
                self.watches.ended(*ticket);
                self.note_fired(*ticket);
            }
            Event::Watched(ticket, outcome) if *outcome != Outcome::Done(()) => self.watches.ended(*ticket),
            _ => {}
        }
        if self.conceals_term(&event) {
            return;
        }
        let late = matches!(&event, Event::Created(ticket, _) if self.late.remove(ticket));
        self.queue.handle(event);
        if late {
            // Only a listing that was sent after it shows what came before it (rule 3).
            self.queue.handle(Event::LookAgain);
        }
    }

    /// When to tell the queue that a request was lost; `None` is at once. `connection_number`: the one on which it was sent;
    /// `connected`: that one is well.
    pub(super) fn put_off(
        &mut self,
        event: &Event,
        connection_number: u64,
        connected: bool,
    ) -> Option<Instant> {
        self.pauses.after(event, connection_number, connected, Instant::now())
    }

    /// Tells the queue what the server's silence calls for. Returns whether it did.
    pub(super) fn resync_if_silent(&mut self) -> bool {
        let event = match self.resync.due(self.queue.doubt(), self.is_vital(), Instant::now()) {
            Due::Nothing => return false,
            Due::Look => Event::LookAgain,
            Due::Certain(doubt) => Event::Certain(doubt),
        };
        self.queue.handle(event);
        true
    }

    /// Lets a queue that cannot watch poll.
    pub(super) fn poll(&mut self, connection: &Connection) {
        let event = self.watches.poll(connection).map_or(Event::LookAgain, Event::Changed);
        self.queue.handle(event);
    }

    pub(super) fn last_ticket(&self) -> Ticket {
        self.queue.last_ticket()
    }

    /// See [`Queue::warn_no_more`].
    pub(super) fn warn_no_more(&mut self) {
        self.queue.warn_no_more();
    }

    /// The contender on kazoo in a listing that may not see ours.
    pub(super) fn may_be_blind<'a>(&self, event: &'a Event) -> Option<&'a str> {
        let Event::Listed(_, Outcome::Done(children)) = event else { return None };
        let found = children.iter().find(|child| self.hidden_from_kazoo && is_kazoos(child));
        found.map(String::as_str)
    }

    /// Whether this says that the server refuses checks. One before 3.6 also ends the connection.
    pub(super) fn is_refused_check(&self, event: &Event) -> bool {
        let Event::Probed(ticket, Outcome::NoNode | Outcome::Refused(_)) = event else { return false };
        self.queue.is_checking(*ticket)
    }

    /// See [`Queue::check_no_more`].
    pub(super) fn check_no_more(&mut self) {
        self.queue.check_no_more();
    }

    pub(super) fn has_warned(&self) -> bool {
        self.queue.has_warned()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.waiters.is_empty() && !self.releases.awaits_any()
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Whether anybody holds or waits.
    pub(super) fn is_in_use(&self) -> bool {
        self.has_waiters() || !self.holders.is_empty()
    }

    pub(super) fn is_waiting(&self, join: JoinId) -> bool {
        self.waiters.get(join).is_some()
    }

    pub(super) fn only_tries(&self, join: JoinId) -> bool {
        self.waiters.get(join).is_some_and(|attempt| attempt.intent.only_tries())
    }

    /// For how long a try may wait for an answer, if that is not left to its client.
    pub(super) fn answer_within(&self, join: JoinId) -> Option<Duration> {
        let attempt = self.waiters.get(join).filter(|_| self.only_tries(join))?;
        let within = attempt.deadline.end()?.saturating_duration_since(attempt.asked);
        // The bound that was given, without the moments that it took to get here.
        Some(Duration::from_millis(within.as_millis().try_into().unwrap_or(u64::MAX)))
    }

    pub(super) fn join(&mut self, waiter: Waiter, timers: &mut Timers) {
        let join = waiter.attempt.join;
        self.make_way(waiter.attempt.claim.kind, timers);
        self.note_grace(&waiter.attempt);
        if self.waiters.add(waiter) {
            self.enter_queue(join);
        }
    }

    fn enter_queue(&mut self, join: JoinId) {
        let in_line = self.waiters.enter_line(join);
        if let Some(AcquireAttempt { naming, claim, intent, .. }) = self.waiters.get(join) {
            // A semaphore of kazoo's has another layout in any case, and beside kazoo a candidate is refused.
            self.hidden_from_kazoo |=
                *naming == Naming::Curator && !matches!(claim.kind, Kind::Permit(_) | Kind::Lead);
            if !in_line {
                self.on_event(Event::Join(join, *naming, claim.kind, intent.clone()));
                return;
            }
            self.unsettled = true;
            // It waits for a holder of this client, though no listing may ever show its node behind that one's.
            if !self.holders.is_empty() {
                self.waiters.contend(join);
            }
        }
    }

    /// Removes a waiter; its place in the queue goes to its owner's next.
    pub(super) fn leave(&mut self, join: JoinId, timers: &mut Timers) -> Option<AcquireAttempt> {
        let Waiter { attempt, alarms, .. } = self.remove_waiter(join)?;
        timers.cancel(alarms.keys());
        self.queue.handle(Event::Leave(join));
        self.leave_line(&attempt);
        Some(attempt)
    }

    /// Removes a waiter, for which nobody else has an outcome then; `None` if it has one, as when it was handed the lock.
    fn remove_waiter(&mut self, join: JoinId) -> Option<Waiter> {
        let waiter = self.waiters.remove(join)?;
        self.forget_grace(&waiter.attempt);
        Some(waiter)
    }

    fn leave_line(&mut self, attempt: &AcquireAttempt) {
        let AcquireRequest { owner, kind, .. } = attempt.claim;
        self.leave_owners_line((owner, kind), attempt.join);
    }

    fn leave_owners_line(&mut self, line: (OwnerId, Kind), join: JoinId) {
        if let Some(next) = self.waiters.leave_line(line, join) {
            self.enter_queue(next);
        }
    }

    /// The last lease of a hold was released.
    pub(super) fn release(&mut self, node: &NodeName, release: Release, timers: &mut Timers) {
        // A hold that was lost has nothing left to release; dropping the waiter says so.
        let Some(holder) = self.holders.remove(node) else {
            self.releases.came_late(node, &release);
            return self.end_grace(node, timers);
        };
        holder.cancel_alarms(node, timers);
        self.lose_kept(node, timers);
        self.releases.begin(self.id, node, release, timers);
        self.on_event(Event::Release(node.clone()));
    }

    /// A caller that released a hold waits no longer.
    pub(super) fn stop_waiting(&mut self, node: &NodeName) {
        self.releases.stop_waiting(node);
    }

    /// The outcome of a delete. `missing`: the node did not exist, as an answer to be trusted.
    pub(super) fn delete_answered(&mut self, ticket: Ticket, missing: bool) {
        self.releases.delete_answered(ticket, missing);
    }

    /// A hold has lasted for long, or its holder wants to be told at once when it is asked to give up the lock.
    pub(super) fn watch_hold(&mut self, node: &NodeName) {
        if self.holders.contains(node) {
            self.on_event(Event::WatchHold(node.clone()));
        }
    }

    /// Whether somebody holds through this node.
    pub(super) fn holds_through(&self, node: &NodeName) -> bool {
        self.holders.contains(node)
    }

    pub(super) fn fail_all(&mut self, error: &Error) {
        self.forget_all_graces();
        for (join, waiter) in self.waiters.remove_all() {
            self.queue.handle(Event::Leave(join));
            waiter.attempt.answer(Err(error.clone()));
        }
    }

    /// Fails all attempts that wait, except for those to be kept. Their nodes are deleted as when they leave by themselves.
    pub(super) fn turn_away(
        &mut self,
        error: &Error,
        timers: &mut Timers,
        keep: impl Fn(&AcquireAttempt) -> bool,
    ) {
        self.drains = true;
        self.end_keeping(timers);
        for Waiter { attempt, alarms, .. } in self.waiters.turn_away(keep) {
            timers.cancel(alarms.keys());
            self.forget_grace(&attempt);
            self.queue.handle(Event::Leave(attempt.join));
            attempt.answer(Err(error.clone()));
        }
    }

    /// The owner of a node of ours is asked to give up the lock; if it is still waiting, it is told when it holds.
    pub(super) fn revoked(
        &mut self,
        node: NodeName,
        version: i32,
        connection: &mut Connection,
        timers: &mut Timers,
    ) {
        let told = self.holders.revoke(&node);
        if !told && self.stop_keeping(&node, timers) {
            return;
        }
        // It may have been taken again in between. A hold that was told does not keep its node.
        if told || self.holders.revoke(&node) {
            self.restore_data(node, version, connection);
            return;
        }
        self.revoked.retain(|waiter, _| self.queue.is_ours(waiter));
        if self.queue.is_ours(&node) {
            self.revoked.insert(node, version);
        }
    }

    /// Lets a holder's node say again whose it is, and that it was asked to give up. Curator's revokers write over that,
    /// and ours write the same bytes: a holder on Curator compares all of them.
    fn restore_data(&self, node: NodeName, version: i32, connection: &mut Connection) {
        let data = self.holders.data(&node).and_then(ContenderInfo::revoked_data);
        let directory_client = connection.directory_client(self.id, &self.path);
        if let (Some(data), Some(directory_client)) = (data, directory_client) {
            connection.spawn(directory_client.restore_data(node, data, version));
        }
    }

    /// The holders are disconnected from the server, or connected again.
    pub(super) fn suspend(&mut self, suspended: bool) {
        if suspended {
            self.suspend_keeping();
        }
        self.holders.suspend(suspended);
    }

    /// Whether a contender holds, or may soon: the term matters.
    pub(super) fn is_vital(&self) -> bool {
        !self.holders.is_empty() || self.queue.is_near()
    }

    /// How many nodes of ours there are.
    pub(super) fn places(&self) -> usize {
        self.queue.len()
    }

    /// Our nodes in order, those behind this one if one is given.
    pub(super) fn places_behind(&self, node: Option<&NodeName>) -> impl Iterator<Item = &NodeName> {
        let all = node.is_none().then(|| self.queue.places(usize::MAX));
        let behind = node.map(|node| self.queue.places_behind(node));
        all.into_iter().flatten().chain(behind.into_iter().flatten())
    }

    /// Draws the queue's conclusions and carries them out.
    pub(super) fn flush(&mut self, connection: &mut Connection, timers: &mut Timers) {
        // Carrying out an action may tell the queue something: a refusal lets its owner's next waiter in.
        loop {
            self.settle_representative();
            self.settle_keeping(connection, timers);
            self.unsettled = false;
            self.check_waiters_grace(connection);
            self.queue.flush();
            while let Some(action) = self.queue.next_action() {
                let path = connection.below_chroot(&self.path);
                tracing::trace!(path = %Escaped(path), ?action, "queue");
                self.act(action, connection, timers);
            }
            if !self.unsettled {
                break;
            }
        }
        if std::mem::take(&mut self.listed) {
            self.waiters.note_contended(&self.queue);
        }
        self.watches.flush(connection, timers, self.queue.has_waiters());
        if self.queue.awaits_permits() {
            // All attempts in a directory share its holds.
            if let Some(attempt) = self.waiters.attempts().next() {
                attempt.holds.permit_news().waiting.notify_waiters();
            }
        }
    }

    /// What the queue would have done, for a test that is its server.
    #[cfg(test)]
    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.queue.flush();
        self.queue.next_action()
    }

    fn act(&mut self, action: Action, connection: &mut Connection, timers: &mut Timers) {
        match action {
            Action::Grant(join, node, czxid) => {
                self.grant(join, &node, czxid, connection, timers);
            }
            Action::Refuse(join, refusal) => self.refuse(join, &refusal, connection, timers),
            Action::NodeLost(node) => {
                let reason =
                    if connection.is_live() { LossReason::NodeDeleted } else { LossReason::SessionExpired };
                self.holders.cancel_alarms(&node, timers);
                self.lose_kept(&node, timers);
                if !self.lose(&node, reason) {
                    // Its release came before this was acted on.
                    self.releases.lost(&node, reason);
                }
                // Without a node there is nothing to keep, and no reason to watch the children.
                self.unsettled |= self.keeping.is_some();
            }
            Action::Released(node) => self.releases.end(&node, timers),
            Action::Unwatch(ticket) => self.watches.unset(ticket),
            Action::Ignored(child) => {
                let (path, child) = (Escaped(connection.below_chroot(&self.path)), Escaped(&child));
                tracing::warn!(%path, %child, "a child without a sequence number does not count as a contender");
            }
            Action::Watch(ticket, name) => {
                let ours = self.queue.is_ours(&name);
                self.watches.set(ticket, name, ours, connection);
            }
            request => self.send(request, connection),
        }
    }
}
