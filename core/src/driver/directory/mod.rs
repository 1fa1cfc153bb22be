//! One lock directory in a driver: its queue, its waiters and its holders. They are in one type,
//! because most events and actions change at least two of them.

mod cohort;
pub(super) mod deadlock;
mod dispatch;
mod grace;
mod grant;
mod holders;
pub(super) mod inspect;
mod linger;
mod losses;
mod pacing;
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
use self::pacing::Pacing;
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
use crate::lease::owner::OwnerId;
use crate::lease::release::Release;
use crate::lease::request::AcquireRequest;
use crate::queue::contender::ContenderInfo;
use crate::queue::rare::Rare;
use crate::queue::{
    Action, Event, JoinId, Kind, Naming, NodeName, Outcome, Queue, SmallMap, SmallSet, Ticket, is_kazoos,
};

#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
pub(super) struct Directory {
    id: DirectoryId,
    /// The directory's path from the ensemble's root.
    path: Arc<str>,
    queue: Queue,
    waiters: Rare<Waiters>,
    holders: Holders,
    releases: Rare<Releases>,
    graces: Option<Box<Graces>>,
    /// Set while nodes can be kept without a hold.
    keeping: Option<Box<Keeping>>,
    /// Nodes of waiters that another client has already asked to give up the lock, each with the
    /// version of its data. A waiter is informed when it is granted the lock.
    revoked: Rare<SmallMap<NodeName, i32>>,
    watches: DirectoryWatches,
    pauses: RetryBackoff,
    /// Tickets of creates that were sent after a pause. Their listings were sent before the pause.
    delayed_creates: Rare<SmallSet<Ticket>>,
    /// State of the pauses before this client creates the lock directory again, after a reaper or
    /// another client has deleted it. `None` for most directories, because this client never
    /// creates them.
    parents: Option<Box<Pacing>>,
    resync: ResyncTimer,
    /// `true` if a listing has arrived since the last flush. Only a listing shows which nodes are
    /// ahead of a waiter.
    listed: bool,
    /// `true` if the queue has received an event since its last flush.
    needs_flush: bool,
    /// `true` if this client has had a contender with Curator's node names in this directory. By
    /// default, kazoo does not recognize such names.
    hidden_from_kazoo: bool,
    /// `true` if the client is about to close.
    drains: bool,
}

