//! What follows from what is known: who is granted the lock, what is to be watched and sent.

use std::collections::BTreeSet;

use super::super::view::View;
use super::super::{Action, JoinId, NodeName};
use super::{Look, Place, Queue, Stage, Watch};

impl Queue {
    /// Grants to the first of our line, if nobody is before it.
    ///
    /// Why this is safe: sequence numbers only grow, so nobody can come before a node that exists, and a listing
    /// that shows ours shows everybody before it. What stood there is gone when the view says so: it was
    /// taken from that listing, and only what the server said to be gone was taken out since.
    pub(super) fn grant(&mut self) {
        let Some(view) = &mut self.view else { return };
        // Not only the first: a contender whose place was found late may stand before a holder.
        if self.joins.values().any(|join| matches!(join.stage, Stage::Held(_))) {
            return;
        }
        let Some((name, &id)) = self.line.first_key_value() else {
            return;
        };
        let Some(join) = self.joins.get_mut(&id) else {
            return;
        };
        let Stage::Queued(place) = &join.stage else { return };
        if !place.confirmed || view.blocks_exclusive(name) {
            return;
        }
        // Told by events, not by a listing: then our own node must be known to exist still, or somebody behind us may
        // have been told the same (rule 6).
        if view.stale_before(name) {
            match self.watches.get(name) {
                Some(watch) if watch.armed => view.confirm(),
                Some(_) => return,
                None => {
                    self.want(Look::Plain);
                    return;
                }
            }
        }
        let place = Place { confirmed: false, ..place.clone() };
        self.actions.push_back(Action::Grant(id, place.name.clone(), place.czxid));
        join.stage = Stage::Held(place);
    }

    /// Sets the watches that are needed and drops those that are not.
    ///
    /// Needed are: for each of ours whose predecessor is somebody else's, that node, the one before it if that is
    /// somebody else's too, and our own; and our own while we hold for long.
    pub(super) fn adjust_watches(&mut self) {
        let mut needed = BTreeSet::new();
        let mut next: Option<&NodeName> = None;
        for other in self.view.iter().flat_map(View::nodes).rev() {
            // The first of ours behind `other`, if no other stands between.
            let ours =
                self.line.range(other..).next().filter(|(name, _)| next.is_none_or(|next| *name < next));
            next = Some(other);
            let Some((name, id)) = ours else { continue };
            match &self.joins[id].stage {
                Stage::Queued(place) if place.confirmed => {}
                _ => continue,
            }
            needed.extend([name.clone(), other.clone()]);
            let before_ours = self.line.range(..other).next_back().map(|(name, _)| name);
            let before = self.view.as_ref().and_then(|view| view.before(other));
            needed.extend(before.filter(|before| before_ours.is_none_or(|ours| ours < *before)).cloned());
        }
        for join in self.joins.values() {
            match &join.stage {
                Stage::Held(place) if place.confirmed => drop(needed.insert(place.name.clone())),
                _ => {}
            }
        }
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
        // What is behind a node that went may be gone too: look again instead of watching what may not exist (rule 6).
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

    /// Sends the requests that are due: creates, then deletes, then one listing that answers all creates before it.
    pub(super) fn send(&mut self) {
        if self.making_parents.is_none() {
            let idle: Vec<_> = self.waiting().filter(|id| self.joins[id].stage == Stage::Idle).collect();
            for id in idle {
                self.create(id);
            }
        }
        let unsent: Vec<_> = self
            .doomed
            .iter()
            .filter(|(_, doomed)| doomed.ticket.is_none() && !doomed.refused)
            .map(|(name, _)| name.clone())
            .collect();
        for name in unsent {
            let ticket = self.ticket();
            self.doomed.entry(name.clone()).and_modify(|doomed| doomed.ticket = Some(ticket));
            self.actions.push_back(Action::Delete(ticket, name));
        }
        if self.listing.is_none()
            && let Some(look) = self.wanted.take()
        {
            let ticket = self.ticket();
            self.listing = Some((ticket, look));
            self.actions.push_back(Action::List { ticket, sync: look == Look::Synced });
        }
    }

    fn create(&mut self, id: JoinId) {
        let ticket = self.ticket();
        let (Some(join), Some(mint)) = (self.joins.get_mut(&id), self.mint.as_mut()) else {
            return;
        };
        let uuid = *join.uuid.get_or_insert_with(|| mint.mint());
        join.stage = Stage::Creating(ticket);
        self.actions.push_back(Action::Create(ticket, id, join.naming.prefix(uuid, join.kind)));
        self.want(Look::Plain);
    }
}
