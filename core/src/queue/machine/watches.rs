//! Decides which nodes are watched, and handles watch events (rules 6, 9 and 12).

use std::ops::Deref;

use super::entry::EntryStage;
use super::{ListingMode, Queue};
use crate::queue::action::Action;
use crate::queue::event::{JoinId, Outcome, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;
use crate::queue::small_map::{SmallMap, SmallSet};

impl Queue {
    pub(super) fn watched(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        match outcome {
            Outcome::Done(()) => self.watches.arm(ticket),
            Outcome::NoNode => self.watched_node_gone(ticket),
            Outcome::Lost => drop(self.watches.remove_ticket(ticket)),
            // The server refused a watch on the node of a hold. That watch is not essential,
            // because no contender waits for the node and the heartbeat checks it. Keep the entry,
            // so that the watch is not requested again.
            Outcome::Refused(_) if self.is_for_a_hold(ticket) => {}
            Outcome::Refused(refusal) => {
                drop(self.watches.remove_ticket(ticket));
                self.refuse_all(refusal);
            }
        }
    }

    fn is_for_a_hold(&self, ticket: Ticket) -> bool {
        self.watches.name(ticket).is_some_and(|name| self.line().long_held().contains(name))
    }

    pub(super) fn watched_node_gone(&mut self, ticket: Ticket) {
        let Some(name) = self.watches.remove_ticket(ticket) else { return };
        if let Some(id) = self.line().get(&name).copied() {
            self.own_node_gone(id, &name);
        } else if self.view.as_mut().is_some_and(|view| view.subtract(&name))
            && !self.line().writers().is_empty()
        {
            self.request_listing(ListingMode::Plain);
        }
    }

    /// Handles the report of the heartbeat that a node of ours is missing. The heartbeat is a
    /// transaction, which the leader answers from committed state. So the report is true even if
    /// the connected server lags behind.
    pub(super) fn missing(&mut self, name: &NodeName) {
        if let Some(id) = self.line().get(name).copied() {
            if let Some(watch) = self.watches.remove(name) {
                self.actions.push_back(Action::Unwatch(watch.ticket));
            }
            self.own_node_gone(id, name);
        }
    }

    /// Forgets the watch on a node of ours that is gone. If the watch was not acknowledged, the
    /// client crate might still be setting it, so this method also requests its removal.
    pub(super) fn watched_node_removed(&mut self, name: &NodeName) {
        if let Some(watch) = self.watches.remove(name).filter(|watch| !watch.armed) {
            self.actions.push_back(Action::Unwatch(watch.ticket));
        }
    }

    /// Handles the loss of a node of ours that another client deleted.
    pub(super) fn own_node_gone(&mut self, id: JoinId, name: &NodeName) {
        self.watched_node_removed(name);
        let Some(join) = self.entries.get(&id) else { return };
        if join.is_held() {
            let lost = if join.leaving { Action::Released } else { Action::NodeLost };
            self.entries.remove(id);
            self.actions.push_back(lost(name.clone()));
            self.displace_readers(name);
        } else {
            self.create_again(id);
        }
    }

    /// Marks a hold that has lasted so long that its node needs a watch (rule 12).
    pub(super) fn watch_hold(&mut self, name: &NodeName) {
        let Some(id) = self.holder(name) else { return };
        self.entries.change(id, |join| {
            if let EntryStage::Held(place) = &mut join.stage {
                place.confirmed = true;
            }
        });
    }

    /// Sets the watches that are needed and removes those that are not.
    ///
    /// Whether a node needs a watch depends on its neighbors, both our nodes and other clients'
    /// nodes. So only the neighborhood of a change is examined.
    pub(super) fn adjust_watches(&mut self) {
        // While the listing is deferred, the client crate itself sets the old watches again on the
        // new connection. Their events end the deferral.
        if self.deferred {
            return;
        }
        let mut needed = Vec::new();
        for name in self.nodes_to_recheck() {
            match (self.watches.get(&name), self.needs_watch(&name)) {
                // Keep watches on our own nodes until the nodes are gone, because removing a watch
                // takes a request.
                (Some(_), false) if !self.line().contains_key(&name) && !self.deletes.contains_key(&name) => {
                    if let Some(watch) = self.watches.remove(&name) {
                        self.actions.push_back(Action::Unwatch(watch.ticket));
                    }
                }
                (None, true) => needed.push(name),
                _ => {}
            }
        }
        // If one node was deleted, its neighbors in the queue might be gone too. Ask the server
        // whether they exist before watching them (rule 6).
        if self.view.as_ref().is_some_and(RemoteView::stale) {
            self.probe_before_watching(&mut needed);
        }
        for name in needed {
            let ticket = self.ticket();
            self.watches.add(name.clone(), ticket);
            self.actions.push_back(Action::Watch(ticket, name));
        }
    }

    fn nodes_to_recheck(&mut self) -> SmallSet<NodeName> {
        let moved = self.entries.take_moved();
        let changed = self.watches.take_changed(self.entries.of_permits());
        // Only a node of another client or a long hold needs a watch. Most locks have neither.
        let others = self.view.as_ref().is_some_and(|view| view.len() > 0);
        if !others && self.watches.is_empty() && self.line().long_held().is_empty() {
            return SmallSet::default();
        }
        let Some(mut changed) = changed else {
            let line = self.line();
            let seeds = self.watches.keys().chain(line.ready().iter()).chain(line.long_held().iter());
            return seeds.flat_map(|seed| self.affected_nodes(seed)).cloned().collect();
        };
        changed.extend(moved);
        changed.iter().flat_map(|seed| self.affected_nodes(seed)).cloned().collect()
    }

    /// Returns the nodes that might need a watch, or no longer need it, after a change at `name`:
    ///
    /// - the node itself
    /// - our first node behind it
    /// - the other clients' nearest nodes ahead of it
    fn affected_nodes<'a>(&'a self, name: &'a NodeName) -> impl Iterator<Item = &'a NodeName> {
        let view = self.view.as_ref();
        let others = view.into_iter().flat_map(|view| view.all_before(name).rev().take(2));
        let writer = view.and_then(|view| view.writers_before(name).next_back());
        [name].into_iter().chain(self.line().behind(name)).chain(others).chain(writer)
    }

    /// Returns `true` if a node needs a watch: our waiters wait for it, or it is our own node and
    /// its deletion must be noticed.
    fn needs_watch(&self, name: &NodeName) -> bool {
        if self.line().long_held().contains(name) {
            return true;
        }
        // Contenders for permits watch the children instead.
        let Some(view) = self.view.as_ref().filter(|_| !self.entries.of_permits()) else { return false };
        if self.line().contains_key(name) {
            self.watches_itself(view, name)
        } else {
            view.contains(name)
                && (self.blocks_near_writer(view, name) || self.blocks_next_reader(view, name))
        }
    }

    /// Returns `true` if our waiting node `ours` needs a watch. This is the case if another
    /// client's node is directly ahead of it (rule 6). Ahead of a reader, only writers count (rule
    /// 4).
    fn watches_itself(&self, view: &RemoteView, ours: &NodeName) -> bool {
        let nearest = match ours.kind() {
            Kind::Read => view.writers_before(ours).next_back(),
            _ => view.before(ours),
        };
        // The node must be our first one behind that node.
        let first = |nearest| self.line().behind(nearest) == Some(ours);
        self.line().ready().contains(ours) && nearest.is_some_and(first)
    }

    /// Returns `true` if one of our contenders waits behind this node for an exclusive hold, with
    /// at most one node of another client between the two (rule 6).
    fn blocks_near_writer(&self, view: &RemoteView, other: &NodeName) -> bool {
        self.first_waiter(other).is_some_and(|ours| {
            ours.kind() != Kind::Read && view.all_behind(other).nth(1).is_none_or(|next| ours < next)
        })
    }

    /// Returns `true` if this node belongs to a writer that directly blocks a reader of ours. The
    /// reader is our first contender behind it, and no other writer is between the two (rule 4).
    fn blocks_next_reader(&self, view: &RemoteView, other: &NodeName) -> bool {
        let near = |ours: &NodeName| view.writers_behind(other).next().is_none_or(|next| ours < next);
        other.kind() != Kind::Read
            && self.first_waiter(other).is_some_and(|ours| ours.kind() == Kind::Read && near(ours))
    }

    /// Returns our first node behind `other`, if its contender waits and a listing has shown the
    /// node.
    fn first_waiter(&self, other: &NodeName) -> Option<&NodeName> {
        self.line().behind(other).filter(|ours| self.line().ready().contains(*ours))
    }
}

/// The watches, and the nodes at which watches might have to be set or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WatchTable {
    set: SmallMap<NodeName, Watch>,
    by_ticket: SmallMap<Ticket, NodeName>,
    /// Nodes at which something has changed since the watches were last adjusted.
    changed: SmallSet<NodeName>,
    /// `true` if anything might have changed since the watches were last adjusted.
    all_changed: bool,
    /// `true` if the contenders of this directory wanted permits when the watches were last
    /// adjusted.
    permits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub(super) ticket: Ticket,
    /// `true` once the server has acknowledged the watch.
    pub(super) armed: bool,
}

