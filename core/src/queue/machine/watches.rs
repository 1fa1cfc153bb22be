//! Watches: which are needed, and what they tell (rules 6, 9 and 12).

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
            // Nobody waits for the node of a hold, and the heartbeat checks it. As its entry stays, it is not asked for
            // again.
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
            self.want(ListingMode::Plain);
        }
    }

    /// The heartbeat is a transaction. The leader answers it from what is committed, so a lagging server has no
    /// influence.
    pub(super) fn missing(&mut self, name: &NodeName) {
        if let Some(id) = self.line().get(name).copied() {
            if let Some(watch) = self.watches.remove(name) {
                self.actions.push_back(Action::Unwatch(watch.ticket));
            }
            self.own_node_gone(id, name);
        }
    }

    /// A node of ours is gone, and its watch with it. One that was not acknowledged may still wait to be set.
    pub(super) fn watch_went(&mut self, name: &NodeName) {
        if let Some(watch) = self.watches.remove(name).filter(|watch| !watch.armed) {
            self.actions.push_back(Action::Unwatch(watch.ticket));
        }
    }

    /// Another client deleted our node.
    pub(super) fn own_node_gone(&mut self, id: JoinId, name: &NodeName) {
        self.watch_went(name);
        let Some(join) = self.entries.get(&id) else { return };
        if join.is_held() {
            let lost = if join.leaving { Action::Released } else { Action::NodeLost };
            self.entries.remove(id);
            self.actions.push_back(lost(name.clone()));
            self.displace_readers(name);
        } else {
            self.start_again(id);
        }
    }

    /// A holder has held for long enough to watch its own node (rule 12).
    pub(super) fn watch_hold(&mut self, name: &NodeName) {
        let Some(id) = self.holder(name) else { return };
        self.entries.change(id, |join| {
            if let EntryStage::Held(place) = &mut join.stage {
                place.confirmed = true;
            }
        });
    }

    /// Sets the watches that are needed and drops those that are not.
    ///
    /// Whether a node needs one follows from its neighbours, ours and others', so only the neighbourhood of what
    /// changed is looked at.
    pub(super) fn adjust_watches(&mut self) {
        // They are set again by the client crate, and what they tell ends this.
        if self.deferred {
            return;
        }
        let mut needed = Vec::new();
        for name in self.where_watches_may_change() {
            match (self.watches.get(&name), self.needs_watch(&name)) {
                // Our own nodes' watches stay: they go with the node, and dropping one would be a request.
                (Some(_), false) if !self.line().contains_key(&name) && !self.doomed.contains_key(&name) => {
                    if let Some(watch) = self.watches.remove(&name) {
                        self.actions.push_back(Action::Unwatch(watch.ticket));
                    }
                }
                (None, true) => needed.push(name),
                _ => {}
            }
        }
        // What is behind a node that is gone may be gone too: ask rather than watch what may not exist (rule 6).
        if self.view.as_ref().is_some_and(RemoteView::stale) {
            self.ask_before_watching(&mut needed);
        }
        for name in needed {
            let ticket = self.ticket();
            self.watches.add(name.clone(), ticket);
            self.actions.push_back(Action::Watch(ticket, name));
        }
    }

    /// The nodes at which a watch may have to be set or dropped.
    fn where_watches_may_change(&mut self) -> SmallSet<NodeName> {
        let moved = self.entries.take_moved();
        let Some(mut changed) = self.watches.take_changed(self.entries.of_permits()) else {
            let line = self.line();
            let seeds = self.watches.keys().chain(line.ready().iter()).chain(line.long_held().iter());
            return seeds.flat_map(|seed| self.neighbourhood(seed)).cloned().collect();
        };
        changed.extend(moved);
        changed.iter().flat_map(|seed| self.neighbourhood(seed)).cloned().collect()
    }

    /// Where a change at a node changes what is to be watched: there, at ours behind it, whose nearest before them may
    /// be different now, and at those of others before it, behind which another may stand now.
    fn neighbourhood<'a>(&'a self, name: &'a NodeName) -> impl Iterator<Item = &'a NodeName> {
        let view = self.view.as_ref();
        let others = view.into_iter().flat_map(|view| view.all_before(name).rev().take(2));
        let writer = view.and_then(|view| view.writers_before(name).next_back());
        [name].into_iter().chain(self.line().behind(name)).chain(others).chain(writer)
    }

    /// Whether a node needs a watch: one for which our waiters wait, or one of ours where it matters that it exists.
    fn needs_watch(&self, name: &NodeName) -> bool {
        if self.line().long_held().contains(name) {
            return true;
        }
        // Those that wait for permits watch the children.
        let Some(view) = self.view.as_ref().filter(|_| !self.entries.of_permits()) else { return false };
        if self.line().contains_key(name) {
            self.watches_itself(view, name)
        } else {
            view.contains(name) && (self.is_looked_at(view, name) || self.holds_up_a_reader(view, name))
        }
    }

    /// Whether this is one of ours that waits and stands right behind another client's node (rule 6); for a reader, a
    /// writer is what counts (rule 4).
    fn watches_itself(&self, view: &RemoteView, ours: &NodeName) -> bool {
        let nearest = match ours.kind() {
            Kind::Read => view.writers_before(ours).next_back(),
            _ => view.before(ours),
        };
        // None of ours is in between.
        let first = |nearest| self.line().behind(nearest) == Some(ours);
        self.line().ready().contains(ours) && nearest.is_some_and(first)
    }

    /// Whether one of ours that is to hold alone waits right behind this node, or with one other node in between that
    /// is another client's too (rule 6).
    fn is_looked_at(&self, view: &RemoteView, other: &NodeName) -> bool {
        self.first_waiter(other).is_some_and(|ours| {
            ours.kind() != Kind::Read && view.all_behind(other).nth(1).is_none_or(|next| ours < next)
        })
    }

    /// Whether this is a writer, and the first of ours behind it is a reader with no writer in between (rule 4).
    fn holds_up_a_reader(&self, view: &RemoteView, other: &NodeName) -> bool {
        let near = |ours: &NodeName| view.writers_behind(other).next().is_none_or(|next| ours < next);
        other.kind() != Kind::Read
            && self.first_waiter(other).is_some_and(|ours| ours.kind() == Kind::Read && near(ours))
    }

    /// The first of ours behind a node, if it waits and its place is certain.
    fn first_waiter(&self, other: &NodeName) -> Option<&NodeName> {
        self.line().behind(other).filter(|ours| self.line().ready().contains(*ours))
    }
}

