//! When the lock is granted, in queue order (rules 4, 6, 7 and 16).

use std::ops::Bound;

use super::super::action::Action;
use super::super::event::JoinId;
use super::super::name::{Kind, NodeName};
use super::join::{Join, Place, Stage, conflict};
use super::state::{Look, Queue};

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
        let mut last: Option<NodeName> = None;
        while let Some((name, id)) = self.next_in_line(last.as_ref()) {
            let first = last.replace(name.clone()).is_none();
            let kind = name.kind();
            // Not only holders before it: a contender whose place was found late may stand before a holder.
            let held = |join: &Join| join.is_held() && conflict(kind, join.kind);
            if self.joins.active().any(|(_, join)| held(join)) || (kind != Kind::Read && !first) {
                return;
            }
            let (Some(join), Some(view)) = (self.joins.get(&id), &mut self.view) else { return };
            match &join.stage {
                Stage::Queued(place) if place.confirmed => {}
                // It holds together with those behind it, or its place is not yet certain; it does not block readers.
                _ if kind == Kind::Read => continue,
                _ => return,
            }
            if view.blocks(&name, kind) {
                return;
            }
            // Known from events, not from a listing: then our own node must be known to exist still, because a
            // contender behind us may have been told the same (rule 6).
            if view.stale_before(&name) {
                match self.watches.get(&name) {
                    Some(watch) if watch.armed => view.confirm(&name),
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

    /// Makes a queued contender a holder. A reader in a writer's place takes the writer's token.
    pub(super) fn hold(&mut self, id: JoinId, writers_czxid: Option<i64>) {
        let Some(join) = self.joins.get_mut(id) else { return };
        let Stage::Queued(place) = &join.stage else { return };
        let czxid = writers_czxid.unwrap_or(place.czxid);
        let place = Place { confirmed: false, czxid, ..place.clone() };
        self.actions.push_back(Action::Grant(id, place.name.clone(), czxid));
        join.stage = Stage::Held(place);
    }
}
