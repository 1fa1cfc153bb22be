//! What follows from what is known: who is granted the lock, what is to be watched and sent.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::super::mutants::{Mutant, planted};
use super::super::view::View;
use super::super::{Action, Intent, JoinId, Kind, NodeName};
use super::{Join, Look, Place, Queue, Stage, Watch, conflict};

impl Queue {
    /// Grants to those of our line that nobody is before.
    ///
    /// Why this is safe: sequence numbers only grow, so nobody can come before a node that exists, and a listing
    /// that shows ours shows everybody before it. What stood there is gone when the view says so: it was
    /// taken from that listing, and only what the server said to be gone was taken out since.
    ///
    /// Not without a term: what was true when the server said it may be true no longer, for without a term the session,
    /// and our node with it, may be gone (rule 16). A heartbeat tells.
    pub(super) fn grant(&mut self) {
        if !self.term && !planted(Mutant::GrantWithoutTerm) {
            return;
        }
        self.grant_downgrades();
        if self.grant_permits() {
            return;
        }
        let mut last: Option<NodeName> = None;
        while let Some((name, id)) = self.next_in_line(last.as_ref()) {
            let first = last.replace(name.clone()).is_none();
            let kind = name.kind();
            // Not only those before it: a contender whose place was found late may stand before a holder.
            let held = |join: &Join| matches!(join.stage, Stage::Held(_)) && conflict(kind, join.kind);
            if self.joins.active().any(|(_, join)| held(join)) || (kind != Kind::Read && !first) {
                return;
            }
            let (Some(join), Some(view)) = (self.joins.get(&id), &mut self.view) else { return };
            match &join.stage {
                Stage::Queued(place) if place.confirmed => {}
                // Holds together with those behind it, or its place is not certain yet; it is not in the readers' way.
                _ if kind == Kind::Read => continue,
                _ => return,
            }
            if view.blocks(&name, kind) {
                return;
            }
            // Told by events, not by a listing: then our own node must be known to exist still, or somebody behind us
            // may have been told the same (rule 6).
            if view.stale_before(&name) {
                match self.watches.get(&name) {
                    Some(watch) if watch.armed => view.confirm(&name),
                    _ if planted(Mutant::NoOwnNodeWatch) => view.confirm(&name),
                    Some(_) => return,
                    None => return self.want(Look::Plain),
                }
            }
            self.hold(id, None);
        }
    }

