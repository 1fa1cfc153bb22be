//! Who stands in the way of a contender, for the error that says so.

use std::ops::Bound;

use super::super::event::{JoinId, Ticket};
use super::super::name::{Kind, NodeName};
use super::super::view::View;
use super::join::{Place, Stage};
use super::state::Queue;

/// How many of the nearest are told of.
const NEAREST: usize = 2;

/// How many are told of that have permits.
const PERMITS: usize = 16;

/// One that stands in the way of a contender, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its node.
    pub name: NodeName,
    /// How many stand before it.
    pub position: usize,
    /// Whether it is known to hold.
    pub holds: bool,
    /// How more is known of it.
    pub known: Known,
}

/// How something is known of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is one of ours, with a node that this transaction created.
    Ours(JoinId, i64),
    /// It is another client's, and watched with this ticket.
    Watched(Ticket),
    /// It is another client's, in a directory of permits, where nodes are not watched.
    Listed,
}

impl Queue {
    /// Those that stand in the way of a contender and of which more is known than a name, in the order of the queue:
    /// the first of all and the two nearest; of permits, which have no order, some of those that have them.
    #[must_use]
    pub fn in_the_way(&self, join: JoinId) -> Vec<Standing> {
        let Some(waiter) = self.joins.get(&join) else { return Vec::new() };
        let Stage::Queued(Place { name, .. }) = &waiter.stage else { return Vec::new() };
        self.in_the_way_of(waiter.kind, Some(name))
    }

    /// The same for one that would join now.
    #[must_use]
    pub fn in_the_way_of_newcomer(&self, kind: Kind) -> Vec<Standing> {
        self.in_the_way_of(kind, None)
    }

    /// Of a contender at `name`, or behind all others.
    fn in_the_way_of(&self, kind: Kind, name: Option<&NodeName>) -> Vec<Standing> {
        let view = self.last_view();
        let end = name.map_or(Bound::Unbounded, Bound::Excluded);
        let before = (Bound::<&NodeName>::Unbounded, end);
        let mut names: Vec<&NodeName> = Vec::new();
        match kind {
            Kind::Permit(_) => {
                names.extend(view.into_iter().flat_map(View::all).take(PERMITS));
                names.extend(self.places(PERMITS));
            }
            Kind::Read => {
                let all = view.filter(|_| name.is_none()).into_iter().flat_map(View::all_writers);
                let some = view.zip(name).into_iter().flat_map(|(view, name)| view.writers_before(name));
                let mut others = all.chain(some);
                let mut ours = self.line().writers().range(before);
                names.extend(others.next().into_iter().chain(others.rev().take(NEAREST)));
                names.extend(ours.next().into_iter().chain(ours.rev().take(NEAREST)));
            }
            Kind::Exclusive | Kind::Write | Kind::Lead => {
                let all = view.filter(|_| name.is_none()).into_iter().flat_map(View::all);
                let some = view.zip(name).into_iter().flat_map(|(view, name)| view.all_before(name));
                let mut others = all.chain(some);
                let mut ours = self.line().range(before).map(|(ours, _)| ours);
                names.extend(others.next().into_iter().chain(others.rev().take(NEAREST)));
                names.extend(ours.next().into_iter().chain(ours.rev().take(NEAREST)));
            }
        }
        names.sort_unstable();
        names.dedup();
        let far = names.len().saturating_sub(NEAREST);
        let permits = matches!(kind, Kind::Permit(_));
        let mut standing: Vec<_> = names.iter().filter_map(|name| self.standing(name, permits)).collect();
        if permits {
            standing.retain(|other| other.holds);
            standing.truncate(PERMITS);
        } else {
            // What lies between the first and the nearest is not in anyone's way now.
            let near = names.get(far.max(1)..).unwrap_or_default();
            standing.retain(|other| other.position == 0 || other.holds || near.contains(&&other.name));
        }
        standing
    }

    fn standing(&self, name: &NodeName, permits: bool) -> Option<Standing> {
        let rank = |name| self.last_view().map_or(0, |view| view.rank(name));
        let position = rank(name) + self.line().rank(name);
        let ours = self.line().get(name).copied();
        let (holds, known) = match ours.map(|id| (id, self.joins.get(&id).map(|join| &join.stage))) {
            Some((id, Some(Stage::Held(place)))) => (true, Known::Ours(id, place.czxid)),
            Some((id, Some(Stage::Queued(place)))) => (false, Known::Ours(id, place.czxid)),
            Some(_) => return None,
            // Nodes of others hold: only the client whose turn it is waits here (rule 17).
            None if permits => (true, Known::Listed),
            None => {
                (self.is_first_of_its_kind(name, position), Known::Watched(self.watches.get(name)?.ticket))
            }
        };
        Some(Standing { name: name.clone(), position, holds, known })
    }

    /// Whether another client's contender holds, going by those before it.
    fn is_first_of_its_kind(&self, name: &NodeName, position: usize) -> bool {
        let writers = || {
            let others = self.last_view().is_some_and(|view| view.writers_before(name).next().is_some());
            others || self.line().writers().range(..name).next().is_some()
        };
        position == 0 || name.kind() == Kind::Read && !writers()
    }
}
