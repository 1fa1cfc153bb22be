//! Watches: which are needed, and what they tell (rules 6, 9 and 12).

use std::collections::BTreeSet;

use super::super::action::Action;
use super::super::event::{JoinId, Outcome, Ticket};
use super::super::name::{Kind, NodeName};
use super::super::view::View;
use super::join::{Join, Stage};
use super::state::{Look, Queue, Watch};

impl Queue {
    pub(super) fn watched(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        match outcome {
            Outcome::Done(()) => {
                if let Some(watch) = self.watches.values_mut().find(|watch| watch.ticket == ticket) {
                    watch.armed = true;
                }
            }
            Outcome::NoNode => self.watched_node_gone(ticket),
            Outcome::Lost => drop(self.watch_used(ticket)),
            Outcome::Refused(refusal) => {
                drop(self.watch_used(ticket));
                self.refuse_all(refusal);
            }
        }
    }

    /// Forgets a watch that fired or was never set. Returns the name of its node.
    pub(super) fn watch_used(&mut self, ticket: Ticket) -> Option<NodeName> {
        let name = self.watches.iter().find(|(_, watch)| watch.ticket == ticket)?.0.clone();
        self.watches.remove(&name);
        Some(name)
    }

    pub(super) fn watched_node_gone(&mut self, ticket: Ticket) {
        let Some(name) = self.watch_used(ticket) else { return };
        if let Some(id) = self.line.get(&name).copied() {
            self.own_node_gone(id, &name);
        } else if let Some(view) = &mut self.view
            && view.subtract(&name)
            && self.line.keys().any(|ours| ours.kind() != Kind::Read)
        {
            self.want(Look::Plain);
        }
    }

    /// The heartbeat is a transaction. The leader answers it from what is committed, so a lagging server has no
    /// influence.
    pub(super) fn missing(&mut self, name: &NodeName) {
        if let Some(id) = self.line.get(name).copied() {
            if let Some(watch) = self.watches.get(name) {
                self.actions.push_back(Action::Unwatch(watch.ticket));
            }
            self.own_node_gone(id, name);
        }
    }

    /// Another client deleted our node.
    pub(super) fn own_node_gone(&mut self, id: JoinId, name: &NodeName) {
        self.line.remove(name);
        self.watches.remove(name);
        let Some(join) = self.joins.get_mut(id) else {
            return;
        };
        if join.is_held() {
            let lost = if join.leaving { Action::Released } else { Action::NodeLost };
            self.joins.remove(id);
            self.actions.push_back(lost(name.clone()));
            self.displace_readers(name);
        } else {
            join.stage = Stage::Idle;
            join.uuid = None;
        }
    }

    /// A holder has held for long enough to watch its own node (rule 12).
    pub(super) fn watch_hold(&mut self, name: &NodeName) {
        let join = self.holder(name).and_then(|id| self.joins.get_mut(id));
        if let Some(Join { stage: Stage::Held(place), .. }) = join {
            place.confirmed = true;
        }
    }

    /// Sets the watches that are needed and drops those that are not.
    pub(super) fn adjust_watches(&mut self) {
        let mut needed = self.needed_watches();
        // Our own nodes' watches stay: they go with the node, and dropping one would be a request.
        let (line, doomed, actions) = (&self.line, &self.doomed, &mut self.actions);
        self.watches.retain(|name, watch| {
            let keep = needed.contains(name) || line.contains_key(name) || doomed.contains_key(name);
            if !keep {
                actions.push_back(Action::Unwatch(watch.ticket));
            }
            keep
        });
        needed.retain(|name| !self.watches.contains_key(name));
        // What is behind a node that is gone may be gone too: look again rather than watch what may not exist (rule 6).
        let stale = self.view.as_ref().is_some_and(View::stale);
        if stale && needed.iter().any(|name| !self.line.contains_key(name)) {
            self.want(Look::Plain);
            needed.retain(|name| self.line.contains_key(name));
        }
        for name in needed {
            let ticket = self.ticket();
            self.watches.insert(name.clone(), Watch { ticket, armed: false });
            self.actions.push_back(Action::Watch(ticket, name));
        }
    }

    /// The nodes to watch: what our waiters wait for, and our own nodes where it matters that they exist.
    fn needed_watches(&self) -> BTreeSet<NodeName> {
        let held = self.joins.active().filter_map(|(_, join)| match &join.stage {
            Stage::Held(place) if place.confirmed => Some(place.name.clone()),
            _ => None,
        });
        let mut needed: BTreeSet<_> = held.collect();
        // Those that wait for permits watch the children.
        let Some(view) = self.view.as_ref().filter(|_| self.permits().is_none()) else { return needed };
        self.need_lookahead(view, &mut needed);
        self.need_writers(view, &mut needed);
        needed
    }

    /// For each of ours that stands right behind another client's node: that node, our own, and the node before it if
    /// that is another client's too (rule 6).
    fn need_lookahead(&self, view: &View, needed: &mut BTreeSet<NodeName>) {
        let mut next: Option<&NodeName> = None;
        for other in view.nodes().rev() {
            let ours = self.first_waiter(other, next).filter(|ours| ours.kind() != Kind::Read);
            next = Some(other);
            let Some(ours) = ours else { continue };
            needed.extend([ours.clone(), other.clone()]);
            let before_ours = self.line.range(..other).next_back().map(|(name, _)| name);
            let before = view.before(other);
            needed.extend(before.filter(|before| before_ours.is_none_or(|ours| ours < *before)).cloned());
        }
    }

    /// For the first reader behind each writer of another client: the writer, and the reader itself (rule 4).
    fn need_writers(&self, view: &View, needed: &mut BTreeSet<NodeName>) {
        let mut next: Option<&NodeName> = None;
        for writer in view.writers().rev() {
            let reader = self.first_waiter(writer, next).filter(|ours| ours.kind() == Kind::Read);
            next = Some(writer);
            needed.extend(reader.into_iter().flat_map(|reader| [reader.clone(), writer.clone()]));
        }
    }

    /// The first of ours behind `other` and before `next`, if it waits and its place is certain.
    fn first_waiter(&self, other: &NodeName, next: Option<&NodeName>) -> Option<&NodeName> {
        let (name, id) = self.line.range(other..).next()?;
        match &self.joins.get(id)?.stage {
            Stage::Queued(place) if place.confirmed && next.is_none_or(|next| name < next) => Some(name),
            _ => None,
        }
    }
}