    fn next_in_line(&self, last: Option<&NodeName>) -> Option<(NodeName, JoinId)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let (name, id) = self.line.range::<NodeName, _>((from, Bound::Unbounded)).next()?;
        Some((name.clone(), *id))
    }

    /// A reader in the place of a writer that its owner holds needs nothing but its node. It keeps the writer's token.
    fn grant_downgrades(&mut self) {
        let placed = |join: &Join| match (&join.stage, join.intent) {
            (Stage::Queued(_), Intent::Downgrade(writer)) => match &self.joins.get(&writer)?.stage {
                Stage::Held(place) => Some(place.czxid),
                _ => None,
            },
            _ => None,
        };
        let due: Vec<_> =
            self.joins.active().filter_map(|(id, join)| placed(join).map(|czxid| (id, czxid))).collect();
        for (id, czxid) in due {
            self.hold(id, Some(czxid));
        }
    }

    /// Makes a queued contender a holder.
    pub(super) fn hold(&mut self, id: JoinId, writers_czxid: Option<i64>) {
        let Some(join) = self.joins.get_mut(id) else { return };
        let Stage::Queued(place) = &join.stage else { return };
        let mut czxid = writers_czxid.unwrap_or(place.czxid);
        if planted(Mutant::TokenFromSequence) {
            czxid = place.name.sequence().cast_signed();
        }
        let place = Place { confirmed: false, czxid, ..place.clone() };
        self.actions.push_back(Action::Grant(id, place.name.clone(), czxid));
        join.stage = Stage::Held(place);
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

    /// The nodes to watch: what our waiters wait for, and our own nodes where it matters that they exist.
    fn needed_watches(&self) -> BTreeSet<NodeName> {
        let held = self.joins.active().filter_map(|(_, join)| match &join.stage {
            Stage::Held(place) if place.confirmed => Some(place.name.clone()),
            _ => None,
        });
        let mut needed: BTreeSet<_> = held.collect();
        // Those that wait for permits watch the children.
        let Some(view) = self.view.as_ref().filter(|_| self.permits().is_none()) else { return needed };
        // For each of ours whose predecessor is somebody else's: that one, and the one before it if that is somebody
        // else's too (rule 6).
        let mut next: Option<&NodeName> = None;
        for other in view.nodes().rev() {
            let ours = self.first_waiter(other, next).filter(|ours| ours.kind() != Kind::Read);
            next = Some(other);
            let Some(ours) = ours else { continue };
            if !planted(Mutant::NoOwnNodeWatch) {
                needed.insert(ours.clone());
            }
            let wrong = planted(Mutant::WrongPredecessor);
            needed.extend(Some(other).filter(|_| !wrong).cloned());
            let before_ours = self.line.range(..other).next_back().map(|(name, _)| name);
            let before = view.before(other);
            needed.extend(before.filter(|before| before_ours.is_none_or(|ours| ours < *before)).cloned());
        }
        // For the first reader behind each writer of somebody else's: the writer, the nearest one only (rule 4).
        let mut next: Option<&NodeName> = None;
        for writer in view.writers().rev() {
            let reader = self.first_waiter(writer, next).filter(|ours| ours.kind() == Kind::Read);
            next = Some(writer);
            needed.extend(reader.into_iter().flat_map(|reader| [reader.clone(), writer.clone()]));
        }
        needed
    }

    /// The first of ours behind `other` and before `next`, if it waits and its place is certain.
    fn first_waiter(&self, other: &NodeName, next: Option<&NodeName>) -> Option<&NodeName> {
        let (name, id) = self.line.range(other..).next()?;
        match &self.joins.get(id)?.stage {
            Stage::Queued(place) if place.confirmed && next.is_none_or(|next| name < next) => Some(name),
            _ => None,
        }
    }

    /// Sends the requests that are due: creates, then deletes, then one listing that answers all creates before it.
    pub(super) fn send(&mut self) {
        if self.making_parents.is_none() {
            let idle: Vec<_> = self.idle().collect();
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
            let sync = look == Look::Synced && !planted(Mutant::MissingSync);
            self.actions.push_back(if self.awaits_permits() && self.child_watch.is_none() {
                self.child_watch = Some(ticket);
                Action::ListAndWatch { ticket, sync }
            } else {
                Action::List { ticket, sync }
            });
        }
    }

    fn create(&mut self, id: JoinId) {
        let ticket = self.ticket();
        let writers_place = match self.joins.get(&id).map(|join| join.intent) {
            Some(Intent::Downgrade(writer)) if !planted(Mutant::Curator621) => self.held_place(writer),
            _ => None,
        };
        let (Some(join), Some(mint)) = (self.joins.get_mut(id), self.mint.as_mut()) else { return };
        let uuid = *join.uuid.get_or_insert_with(|| mint.mint());
        let prefix = join.naming.prefix(uuid, join.kind);
        join.stage = Stage::Creating(ticket);
        if let Some(sequence) = writers_place {
            self.actions.push_back(Action::CreateInPlace(ticket, id, format!("{prefix}{sequence:010}")));
            return;
        }
        // The writer went in the meantime: an ordinary reader.
        if join.intent != Intent::Try && !planted(Mutant::Curator621) {
            join.intent = Intent::Wait;
        }
        self.actions.push_back(Action::Create(ticket, id, prefix));
        self.want(Look::Plain);
    }

    /// The sequence number of a holder.
    pub(super) fn held_place(&self, holder: JoinId) -> Option<u64> {
        match &self.joins.get(&holder)?.stage {
            Stage::Held(place) => Some(place.name.sequence()),
            _ => None,
        }
    }
}
