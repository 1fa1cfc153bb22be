//! Checks: short requests that ask whether the few nodes that matter to our waiters still exist.
//! After a reconnection, a check can replace a listing of the directory (rule 10).

use std::ops::Bound;

use super::entry::{Entry, EntryStage};
use super::position::FarBeyond;
use super::{ListingMode, Probing, Queue};
use crate::queue::action::Action;
use crate::queue::event::{Event, Intent, Outcome, Ticket};
use crate::queue::node_name::NodeName;
use crate::queue::remote_view::RemoteView;

/// Maximum number of nodes in a check. It keeps the request short, even if many of our contenders
/// wait.
const MAX_CHECKED_NODES: usize = 8;

/// Number of nodes that every check includes: the node of our first waiter, and the nodes that this
/// waiter waits for.
const ALWAYS_CHECKED: usize = 4;

impl Queue {
    /// Treats a waiter as far from the front if more than `limit` contenders are ahead of it. The
    /// default is [`NEAR`](crate::queue::machine::position::NEAR). Tests with few contenders set a
    /// smaller limit.
    #[must_use]
    pub fn far_beyond(self, limit: u8) -> Self {
        Self { far_beyond: FarBeyond::new(limit), ..self }
    }

    /// Returns `true` if the listing on this connection is deferred until an event shows that it is
    /// needed.
    #[must_use]
    pub fn defers_listing(&self) -> bool {
        self.deferred
    }

    /// Returns the last known nodes of other clients. They might be from the previous connection,
    /// so they must not be used to grant a lock.
    pub(super) fn last_view(&self) -> Option<&RemoteView> {
        self.view.as_ref().or(self.old_view.as_deref())
    }

    /// Returns `true` if the queue is *settled*: each of our contenders holds the lock, or waits at
    /// a position that a listing has shown. A settled queue needs another listing only after a node
    /// has been deleted.
    fn is_settled(&self) -> bool {
        // Waiters behind our first one need no listing until they are near the front.
        let first = self.line().keys().next().and_then(|name| self.entries.get(self.line().get(name)?));
        let unseen = |join: &Entry| matches!(&join.stage, EntryStage::Queued(place) if !place.confirmed);
        let listed = self.view.is_some() && !first.is_some_and(unseen);
        let seen = self.deferred || (listed && !self.awaits_own_watch());
        let settled = |join: &Entry| match join.stage {
            EntryStage::Held(_) => true,
            EntryStage::Queued(_) => join.intent == Intent::Wait && !join.leaving,
            _ => false,
        };
        seen && !self.has_doubt()
            && self.listing.is_none()
            && self.wanted.is_none()
            && !matches!(self.probe, Probing::For(..))
            && !self.entries.of_permits()
            && self.entries.values().all(settled)
    }

    /// Returns `true` if our first waiter needs a watch on its own node, and the watch is not set.
    /// If the watch budget is used up, a listing must show instead that the node exists.
    fn awaits_own_watch(&self) -> bool {
        let Some((name, _)) = self.first_ready() else { return false };
        let stale = self.view.as_ref().is_some_and(|view| view.stale_before(&name));
        stale && !self.watches.get(&name).is_some_and(|watch| watch.armed)
    }

    /// Lists or checks the directory again, because no news about it has arrived for a long time.
    /// If all of our contenders hold the lock, this is not necessary, because the heartbeat checks
    /// their nodes.
    pub(super) fn resync(&mut self) {
        self.retry_refused_deletes();
        if !self.has_waiters() && !self.has_doubt() {
            return;
        }
        if !self.is_settled() || self.probe == Probing::Refused {
            self.request_listing(ListingMode::Plain);
        } else if self.connected && self.probe == Probing::Idle {
            self.check();
        }
    }

    /// Returns `true` if a check with this ticket is under way.
    #[must_use]
    pub fn is_checking(&self, ticket: Ticket) -> bool {
        self.probe == Probing::Check(ticket)
    }

    /// Replaces checks with listings from now on, because the server refuses checks.
    pub fn disable_checks(&mut self) {
        self.probe = Probing::Refused;
    }