impl WatchTable {
    pub(super) fn add(&mut self, name: NodeName, ticket: Ticket) {
        self.by_ticket.insert(ticket, name.clone());
        self.set.insert(name, Watch { ticket, armed: false });
    }

    pub(super) fn arm(&mut self, ticket: Ticket) {
        if let Some(watch) = self.by_ticket.get(&ticket).and_then(|name| self.set.get_mut(name)) {
            watch.armed = true;
        }
    }

    pub(super) fn remove(&mut self, name: &NodeName) -> Option<Watch> {
        let watch = self.set.remove(name)?;
        self.by_ticket.remove(&watch.ticket);
        self.changed.insert(name.clone());
        Some(watch)
    }

    pub(super) fn name(&self, ticket: Ticket) -> Option<&NodeName> {
        self.by_ticket.get(&ticket)
    }

    pub(super) fn remove_ticket(&mut self, ticket: Ticket) -> Option<NodeName> {
        let name = self.by_ticket.get(&ticket)?.clone();
        self.remove(&name);
        Some(name)
    }

    /// Forgets all watches at the end of the session.
    pub(super) fn clear(&mut self) {
        *self = Self { all_changed: true, ..Self::default() };
    }

    /// Notes that watches might have to change at any node.
    pub(super) fn mark_all_changed(&mut self) {
        self.changed.clear();
        self.all_changed = true;
    }

    /// Notes nodes to examine when the watches are next adjusted.
    pub(super) fn mark_changed(&mut self, names: impl IntoIterator<Item = NodeName>) {
        self.changed.extend(names);
    }

    /// Returns the nodes at which something has changed since the last call, or `None` if any node
    /// might have changed. `permits` is `true` if the contenders of this directory want permits.
    pub(super) fn take_changed(&mut self, permits: bool) -> Option<SmallSet<NodeName>> {
        let all = std::mem::take(&mut self.all_changed)
            | (std::mem::replace(&mut self.permits, permits) != permits);
        let changed = std::mem::take(&mut self.changed);
        (!all).then_some(changed)
    }
}

impl Deref for WatchTable {
    type Target = SmallMap<NodeName, Watch>;

    fn deref(&self) -> &Self::Target {
        &self.set
    }
}
