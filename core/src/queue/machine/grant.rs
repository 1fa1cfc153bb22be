//! Grants the lock in the order of the queue (rules 4, 6, 7 and 16).

use super::entry::{EntryStage, QueuePlace};
use super::{ListingMode, Queue};
use crate::queue::action::Action;
use crate::queue::event::{JoinId, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;

impl Queue {
    /// Grants the lock to our contenders that no node blocks.
    ///
    /// Why this is safe: sequence numbers only grow, so no node can appear before an existing one.
    /// A listing that shows our node therefore shows every node before it. The view begins as a
    /// copy of that listing. Since then, only nodes that the server reported as gone have been
    /// removed from it.
    ///
    /// A *term* is the time for which the session is certain to exist. Without a term, nothing is
    /// granted, because the server's last replies might be outdated: the session, and our node with
    /// it, might be gone (rule 16). A heartbeat finds that out. Near the end of a term nothing is
    /// granted either, because the new holder would lose the lock before it could use it.
    pub(super) fn grant(&mut self) {
        if !self.term {
            return;
        }
        self.grant_downgrades();
        if self.grant_permits() {
            return;
        }
        // `first_ready` returns only contenders whose nodes a listing has shown. Our other
        // contenders can still block such a contender.
        while let Some((name, id)) = self.first_ready() {
            let kind = name.kind();
            // Holders behind this contender count too: if the contender's node was found late, the
            // node can be ahead of a holder.
            if self.entries.has_conflicting_holder(kind) || self.line().blocks(&name, kind) {
                return;
            }
            let Some(view) = &mut self.view else { return };
            if view.blocks(&name, kind) {
                return;
            }
            // Since the listing, an event has reported that a node ahead of ours is gone. If our
            // node is gone too, a contender behind us might hold the lock because of the same
            // event. So our node must be known to exist (rule 6).
            if view.stale_before(&name) {
                match self.watches.get(&name) {
                    Some(watch) if watch.armed => view.confirm(&name),
                    Some(_) => return,
                    None => return self.request_listing(ListingMode::Plain),
                }
            }
            self.hold(id);
        }
    }

    /// Returns the first of our waiters whose node a listing on this connection has shown.
    pub(super) fn first_ready(&self) -> Option<(NodeName, JoinId)> {
        let name = self.line().ready().first()?;
        Some((name.clone(), *self.line().get(name)?))
    }

    pub(super) fn hold(&mut self, id: JoinId) {
        let Some(join) = self.entries.get(&id) else { return };
        let EntryStage::Queued(place) = &join.stage else { return };
        let czxid = join.token(place);
        let place = QueuePlace { confirmed: false, czxid, ..place.clone() };
        self.actions.push_back(Action::Grant(id, place.name.clone(), czxid));
        self.entries.set_stage(id, EntryStage::Held(place));
    }
}

/// The contenders of other clients in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// No contender of another client.
    Uncontended,
    /// Readers of other clients only.
    Readers,
    /// At least one writer of another client.
    Writers,
}

impl Queue {
    /// Grants a permit to all waiters if there are enough permits for all of them. Returns `true`
    /// if the contenders of this directory want permits.
    ///
    /// Why this is safe: no other client adds a node while we hold the semaphore's mutex, so a
    /// listing that shows all of our nodes counts every node. Our nodes that are being deleted do
    /// not count, because their permits are already released. Other clients still count them.
    pub(super) fn grant_permits(&mut self) -> bool {
        // Use the number of permits from the waiters, which is current. Holders might have joined
        // when the number was different.
        let permits = self.entries.permits().filter(|_| self.view.is_some());
        if permits.is_some_and(|permits| !self.exhausted_by(permits)) {
            let due: Vec<_> = self.entries.awaiting().collect();
            for id in due {
                self.hold(id);
            }
        }
        self.entries.of_permits()
    }

    pub(super) fn exhausted(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Permit(permits) if self.exhausted_by(permits as usize))
    }

    fn exhausted_by(&self, permits: usize) -> bool {
        let others = self.view.as_ref().map_or(0, RemoteView::len);
        others + self.line().len() > permits
    }

    /// Returns `true` if one of our contenders waits for a permit and a listing has shown its node.
    #[must_use]
    pub fn awaits_permits(&self) -> bool {
        self.entries.awaiting().next().is_some()
    }

    pub(super) fn needs_child_watch(&self) -> bool {
        self.awaits_permits() || self.guards
    }

    /// Sets the watch on the children if it is needed, for example because one of our contenders
    /// waits for a permit. Removes the watch if it is not needed.
    pub(super) fn adjust_child_watch(&mut self) {
        match self.child_watch {
            None if self.needs_child_watch() => self.request_listing(ListingMode::Plain),
            // Keep the watch while its listing is in progress.
            Some(ticket) if !self.needs_child_watch() && !self.is_listing(ticket) => {
                self.drop_child_watch(ticket);
            }
            _ => {}
        }
    }

    /// Starts or stops watching the children while nodes are kept.
    pub fn guard(&mut self, guards: bool) {
        self.guards = guards;
        if let Some(ticket) = self.child_watch().filter(|_| !self.needs_child_watch()) {
            self.drop_child_watch(ticket);
        }
    }

    /// Returns the ticket of the watch on the children, if its listing has been answered.
    #[must_use]
    pub fn child_watch(&self) -> Option<Ticket> {
        self.child_watch.filter(|ticket| !self.is_listing(*ticket))
    }

    /// Returns the contenders of other clients in the last listing on this connection, or `None` if
    /// there was no listing yet.
    #[must_use]
    pub fn contention(&self) -> Option<Contention> {
        let view = self.view.as_ref().filter(|_| self.connected)?;
        Some(if view.blocks_newcomer(Kind::Read) {
            Contention::Writers
        } else if view.blocks_newcomer(Kind::Exclusive) {
            Contention::Readers
        } else {
            Contention::Uncontended
        })
    }

    fn is_listing(&self, ticket: Ticket) -> bool {
        self.listing.is_some_and(|(listing, _)| listing == ticket)
    }

    pub(super) fn drop_child_watch(&mut self, ticket: Ticket) {
        if self.child_watch == Some(ticket) {
            self.child_watch = None;
            self.actions.push_back(Action::Unwatch(ticket));
        }
    }

    pub(super) fn children_changed(&mut self) {
        self.child_watch = None;
        if self.needs_child_watch() {
            self.request_listing(ListingMode::Plain);
        }
    }
}
