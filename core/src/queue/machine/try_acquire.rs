//! Contenders that first list the directory and join only under a condition. These are contenders
//! that must not wait (*tries*), and contenders that wait only behind a limited number of others
//! (rules 14 and 21).

use super::Queue;
use super::entry::{Entry, EntryStage, QueuePlace};
use crate::queue::event::{Intent, JoinId, Refusal, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;

impl Queue {
    /// Handles the reply to the listing with this ticket. For each contender that waited for this
    /// listing, decides whether the lock is free.
    pub(super) fn decide_looking_contenders(&mut self, ticket: Ticket) {
        let looking = |join: &Entry| matches!(join.stage, EntryStage::Looking(asked) if asked < ticket);
        let lookers: Vec<_> = self
            .entries
            .looking()
            .filter(|(_, join)| looking(join))
            .map(|(id, join)| (id, join.kind, join.intent.clone()))
            .collect();
        for (id, kind, intent) in lookers {
            // An earlier contender of ours also blocks this one, even if the listing does not show
            // its node.
            let is_taken = self.is_taken(kind) || self.entries.has_conflicting_contender(kind);
            match intent {
                Intent::WaitIfFewer(limit) => self.decide_limited(id, limit, is_taken),
                intent if is_taken && intent.only_tries() => self.refuse(id, Refusal::Busy),
                _ => self.entries.set_stage(id, EntryStage::Idle),
            }
        }
    }

    /// Lets a contender join if fewer than `limit` contenders wait. Otherwise refuses it. After it
    /// has joined, it waits like any other contender.
    fn decide_limited(&mut self, id: JoinId, limit: u32, is_taken: bool) {
        let waiting = if is_taken { self.waiting() } else { 0 };
        if is_taken && waiting >= limit as usize {
            return self.refuse(id, Refusal::Full(waiting));
        }
        self.entries.change(id, |join| {
            join.intent = Intent::Wait;
            join.stage = EntryStage::Idle;
        });
    }

    /// Returns the number of contenders that wait for the lock, according to the last listing and
    /// our own contenders. These are all contenders except the first and the readers that hold the
    /// lock with it.
    fn waiting(&self) -> usize {
        let own_uuid = |name: &NodeName| {
            self.namer.as_ref().is_some_and(|namer| namer.own_uuid(name.as_str()).is_some())
        };
        // The view can contain a node of ours whose create is in progress. Omit it here, because
        // its contender is counted below.
        let others = self.view.iter().flat_map(RemoteView::all).filter(|name| !own_uuid(name));
        let mut names: Vec<_> = others.chain(self.line().keys()).collect();
        names.sort_unstable();
        // Contenders without a node count as if they were at the end of the queue.
        let stands_last = |join: &&Entry| {
            join.node().is_none() && !join.leaving && !matches!(join.stage, EntryStage::Looking(_))
        };
        let without_node: Vec<_> = self.entries.values().filter(stands_last).map(|join| join.kind).collect();
        let reads = |kind: Kind| kind == Kind::Read;
        let contenders = names.len() + without_node.len();
        let holders = match names.first() {
            // A reader that downgrades has the same position as the writer of its owner, and holds the
            // lock together with it.
            Some(first) if !reads(first.kind()) => {
                names.iter().take_while(|name| name.sequence() == first.sequence()).count()
            }
            _ => {
                let kinds = names.iter().map(|name| name.kind()).chain(without_node);
                kinds.take_while(|kind| reads(*kind)).count().max(1)
            }
        };
        contenders.saturating_sub(holders)
    }

    /// Returns `true` if a new contender of this kind would have to wait.
    fn is_taken(&self, kind: Kind) -> bool {
        match kind {
            Kind::Permit(permits) => {
                let others = self.view.as_ref().map_or(0, RemoteView::len);
                others + self.line().len() >= permits as usize
            }
            kind => {
                let by_others = self.view.as_ref().is_some_and(|view| view.blocks_newcomer(kind));
                by_others || self.is_taken_by_ours(kind)
            }
        }
    }

    /// Returns `true` if a node of ours would block a new contender of this kind. The kind must not
    /// be a permit.
    fn is_taken_by_ours(&self, kind: Kind) -> bool {
        if kind == Kind::Read { !self.line().writers().is_empty() } else { !self.line().is_empty() }
    }

    /// Returns `true` if the client knows without a request that a new contender would have to
    /// wait. This is the case if one of our contenders has a node that blocks the new contender,
    /// and the client is certain that the session and its nodes exist (`term`). A contender of ours
    /// without a node does not count, because its create might never reach the server.
    pub(super) fn is_known_to_be_taken(&self, kind: Kind) -> bool {
        self.term && self.entries.has_conflicting_contender(kind) && self.is_taken_by_ours(kind)
    }

    /// Refuses contenders that must not wait (tries), if their nodes are behind a contender that
    /// joined after the listing.
    pub(super) fn refuse_blocked_tries(&mut self) {
        let due: Vec<_> = self
            .entries
            .trying()
            .filter_map(|(id, join)| match &join.stage {
                EntryStage::Queued(place)
                    if place.confirmed && !self.has_place(join) && self.is_blocked(place, join.kind) =>
                {
                    Some(id)
                }
                _ => None,
            })
            .collect();
        for id in due {
            self.refuse(id, Refusal::Busy);
        }
    }

    /// Returns `true` if this reader takes the position of its owner's writer, and the writer holds
    /// the lock. No other contender blocks such a reader.
    fn has_place(&self, join: &Entry) -> bool {
        matches!(&join.intent, Intent::Downgrade { writer, .. } if self.holder(writer).is_some())
    }

    /// Returns `true` if a contender in the queue is known to be blocked. This is the case if a
    /// listing shows both its node and a blocker, or if a node of ours blocks it.
    #[must_use]
    pub fn is_known_to_be_blocked(&self, join: JoinId) -> bool {
        match self.entries.get(&join) {
            Some(Entry { kind, stage: EntryStage::Queued(place), .. }) => {
                let by_ours = self.line().blocks(&place.name, *kind);
                by_ours || place.confirmed && self.view.is_some() && self.is_blocked(place, *kind)
            }
            _ => false,
        }
    }

    fn is_blocked(&self, place: &QueuePlace, kind: Kind) -> bool {
        let by_others = self.view.as_ref().is_some_and(|view| view.blocks(&place.name, kind));
        by_others || self.line().blocks(&place.name, kind) || self.exhausted(kind)
    }
}
