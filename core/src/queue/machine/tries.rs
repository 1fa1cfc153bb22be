//! Contenders that only try: they look first, and do not wait (rules 14 and 21).

use super::super::event::{Intent, Refusal, Ticket};
use super::super::name::Kind;
use super::super::view::View;
use super::join::{Join, Place, Stage};
use super::state::Queue;

impl Queue {
    /// Tells contenders that only look, by a listing sent with `ticket`, whether the lock is free for them.
    pub(super) fn answer_lookers(&mut self, ticket: Ticket) {
        let looking = |join: &Join| matches!(join.stage, Stage::Looking(asked) if asked < ticket);
        let lookers: Vec<_> = self
            .joins
            .looking()
            .filter(|(_, join)| looking(join))
            .map(|(id, join)| (id, join.kind))
            .collect();
        for (id, kind) in lookers {
            if self.is_taken(kind) {
                self.refuse(id, Refusal::Busy);
            } else {
                self.joins.set_stage(id, Stage::Idle);
            }
        }
    }

    /// Whether a newcomer would have to wait.
    fn is_taken(&self, kind: Kind) -> bool {
        match kind {
            Kind::Permit(permits) => {
                let others = self.view.as_ref().map_or(0, View::len);
                others + self.line().len() >= permits as usize
            }
            kind => {
                let ours = if kind == Kind::Read {
                    !self.line().writers().is_empty()
                } else {
                    !self.line().is_empty()
                };
                ours || self.view.as_ref().is_some_and(|view| view.blocks_newcomer(kind))
            }
        }
    }

    /// A contender that only tries does not wait behind one that came in between.
    pub(super) fn refuse_blocked_tries(&mut self) {
        let due: Vec<_> = self
            .joins
            .trying()
            .filter_map(|(id, join)| match &join.stage {
                Stage::Queued(place)
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
    fn has_place(&self, join: &Join) -> bool {
        matches!(&join.intent, Intent::Downgrade { writer, .. } if self.holder(writer).is_some())
    }

    fn is_blocked(&self, place: &Place, kind: Kind) -> bool {
        let by_others = self.view.as_ref().is_some_and(|view| view.blocks(&place.name, kind));
        by_others || self.line().blocks(&place.name, kind) || self.exhausted(kind)
    }
}
