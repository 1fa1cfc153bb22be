//! When the lock is granted, in queue order (rules 4, 6, 7 and 16).

use super::entry::{EntryStage, QueuePlace};
use super::{ListingMode, Queue};
use crate::queue::action::Action;
use crate::queue::event::{JoinId, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;

impl Queue {
    /// Grants the lock to those of our line that have nobody before them.
    ///
    /// Why this is safe: sequence numbers only grow, so no node can appear before an existing one, and a listing that
    /// shows ours shows every node before it. A node is gone when the view says so: the view began as that
    /// listing, and only nodes that the server reported gone have been taken out since.
    ///
    /// Not without a term: what was true when the server said it may no longer be true, because without a term the
    /// session, and our node with it, may be gone (rule 16). A heartbeat tells. Nor at the end of one, or its new
    /// holder would have lost the lock before it could use it.
    pub(super) fn grant(&mut self) {
        if !self.term {
            return;
        }
        self.grant_downgrades();
        if self.grant_permits() {
            return;
        }
        // Only those whose place is certain: the others do not block readers, and `Line::blocks` knows of all.
        while let Some((name, id)) = self.first_ready() {
            let kind = name.kind();
            // Not only holders before it: a contender whose place was found late may stand before a holder.
            if self.entries.hold_against(kind) || self.line().blocks(&name, kind) {
                return;
            }
            let Some(view) = &mut self.view else { return };
            if view.blocks(&name, kind) {
                return;
            }
            // Known from events, not from a listing: then our own node must be known to exist still, because a
            // contender behind us may have been told the same (rule 6).
            if view.stale_before(&name) {
                match self.watches.get(&name) {
                    Some(watch) if watch.armed => view.confirm(&name),
                    Some(_) => return,
                    None => return self.want(ListingMode::Plain),
                }
            }
            self.hold(id);
        }
    }

    /// The first of ours that waits in a place that is certain.
    pub(super) fn first_ready(&self) -> Option<(NodeName, JoinId)> {
        let name = self.line().ready().first()?;
        Some((name.clone(), *self.line().get(name)?))
    }

    /// Makes a queued contender a holder. A reader in a writer's place takes the writer's token.
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
pub enum Company {
    /// Nobody.
    Nobody,
    /// Readers of other clients.
    Readers,
    /// A writer of another client.
    Writers,
}

impl Queue {
    /// Grants all that wait if there are permits for all of them. Returns whether this is a directory of permits.
    ///
    /// Why this is safe: no other client adds a node while we hold the semaphore's mutex, so a listing that shows all
    /// of ours counts every node. Those of ours that are being deleted are released; the other clients still count
    /// them.
    pub(super) fn grant_permits(&mut self) -> bool {
        // Waiters know how many permits there are; holders may have joined when the number was different.
        let permits = self.entries.permits().filter(|_| self.view.is_some());
        if permits.is_some_and(|permits| !self.exhausted_by(permits)) {
            let due: Vec<_> = self.entries.awaiting().collect();
            for id in due {
                self.hold(id);
            }
        }
        self.entries.of_permits()
    }

    /// Whether there are more contenders than permits of this kind.
    pub(super) fn exhausted(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Permit(permits) if self.exhausted_by(permits as usize))
    }

    fn exhausted_by(&self, permits: usize) -> bool {
        let others = self.view.as_ref().map_or(0, RemoteView::len);
        others + self.line().len() > permits
    }

    /// Whether one of ours was seen to wait for a permit.
    #[must_use]
    pub fn awaits_permits(&self) -> bool {
        self.entries.awaiting().next().is_some()
    }

    /// Whether the children are to be watched.
    pub(super) fn needs_child_watch(&self) -> bool {
        self.awaits_permits() || self.guards
    }

    /// Sets the watch on the children when it is needed, as when one of ours waits for a permit, and drops it when it is
    /// not.
    pub(super) fn adjust_child_watch(&mut self) {
        match self.child_watch {
            None if self.needs_child_watch() => self.want(ListingMode::Plain),
            // While its listing is under way, wait for the outcome.
            Some(ticket) if !self.needs_child_watch() && !self.is_listing(ticket) => {
                self.drop_child_watch(ticket);
            }
            _ => {}
        }
    }

    /// Has the children watched, or no longer.
    pub fn guard(&mut self, guards: bool) {
        self.guards = guards;
        if let Some(ticket) = self.child_watch().filter(|_| !self.needs_child_watch()) {
            self.drop_child_watch(ticket);
        }
    }

    /// The listing whose watch on the children may fire, if it is answered.
    #[must_use]
    pub fn child_watch(&self) -> Option<Ticket> {
        self.child_watch.filter(|ticket| !self.is_listing(*ticket))
    }

    /// The contenders of other clients, as this connection has seen them last; `None` if it has not.
    #[must_use]
    pub fn company(&self) -> Option<Company> {
        let view = self.view.as_ref().filter(|_| self.connected)?;
        Some(if view.blocks_newcomer(Kind::Read) {
            Company::Writers
        } else if view.blocks_newcomer(Kind::Exclusive) {
            Company::Readers
        } else {
            Company::Nobody
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
            self.want(ListingMode::Plain);
        }
    }
}
