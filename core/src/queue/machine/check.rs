//! Checks: a settled queue asks only for the nodes that matter to it, and keeps doing so over a reconnection (rule 10).

use std::ops::Bound;

use super::entry::{Entry, EntryStage};
use super::position::FarBeyond;
use super::{ListingMode, Probing, Queue};
use crate::queue::action::Action;
use crate::queue::event::{Event, Intent, Outcome, Ticket};
use crate::queue::node_name::NodeName;
use crate::queue::remote_view::RemoteView;

/// A check asks for at most so many nodes, so that it is short however many of ours wait.
const AT_ONCE: usize = 8;

/// So many of them are always the first ones: our first waiter's own node and those for which it waits.
const FIRST: usize = 4;

impl Queue {
    /// Calls a waiter far that has more than `limit` before it, instead of more than [`NEAR`](crate::queue::machine::position::NEAR): the
    /// tests' worlds are small.
    #[must_use]
    pub fn far_beyond(self, limit: u8) -> Self {
        Self { far_beyond: FarBeyond::new(limit), ..self }
    }

    /// Whether the listing on this connection is deferred until something suggests that it could tell anything new.
    #[must_use]
    pub fn defers_listing(&self) -> bool {
        self.deferred
    }

    /// The last view of the others; perhaps of the connection before this one, so nothing is granted by it.
    pub(super) fn last_view(&self) -> Option<&RemoteView> {
        self.view.as_ref().or(self.old_view.as_deref())
    }

    /// Whether each of ours holds, or waits in a place that a listing has shown, so that the next one tells nothing that
    /// matters unless a node is gone.
    fn is_settled(&self) -> bool {
        // Waiters of ours behind the first one are looked for when they come near.
        let first = self.line().keys().next().and_then(|name| self.entries.get(self.line().get(name)?));
        let unseen = |join: &Entry| matches!(&join.stage, EntryStage::Queued(place) if !place.confirmed);
        let listed = self.view.is_some() && !first.is_some_and(unseen);
        let seen = self.deferred || (listed && !self.awaits_own_watch());
        let settled = |join: &Entry| match join.stage {
            EntryStage::Held(_) => true,
            EntryStage::Queued(_) => join.intent == Intent::Wait && !join.leaving,
            _ => false,
        };
        seen && self.doubt.is_none()
            && self.listing.is_none()
            && self.wanted.is_none()
            && !matches!(self.probe, Probing::For(..))
            && !self.entries.of_permits()
            && self.entries.values().all(settled)
    }

    /// Whether the first of ours waits for nothing but the watch on its own node. If there is no room for that watch on
    /// the session, only a listing tells that the node exists.
    fn awaits_own_watch(&self) -> bool {
        let Some((name, _)) = self.first_ready() else { return false };
        let stale = self.view.as_ref().is_some_and(|view| view.stale_before(&name));
        stale && !self.watches.get(&name).is_some_and(|watch| watch.armed)
    }

    /// The server has said nothing for a long time. Where all of ours hold, the heartbeat looks after them.
    pub(super) fn look_again(&mut self) {
        self.retry_refused_deletes();
        if !self.has_waiters() && self.doubt.is_none() {
            return;
        }
        if !self.is_settled() || self.probe == Probing::Refused {
            self.want(ListingMode::Plain);
        } else if self.connected && self.probe == Probing::Idle {
            self.check();
        }
    }

    /// Whether a check with this ticket is under way.
    #[must_use]
    pub fn is_checking(&self, ticket: Ticket) -> bool {
        self.probe == Probing::Check(ticket)
    }

    /// Lists instead of checking from now on: the servers refuse checks.
    pub fn check_no_more(&mut self) {
        self.probe = Probing::Refused;
    }

    /// Asks, in one request, whether some of our waiting nodes and of the watched ones exist: the first ones, and others
    /// in turn.
    fn check(&mut self) {
        let mut nodes = self.to_check(Bound::Unbounded, FIRST);
        let Some(first) = nodes.last().cloned() else { return };
        let checked = self.checked.take().map(|checked| *checked);
        let behind = checked.filter(|checked| *checked > first).unwrap_or_else(|| first.clone());
        let mut rest = self.to_check(Bound::Excluded(&behind), AT_ONCE - FIRST);
        if rest.is_empty() && behind != first {
            rest = self.to_check(Bound::Excluded(&first), AT_ONCE - FIRST);
        }
        self.checked = rest.last().cloned().map(Box::new);
        nodes.append(&mut rest);
        let ticket = self.ticket();
        self.actions.push_back(Action::Probe(ticket, nodes));
        self.probe = Probing::Check(ticket);
    }

    /// The next nodes to check, in the order of the queue.
    fn to_check(&self, behind: Bound<&NodeName>, limit: usize) -> Vec<NodeName> {
        let range = (behind, Bound::Unbounded);
        let line = self.line();
        let waits = |name: &NodeName| {
            let join = line.get(name).and_then(|id| self.entries.get(id));
            join.is_some_and(|join| !join.is_held())
        };
        let ours = line.range::<NodeName, _>(range).map(|(name, _)| name).filter(|name| waits(name));
        let watched = self.watches.range::<NodeName, _>(range).map(|(name, _)| name);
        let others = watched.filter(|name| !line.contains_key(name) && !self.doomed.contains_key(name));
        let mut next: Vec<_> = ours.take(limit).chain(others.take(limit)).cloned().collect();
        next.sort_unstable();
        next.truncate(limit);
        next
    }

    /// Takes in the answer to a check. It grants nothing: a node of another client that is gone calls for a listing, as
    /// its watch should have. That one of ours is gone is a fact, since names are unique and its create was acknowledged.
    pub(super) fn check_answered(&mut self, outcome: Outcome<Vec<NodeName>>) {
        match outcome {
            Outcome::Done(gone) => {
                for name in gone {
                    if self.line().contains_key(&name) {
                        self.missing(&name);
                        self.end_deferral();
                    } else if self.last_view().is_some_and(|view| view.contains(&name)) {
                        self.want(ListingMode::Plain);
                    }
                }
            }
            // There is another one after the next silence.
            Outcome::Lost => {}
            Outcome::NoNode | Outcome::Refused(_) => {
                self.probe = Probing::Refused;
                self.want(ListingMode::Plain);
            }
        }
    }

    /// Whether a listing would tell nothing that matters: all of ours wait, far behind others, and their places are known.
    /// If a watch has fired since the last listing, the next ones may not be set yet: nothing would tell what they miss.
    fn can_defer_listing(&self) -> bool {
        let stale = self.last_view().is_some_and(RemoteView::stale);
        self.is_settled() && self.entries.holders() == 0 && self.has_waiters() && !self.is_near() && !stale
    }

    /// The connection is lost. If all of ours that are here are settled, and none is near, then the watches, which the
    /// next connection sets again, and checks will tell when a listing is due.
    pub(super) fn defer_listing(&mut self) {
        if !self.deferred && self.can_defer_listing() {
            // Watches that are not needed any more would be set again, and kept for as long as the listing is deferred.
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

    /// Something happened in the queue: the deferred listing is due, if there is anybody to whom it matters.
    pub(super) fn end_deferral(&mut self) {
        if std::mem::take(&mut self.deferred) && self.has_waiters() {
            self.want(ListingMode::Plain);
        }
    }
}

impl Event {
    /// Whether this may change who stands where, or what is watched: then a listing is no longer deferred.
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
