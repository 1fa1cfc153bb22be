//! Handles the start and the end of connections and sessions (rules 10 and 11).

use super::doubt::Doubt;
use super::entry::{Entry, EntryStage};
use super::{ListingMode, Probing, Queue};
use crate::queue::action::Action;

impl Queue {
    pub(super) fn connected(&mut self) {
        self.connected = true;
        self.retry_refused_deletes();
        // The queue's knowledge is from the old connection, so list the directory if any of our
        // nodes exists or might exist. The listing follows a sync, so that a lagging server does
        // not hide a node whose create was not acknowledged (rule 8).
        let look = |join: &Entry| !matches!(join.stage, EntryStage::Idle);
        if self.deferred {
            return;
        }
        if self.entries.values().any(look) || self.has_doubt() {
            self.request_listing(ListingMode::Synced);
        }
    }

    pub(super) fn disconnected(&mut self) {
        self.defer_listing();
        self.connected = false;
        self.view = None;
        self.watches.mark_all_changed();
        while let Some((_, id)) = self.first_ready() {
            self.entries.change(id, |join| {
                if let EntryStage::Queued(place) = &mut join.stage {
                    place.confirmed = false;
                }
            });
        }
    }

    /// Handles the end of the session. Holders lose the lock, waiters join again in the next
    /// session, and all other state is dropped.
    pub(super) fn session_lost(&mut self) {
        self.disconnected();
        (self.old_view, self.deferred, self.checked) = (None, false, None);
        self.term = false;
        self.namer = None;
        self.watches.clear();
        self.listing = None;
        if self.probe != Probing::Refused {
            self.probe = Probing::Idle;
        }
        self.child_watch = None;
        self.making_parents = None;
        self.doubt = Doubt::None;
        self.actions.extend(self.deletes.take_released().map(Action::Released));
        for (id, mut join) in self.entries.take_all() {
            join.uuid = None;
            join.reply_lost = false;
            join.intent = join.intent.without_place();
            if let EntryStage::Held(place) = &join.stage {
                let lost = if join.leaving { Action::Released } else { Action::NodeLost };
                self.actions.push_back(lost(place.name.clone()));
            } else if !join.leaving {
                // A contender that lists the directory before it creates a node must list it again,
                // because its last listing belongs to the old session (rules 14 and 21).
                let looks = join.intent.looks_first();
                join.stage = if looks { EntryStage::Looking(self.last_ticket) } else { EntryStage::Idle };
                self.entries.insert(id, join);
            }
        }
    }
}
