//! Who stands in the way of a contender, for the error that says so.

use super::super::event::{JoinId, Ticket};
use super::super::name::{Kind, NodeName};
use super::join::{Place, Stage};
use super::state::Queue;

/// How many of the nearest are told of.
const NEAREST: usize = 2;

/// How many of ours are looked at for those that have permits.
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
}

impl Queue {
    /// Those that stand in the way of a contender and of which more is known than a name, in the order of the queue:
    /// the first of all and the two nearest; of permits, which have no order, a few of ours.
    #[must_use]
    pub fn in_the_way(&self, join: JoinId) -> Vec<Standing> {
        let Some(waiter) = self.joins.get(&join) else { return Vec::new() };
        let Stage::Queued(Place { name, .. }) = &waiter.stage else { return Vec::new() };
        let view = self.last_view();
        let mut names: Vec<&NodeName> = Vec::new();
        match waiter.kind {
            Kind::Permit(_) => names.extend(self.places(PERMITS)),
            Kind::Read => {
                let mut others = view.into_iter().flat_map(|view| view.writers_before(name));
                let mut ours = self.line().writers().range(..name);
                names.extend(others.next().into_iter().chain(others.rev().take(NEAREST)));
                names.extend(ours.next().into_iter().chain(ours.rev().take(NEAREST)));
            }
            Kind::Exclusive | Kind::Write | Kind::Lead => {
                let mut others = view.into_iter().flat_map(|view| view.all_before(name));
                let mut ours = self.line().range(..name).map(|(ours, _)| ours);
                names.extend(others.next().into_iter().chain(others.rev().take(NEAREST)));
                names.extend(ours.next().into_iter().chain(ours.rev().take(NEAREST)));
            }
        }
        names.sort_unstable();
        names.dedup();
        let far = names.len().saturating_sub(NEAREST);
        let mut standing: Vec<_> = names.iter().filter_map(|name| self.standing(name)).collect();
        if matches!(waiter.kind, Kind::Permit(_)) {
            standing.retain(|other| other.holds);
            standing.truncate(NEAREST + 1);
        } else {
            // What lies between the first and the nearest is not in anyone's way now.
            let near = names.get(far.max(1)..).unwrap_or_default();
            standing.retain(|other| other.position == 0 || other.holds || near.contains(&&other.name));
        }
        standing
    }

    fn standing(&self, name: &NodeName) -> Option<Standing> {
        let rank = |name| self.last_view().map_or(0, |view| view.rank(name));
        let position = rank(name) + self.line().rank(name);
        let ours = self.line().get(name).copied();
        let (holds, known) = match ours.map(|id| (id, self.joins.get(&id).map(|join| &join.stage))) {
            Some((id, Some(Stage::Held(place)))) => (true, Known::Ours(id, place.czxid)),
            Some((id, Some(Stage::Queued(place)))) => (false, Known::Ours(id, place.czxid)),
            Some(_) => return None,
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
