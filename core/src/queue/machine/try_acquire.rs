//! Contenders that look first: those that only try, and do not wait, and those that wait behind a limited number of
//! others (rules 14 and 21).

use super::Queue;
use super::entry::{Entry, EntryStage, QueuePlace};
use crate::queue::event::{Intent, JoinId, Refusal, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;

impl Queue {
    /// Tells contenders that only look, by a listing sent with `ticket`, whether the lock is free for them.
    pub(super) fn answer_lookers(&mut self, ticket: Ticket) {
        let looking = |join: &Entry| matches!(join.stage, EntryStage::Looking(asked) if asked < ticket);
        let lookers: Vec<_> = self
            .entries
            .looking()
            .filter(|(_, join)| looking(join))
            .map(|(id, join)| (id, join.kind, join.intent.clone()))
            .collect();
        for (id, kind, intent) in lookers {
            // One of ours that asked before is in its way, too, now that the server has answered.
            let is_taken = self.is_taken(kind) || self.entries.contend_against(kind);
            match intent {
                Intent::WaitIfFewer(limit) => self.answer_limited(id, limit, is_taken),
                intent if is_taken && intent.only_tries() => self.refuse(id, Refusal::Busy),
                _ => self.entries.set_stage(id, EntryStage::Idle),
            }
        }
    }

    /// Lets a contender queue behind fewer than `limit` waiters. From then on it is a waiter like any other.
    fn answer_limited(&mut self, id: JoinId, limit: u32, is_taken: bool) {
        let waiting = if is_taken { self.waiting() } else { 0 };
        if is_taken && waiting >= limit as usize {
            return self.refuse(id, Refusal::Full(waiting));
        }
        self.entries.change(id, |join| {
            join.intent = Intent::Wait;
            join.stage = EntryStage::Idle;
        });
    }

    /// How many contenders wait for the lock, as far as the last listing and our own contenders tell: all but the first,
    /// and the readers that hold with it.
    fn waiting(&self) -> usize {
        let minted =
            |name: &NodeName| self.namer.as_ref().is_some_and(|namer| namer.minted(name.as_str()).is_some());
        // A node of ours whose create is under way is in the view, too: it counts with its contender.
        let others = self.view.iter().flat_map(RemoteView::all).filter(|name| !minted(name));
        let mut names: Vec<_> = others.chain(self.line().keys()).collect();
        names.sort_unstable();
        // A contender without a node stands behind all that have one.
        let stands_last = |join: &&Entry| {
            join.node().is_none() && !join.leaving && !matches!(join.stage, EntryStage::Looking(_))
        };
        let without_node: Vec<_> = self.entries.values().filter(stands_last).map(|join| join.kind).collect();
        let reads = |kind: Kind| kind == Kind::Read;
        let contenders = names.len() + without_node.len();
        let holders = match names.first() {
            // A reader in the place of its owner's writer holds with it.
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

    /// Whether a newcomer would have to wait.
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

    /// Whether a node of ours would block a newcomer of this kind, which is not one of permits.
    fn is_taken_by_ours(&self, kind: Kind) -> bool {
        if kind == Kind::Read { !self.line().writers().is_empty() } else { !self.line().is_empty() }
    }

    /// Whether it is certain without a request that a newcomer would have to wait: a contender of this client has a node
    /// in the way, and while the term runs the session exists, and its nodes with it. A contender of ours that has no
    /// node yet proves nothing: the server may never see it.
    pub(super) fn is_known_to_be_taken(&self, kind: Kind) -> bool {
        self.term && self.entries.contend_against(kind) && self.is_taken_by_ours(kind)
    }

    /// A contender that only tries does not wait behind one that came in between.
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

    /// Whether a reader stands in the place of a writer that its owner holds: what it waits for is a term, not another
    /// contender.
    fn has_place(&self, join: &Entry) -> bool {
        matches!(&join.intent, Intent::Downgrade { writer, .. } if self.holder(writer).is_some())
    }

    /// Whether a contender that waits in the queue was seen to have to: a listing that shows its node shows another one
    /// in the way, or its own node came to stand behind one of ours.
    #[must_use]
    pub fn is_held_up(&self, join: JoinId) -> bool {
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
