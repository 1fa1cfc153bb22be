//! Contenders that only try: they look first, and do not wait (rules 14 and 21).

use super::Queue;
use super::entry::{Entry, EntryStage, QueuePlace};
use crate::queue::event::{Intent, JoinId, Refusal, Ticket};
use crate::queue::node_name::Kind;
use crate::queue::remote_view::RemoteView;

impl Queue {
    /// Tells contenders that only look, by a listing sent with `ticket`, whether the lock is free for them.
    pub(super) fn answer_lookers(&mut self, ticket: Ticket) {
        let looking = |join: &Entry| matches!(join.stage, EntryStage::Looking(asked) if asked < ticket);
        let lookers: Vec<_> = self
            .entries
            .looking()
            .filter(|(_, join)| looking(join))
            .map(|(id, join)| (id, join.kind))
            .collect();
        for (id, kind) in lookers {
            // One of ours that asked before is in its way, too, now that the server has answered.
            if self.is_taken(kind) || self.entries.contend_against(kind) {
                self.refuse(id, Refusal::Busy);
            } else {
                self.entries.set_stage(id, EntryStage::Idle);
            }
        }
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