    /// Asks the server in one request whether nodes of our waiters, and nodes that they watch,
    /// still exist. Every request includes the first [`ALWAYS_CHECKED`] nodes. The others take
    /// turns, a few in each request.
    fn check(&mut self) {
        let mut nodes = self.to_check(Bound::Unbounded, ALWAYS_CHECKED);
        let Some(first) = nodes.last().cloned() else { return };
        let checked = self.checked.take().map(|checked| *checked);
        let behind = checked.filter(|checked| *checked > first).unwrap_or_else(|| first.clone());
        let mut rest = self.to_check(Bound::Excluded(&behind), MAX_CHECKED_NODES - ALWAYS_CHECKED);
        if rest.is_empty() && behind != first {
            rest = self.to_check(Bound::Excluded(&first), MAX_CHECKED_NODES - ALWAYS_CHECKED);
        }
        self.checked = rest.last().cloned().map(Box::new);
        nodes.append(&mut rest);
        let ticket = self.ticket();
        self.actions.push_back(Action::Probe(ticket, nodes));
        self.probe = Probing::Check(ticket);
    }

    fn to_check(&self, behind: Bound<&NodeName>, limit: usize) -> Vec<NodeName> {
        let range = (behind, Bound::Unbounded);
        let line = self.line();
        let waits = |name: &NodeName| {
            let join = line.get(name).and_then(|id| self.entries.get(id));
            join.is_some_and(|join| !join.is_held())
        };
        let ours = line.range::<NodeName, _>(range).map(|(name, _)| name).filter(|name| waits(name));
        let watched = self.watches.range::<NodeName, _>(range).map(|(name, _)| name);
        let others = watched.filter(|name| !line.contains_key(name) && !self.deletes.contains_key(name));
        let mut next: Vec<_> = ours.take(limit).chain(others.take(limit)).cloned().collect();
        next.sort_unstable();
        next.truncate(limit);
        next
    }

    /// Handles the reply to a check. The reply never grants a lock. If another client's node is
    /// gone, its watch should have fired, so the queue requests a listing. If one of our nodes is
    /// gone, it was certainly deleted, because its create was acknowledged and names are unique.
    pub(super) fn check_answered(&mut self, outcome: Outcome<Vec<NodeName>>) {
        match outcome {
            Outcome::Done(gone) => {
                for name in gone {
                    if self.line().contains_key(&name) {
                        self.missing(&name);
                        self.end_deferral();
                    } else if self.last_view().is_some_and(|view| view.contains(&name)) {
                        self.request_listing(ListingMode::Plain);
                    }
                }
            }
            // The queue checks again after the next long silence.
            Outcome::Lost => {}
            Outcome::NoNode | Outcome::Refused(_) => {
                self.probe = Probing::Refused;
                self.request_listing(ListingMode::Plain);
            }
        }
    }

    /// Returns `true` if a listing is not needed, because all of our contenders wait far from the
    /// front at known positions. Returns `false` if a watch has fired since the last listing,
    /// because the watches that replace it might not be set yet, and further changes might not be
    /// reported.
    fn can_defer_listing(&self) -> bool {
        let stale = self.last_view().is_some_and(RemoteView::stale);
        self.is_settled() && self.entries.holders() == 0 && self.has_waiters() && !self.is_near() && !stale
    }

    /// Defers the listing on the next connection, if [`can_defer_listing`](Self::can_defer_listing)
    /// permits that. Checks, and the watches that the next connection sets again, then show when a
    /// listing is needed.
    pub(super) fn defer_listing(&mut self) {
        if !self.deferred && self.can_defer_listing() {
            // Remove unneeded watches first. Otherwise, the next connection would set them again
            // and keep them as long as the listing is deferred.
            self.adjust_watches();
        }
        self.deferred = self.can_defer_listing();
        if !self.deferred {
            self.old_view = None;
        } else if let Some(view) = self.view.take() {
            self.old_view = Some(Box::new(view));
        }
        if matches!(self.probe, Probing::Check(_)) {
            self.probe = Probing::Idle;
        }
    }

    pub(super) fn end_deferral(&mut self) {
        if std::mem::take(&mut self.deferred) && self.has_waiters() {
            self.request_listing(ListingMode::Plain);
        }
    }
}

impl Event {
    /// Returns `true` if this event might change the order of the contenders or the watches. Such
    /// an event ends the deferral of the listing.
    pub(super) fn ends_deferral(&self) -> bool {
        match self {
            Self::Watched(_, outcome) => *outcome != Outcome::Done(()),
            Self::Join(..)
            | Self::Downgrade(..)
            | Self::Leave(_)
            | Self::Release(_)
            | Self::Gone(_)
            | Self::Changed(_)
            | Self::Missing(_) => true,
            _ => false,
        }
    }
}