/// The watches, and where they may have to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WatchTable {
    set: SmallMap<NodeName, Watch>,
    by_ticket: SmallMap<Ticket, NodeName>,
    /// Nodes at which something changed since the watches were last adjusted.
    changed: SmallSet<NodeName>,
    /// Whether everything may have changed since.
    all_changed: bool,
    /// Whether they were last adjusted to a directory of permits.
    permits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub(super) ticket: Ticket,
    /// Acknowledged by the server.
    pub(super) armed: bool,
}

impl WatchTable {
    pub(super) fn add(&mut self, name: NodeName, ticket: Ticket) {
        self.by_ticket.insert(ticket, name.clone());
        self.set.insert(name, Watch { ticket, armed: false });
    }

    /// The watch with this ticket is acknowledged.
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

    /// The node of the watch with this ticket.
    pub(super) fn name(&self, ticket: Ticket) -> Option<&NodeName> {
        self.by_ticket.get(&ticket)
    }

    /// Forgets the watch with this ticket. Returns the name of its node.
    pub(super) fn remove_ticket(&mut self, ticket: Ticket) -> Option<NodeName> {
        let name = self.by_ticket.get(&ticket)?.clone();
        self.remove(&name);
        Some(name)
    }

    /// The session is over, and all watches with it.
    pub(super) fn clear(&mut self) {
        *self = Self { all_changed: true, ..Self::default() };
    }

    /// Everything may have changed.
    pub(super) fn look_at_all(&mut self) {
        self.changed.clear();
        self.all_changed = true;
    }

    /// Something is to be looked at again when the watches are next adjusted.
    pub(super) fn look_at(&mut self, names: impl IntoIterator<Item = NodeName>) {
        self.changed.extend(names);
    }

    /// Where something changed since the last call; `None` if that may be anywhere. `permits`: whether this is a
    /// directory of permits.
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
