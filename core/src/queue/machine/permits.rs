//! Permits: up to a fixed number hold together, whatever their order (rule 17).
//!
//! A contender that asks for permits holds the semaphore's mutex meanwhile. So at most one client at a time waits here,
//! and its watch on the children wakes no other.

use super::super::action::Action;
use super::super::event::Ticket;
use super::super::name::Kind;
use super::super::view::View;
use super::state::{Look, Queue};

impl Queue {
    /// Grants all that wait if there are permits for all of them. Returns whether this is a directory of permits.
    ///
    /// Why this is safe: no other client adds a node while we hold the semaphore's mutex, so a listing that shows all
    /// of ours counts every node. Those of ours that are being deleted are released; the other clients still count
    /// them.
    pub(super) fn grant_permits(&mut self) -> bool {
        // Waiters know how many permits there are; holders may have joined when the number was different.
        let permits = self.joins.permits().filter(|_| self.view.is_some());
        if permits.is_some_and(|permits| !self.exhausted_by(permits)) {
            let due: Vec<_> = self.joins.awaiting().collect();
            for id in due {
                self.hold(id);
            }
        }
        self.joins.of_permits()
    }

    /// Whether there are more contenders than permits of this kind.
    pub(super) fn exhausted(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Permit(permits) if self.exhausted_by(permits as usize))
    }

    fn exhausted_by(&self, permits: usize) -> bool {
        let others = self.view.as_ref().map_or(0, View::len);
        others + self.line().len() > permits
    }

    /// Whether one of ours was seen to wait for a permit.
    #[must_use]
    pub fn awaits_permits(&self) -> bool {
        self.joins.awaiting().next().is_some()
    }

    /// Sets the watch on the children when one of ours waits for a permit, and drops it when none does.
    pub(super) fn adjust_child_watch(&mut self) {
        match self.child_watch {
            None if self.awaits_permits() => self.want(Look::Plain),
            // While its listing is under way, wait for the outcome.
            Some(ticket) if !self.awaits_permits() && !self.is_listing(ticket) => {
                self.drop_child_watch(ticket);
            }
            _ => {}
        }
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
        if self.awaits_permits() {
            self.want(Look::Plain);
        }
    }
}