impl Directory {
    /// Creates a directory.
    ///
    /// - `last_ticket`: the queue's tickets are higher than this one.
    /// - `term`: `true` if the session's term has not ended.
    /// - `seed`: seed for the names of this directory's nodes.
    ///
    /// If there is a session, the new queue receives `Event::SessionBegan` even while the
    /// connection is lost, because no later event would announce that session.
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
            waiters: Rare::default(),
            holders: Holders::default(),
            releases: Rare::default(),
            graces: None,
            keeping: None,
            revoked: Rare::default(),
            pauses: RetryBackoff::default(),
            delayed_creates: Rare::default(),
            parents: None,
            resync: ResyncTimer::new(Instant::now()),
            listed: false,
            needs_flush: true,
            hidden_from_kazoo: false,
            drains: false,
        }
    }

    pub(super) fn path(&self) -> &Arc<str> {
        &self.path
    }

    pub(super) fn on_event(&mut self, event: Event) {
        self.resync.on_event(&event, Instant::now());
        self.needs_flush = true;
        self.pauses.on_event(&event);
        self.listed |= matches!(event, Event::Listed(..));
        match &event {
            Event::Gone(ticket) | Event::Changed(ticket) => {
                self.watches.ended(*ticket);
                self.note_fired(*ticket);
            }
            Event::WatchHold(_) => self.trim(),
            Event::Watched(ticket, outcome) if *outcome != Outcome::Done(()) => self.watches.ended(*ticket),
            _ => {}
        }
        if self.hides_term_event(&event) {
            return;
        }
        let was_delayed = match &event {
            Event::Created(ticket, _) => {
                self.delayed_creates.filled().is_some_and(|delayed| delayed.remove(ticket))
            }
            _ => false,
        };
        self.queue.handle(event);
        if was_delayed {
            // Only a listing sent after the create shows all nodes that are ahead of the new one
            // (rule 3).
            self.queue.handle(Event::Resync);
        }
    }

    /// See [`RetryBackoff::after`].
    pub(super) fn delay_until(
        &mut self,
        event: &Event,
        connection_number: u64,
        connected: bool,
    ) -> Option<Instant> {
        self.pauses.after(event, connection_number, connected, Instant::now())
    }

    /// Makes the queue list or probe its directory again if the server has been silent for too long
    /// (see `resync`). Also notifies the queue when the server can no longer carry out a create
    /// with an unknown outcome. Returns `true` if the queue received an event.
    pub(super) fn resync_if_silent(&mut self) -> bool {
        let event = match self.resync.due(self.queue.doubt(), self.is_vital(), Instant::now()) {
            Due::Nothing => return false,
            Due::Resync => Event::Resync,
            Due::DoubtOver(doubt) => Event::Certain(doubt),
        };
        self.queue.handle(event);
        true
    }

    /// Makes the queue list or probe its directory, because its watches do not fit in the session's
    /// watch budget.
    pub(super) fn poll(&mut self, connection: &Connection) {
        let event = self.watches.poll(connection).map_or(Event::Resync, Event::Changed);
        self.queue.handle(event);
    }

    pub(super) fn last_ticket(&self) -> Ticket {
        self.queue.last_ticket()
    }

    /// See [`Queue::disable_warnings`].
    pub(super) fn disable_warnings(&mut self) {
        self.queue.disable_warnings();
    }

    /// Returns the name of a kazoo contender if a listing shows one and it might not recognize our
    /// nodes.
    pub(super) fn find_blind_kazoo<'a>(&self, event: &'a Event) -> Option<&'a str> {
        let Event::Listed(_, Outcome::Done(children)) = event else { return None };
        let found = children.iter().find(|child| self.hidden_from_kazoo && is_kazoos(child));
        found.map(String::as_str)
    }

    /// Returns `true` if this event shows that the server refuses check requests (requests that
    /// only check that a node exists).
    pub(super) fn is_refused_check(&self, event: &Event) -> bool {
        let Event::Probed(ticket, Outcome::NoNode | Outcome::Refused(_)) = event else { return false };
        self.queue.is_checking(*ticket)
    }

    /// See [`Queue::disable_checks`].
    pub(super) fn disable_checks(&mut self) {
        self.queue.disable_checks();
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

    pub(super) fn is_in_use(&self) -> bool {
        self.has_waiters() || !self.holders.is_empty()
    }

    pub(super) fn is_waiting(&self, join: JoinId) -> bool {
        self.waiters.get(join).is_some()
    }

    pub(super) fn only_tries(&self, join: JoinId) -> bool {
        self.waiters.get(join).is_some_and(|attempt| attempt.intent.only_tries())
    }

    /// Returns the time limit for the server's reply to an acquire that does not wait for the lock.
    /// Returns `None` if the client's connect timeout applies.
    pub(super) fn answer_within(&self, join: JoinId) -> Option<Duration> {
        let attempt = self.waiters.get(join).filter(|_| self.only_tries(join))?;
        let within = attempt.deadline.end()?.saturating_duration_since(attempt.asked);
        // The measured time is some microseconds longer than the caller's limit. The error message
        // shows it, so round it down to milliseconds.
        Some(Duration::from_millis(within.as_millis().try_into().unwrap_or(u64::MAX)))
    }

    pub(super) fn join(&mut self, waiter: Waiter, timers: &mut Timers) {
        let join = waiter.attempt.join;
        self.end_keeping_for_waiter(waiter.attempt.claim.kind, timers);
        self.note_grace(&waiter.attempt);
        if self.waiters.add(waiter) {
            self.enter_queue(join);
        }
    }

    fn enter_queue(&mut self, join: JoinId) {
        let in_cohort = self.waiters.enter_cohort(join);
        if let Some(AcquireAttempt { naming, claim, intent, .. }) = self.waiters.get(join) {
            // Kazoo's semaphore uses another layout, so permits do not matter. A candidate's queue
            // fails if it finds a kazoo contender, so elections do not matter either.
            self.hidden_from_kazoo |=
                *naming == Naming::Curator && !matches!(claim.kind, Kind::Permit(_) | Kind::Lead);
            if !in_cohort {
                self.on_event(Event::Join(join, *naming, claim.kind, intent.clone()));
                return;
            }
            self.needs_flush = true;
            // The waiter is contended because this client already holds the lock. A listing might
            // never show the waiter's node behind the holder's.
            if !self.holders.is_empty() {
                self.waiters.contend(join);
            }
        }
    }

    /// Removes a waiter. The next waiter of the same owner then enters the queue.
    pub(super) fn leave(&mut self, join: JoinId, timers: &mut Timers) -> Option<AcquireAttempt> {
        let Waiter { attempt, alarms, .. } = self.remove_waiter(join)?;
        timers.cancel(alarms.keys());
        self.queue.handle(Event::Leave(join));
        self.leave_owner_line_of(&attempt);
        Some(attempt)
    }

    /// Removes a waiter. Returns `None` if the waiter was already answered, for example because a
    /// holder handed it the lock.
    fn remove_waiter(&mut self, join: JoinId) -> Option<Waiter> {
        let waiter = self.waiters.filled()?.remove(join)?;
        self.forget_grace(&waiter.attempt);
        Some(waiter)
    }

    fn leave_owner_line_of(&mut self, attempt: &AcquireAttempt) {
        let AcquireRequest { owner, kind, .. } = attempt.claim;
        self.leave_owner_line((owner, kind), attempt.join);
    }

    fn leave_owner_line(&mut self, line: (OwnerId, Kind), join: JoinId) {
        if let Some(next) = self.waiters.leave_owner_line(line, join) {
            self.enter_queue(next);
        }
    }

    /// Handles the release of a hold's last lease.
    pub(super) fn release(&mut self, node: &NodeName, release: Release, timers: &mut Timers) {
        // The hold was lost earlier, so there is nothing to release. Dropping `release` completes
        // the program's call.
        let Some(holder) = self.holders.remove(node) else {
            if let Some(releases) = self.releases.filled() {
                releases.late_release(node, &release);
            }
            return self.end_grace(node, timers);
        };
        holder.cancel_alarms(node, timers);
        self.lose_kept(node, timers);
        self.releases.begin(self.id, node, release, timers);
        self.on_event(Event::Release(node.clone()));
    }

    /// Stops the wait of a caller that released a hold.
    pub(super) fn stop_waiting(&mut self, node: &NodeName) {
        if let Some(releases) = self.releases.filled() {
            releases.stop_waiting(node);
        }
    }

    pub(super) fn delete_answered(&mut self, ticket: Ticket, missing: bool) {
        if let Some(releases) = self.releases.filled() {
            releases.delete_answered(ticket, missing);
        }
    }

    pub(super) fn watch_hold(&mut self, node: &NodeName) {
        if self.holders.contains(node) {
            self.on_event(Event::WatchHold(node.clone()));
        }
    }

    /// Returns `true` if there is a hold on this node.
    pub(super) fn has_hold_on(&self, node: &NodeName) -> bool {
        self.holders.contains(node)
    }

    pub(super) fn fail_all(&mut self, error: &Error) {
        self.forget_all_graces();
        for (join, waiter) in self.waiters.remove_all() {
            self.queue.handle(Event::Leave(join));
            waiter.attempt.answer(Err(error.clone()));
        }
    }

    /// Fails all waiting attempts except the ones that `keep` selects, and deletes the nodes of the
    /// failed attempts.
    pub(super) fn refuse_waiters(
        &mut self,
        error: &Error,
        timers: &mut Timers,
        keep: impl Fn(&AcquireAttempt) -> bool,
    ) {
        self.drains = true;
        self.end_keeping(timers);
        for Waiter { attempt, alarms, .. } in self.waiters.refuse_waiters(keep) {
            timers.cancel(alarms.keys());
            self.forget_grace(&attempt);
            self.queue.handle(Event::Leave(attempt.join));
            attempt.answer(Err(error.clone()));
        }
    }

    /// Handles another client's request to give up the lock of one of our nodes. A waiter receives
    /// the request when it is granted the lock.
    pub(super) fn revoked(
        &mut self,
        node: NodeName,
        version: i32,
        connection: &mut Connection,
        timers: &mut Timers,
    ) {
        let holder_notified = self.holders.revoke(&node);
        if !holder_notified && self.stop_keeping(&node, timers) {
            return;
        }
        // Try again, because a new hold on the node might have begun in the meantime. After the
        // holder has received the request, its node is not kept or handed on.
        if holder_notified || self.holders.revoke(&node) {
            self.restore_data(node, version, connection);
            return;
        }
        self.revoked.retain(|waiter, _| self.queue.is_ours(waiter));
        if self.queue.is_ours(&node) {
            self.revoked.insert(node, version);
        }
    }

    /// Restores the data of a holder's node, which describes the owner. The request to give up the
    /// lock has overwritten it. The restored data also notes the request.
    fn restore_data(&self, node: NodeName, version: i32, connection: &mut Connection) {
        let data = self.holders.data(&node).and_then(ContenderInfo::revoked_data);
        let directory_client = connection.directory_client(self.id, &self.path);
        if let (Some(data), Some(directory_client)) = (data, directory_client) {
            connection.spawn(directory_client.restore_data(node, data, version));
        }
    }

    pub(super) fn suspend(&mut self, suspended: bool) {
        if suspended {
            self.suspend_keeping();
        }
        self.holders.suspend(suspended);
    }

    /// Returns `true` if one of our contenders holds the lock or might hold it soon. Such a
    /// directory needs heartbeats.
    pub(super) fn is_vital(&self) -> bool {
        !self.holders.is_empty() || self.queue.is_near()
    }

    /// Returns the number of our nodes.
    pub(super) fn places(&self) -> usize {
        self.queue.len()
    }

    /// Returns our contenders' nodes in queue order, or only the nodes behind `node`.
    pub(super) fn places_behind(&self, node: Option<&NodeName>) -> impl Iterator<Item = &NodeName> {
        let all = node.is_none().then(|| self.queue.places(usize::MAX));
        let behind = node.map(|node| self.queue.places_behind(node));
        all.into_iter().flatten().chain(behind.into_iter().flatten())
    }

    /// Flushes the queue and carries out its actions.
    pub(super) fn flush(&mut self, connection: &mut Connection, timers: &mut Timers) {
        // Repeat, because an action can cause another event. For example, when a waiter is refused,
        // the next waiter of the same owner enters the queue.
        loop {
            self.update_representative();
            self.update_keeping(connection, timers);
            self.needs_flush = false;
            self.check_waiters_grace(connection);
            self.queue.flush();
            while let Some(action) = self.queue.next_action() {
                let path = connection.below_chroot(&self.path);
                tracing::trace!(path = %Escaped(path), ?action, "queue");
                self.act(action, connection, timers);
            }
            if !self.needs_flush {
                break;
            }
        }
        if std::mem::take(&mut self.listed) {
            if let Some(waiters) = self.waiters.filled() {
                waiters.note_contended(&self.queue);
            }
        }
        self.watches.flush(connection, timers, self.queue.has_waiters());
        if self.queue.awaits_permits() {
            // All attempts in a directory share its holds.
            if let Some(attempt) = self.waiters.attempts().next() {
                attempt.holds.permit_state().waiting.notify_waiters();
            }
        }
    }

    /// Frees the memory of empty collections, because a hold lasts long. Most directories have a
    /// short hold and are then dropped as a whole.
    fn trim(&mut self) {
        self.queue.trim();
        self.waiters.trim();
        self.releases.trim();
        self.revoked.trim();
        self.delayed_creates.trim();
    }

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
                    self.releases.lost(&node, reason);
                }
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
