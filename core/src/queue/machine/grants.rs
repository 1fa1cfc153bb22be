//! When the lock is granted, in queue order (rules 4, 6, 7 and 16).

use super::super::action::Action;
use super::super::event::JoinId;
use super::super::name::NodeName;
use super::join::{Place, Stage};
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
        // Only those whose place is certain: the others do not block readers, and `Line::blocks` knows of all.
        while let Some((name, id)) = self.first_ready() {
            let kind = name.kind();
            // Not only holders before it: a contender whose place was found late may stand before a holder.
            if self.joins.hold_against(kind) || self.line().blocks(&name, kind) {
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
                    None => return self.want(Look::Plain),
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
        let Some(join) = self.joins.get(&id) else { return };
        let Stage::Queued(place) = &join.stage else { return };
        let czxid = join.token(place);
        let place = Place { confirmed: false, czxid, ..place.clone() };
        self.actions.push_back(Action::Grant(id, place.name.clone(), czxid));
        self.joins.set_stage(id, Stage::Held(place));
    }
}
