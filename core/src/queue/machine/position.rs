//! Answers the driver's questions about the positions of our contenders.

use std::ops::Bound;

use super::entry::{Entry, EntryStage, QueuePlace};
use super::listing::MIN_SEEN_AHEAD;
use super::{Probing, Queue};
use crate::queue::event::{JoinId, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;

impl Queue {
    /// Returns the number of contenders known to be before this one.
    #[must_use]
    pub fn ahead_of(&self, join: JoinId) -> Option<usize> {
        match &self.entries.get(&join)?.stage {
            EntryStage::Queued(QueuePlace { name, .. }) => {
                let others = self.last_view().map_or(0, |view| view.rank(name));
                Some(others + self.line().rank(name))
            }
            _ => None,
        }
    }

    /// Returns the node of a contender that waits in the queue.
    #[must_use]
    pub fn node_of(&self, join: JoinId) -> Option<&NodeName> {
        match &self.entries.get(&join)?.stage {
            EntryStage::Queued(QueuePlace { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// Returns the node that a waiter waits for: the nearest known node ahead of it that conflicts
    /// with it. Returns `None` for a permit, because permits do not depend on the queue order.
    #[must_use]
    pub fn waits_for(&self, join: JoinId) -> Option<&NodeName> {
        let (name, view) = (self.node_of(join)?, self.last_view().into_iter());
        match self.entries.get(&join)?.kind {
            Kind::Permit(_) => None,
            Kind::Read => {
                let others = view.flat_map(|view| view.writers_before(name)).next_back();
                others.max(self.line().writers().range(..name).next_back())
            }
            Kind::Exclusive | Kind::Write | Kind::Lead => {
                let others = view.flat_map(|view| view.all_before(name)).next_back();
                others.max(self.line().range(..name).map(|(ours, _)| ours).next_back())
            }
        }
    }

    fn has_at_most_before(&self, limit: usize, name: &NodeName, kind: Kind) -> bool {
        let view = self.last_view();
        match kind {
            Kind::Permit(_) => true,
            Kind::Read => {
                let others = view.into_iter().flat_map(|view| view.writers_before(name));
                others.chain(self.line().writers().range(..name)).nth(limit).is_none()
            }
            Kind::Exclusive | Kind::Write | Kind::Lead => {
                let others = view.into_iter().flat_map(|view| view.all_before(name));
                others.chain(self.line().range(..name).map(|(ours, _)| ours)).nth(limit).is_none()
            }
        }
    }

    /// Returns `true` if a node belongs to one of our contenders or holders.
    #[must_use]
    pub fn is_ours(&self, node: &NodeName) -> bool {
        self.line().contains_key(node)
    }

    /// Returns the number of our nodes in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.line().len()
    }

    /// Returns `true` if none of our nodes is in the queue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.line().is_empty()
    }

    /// Returns our nodes behind this one, in the order of the queue.
    pub fn places_behind(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.line().range::<NodeName, _>((Bound::Excluded(name), Bound::Unbounded)).map(|(name, _)| name)
    }

    /// Returns our first `limit` nodes, in the order of the queue.
    pub fn places(&self, limit: usize) -> impl Iterator<Item = &NodeName> {
        self.line().keys().take(limit)
    }

    /// Returns `true` if one of our waiters is near: at most
    /// [`NEAR`](crate::queue::machine::position::NEAR) contenders ahead of it conflict with it.
    /// Contenders that do not conflict are not counted: a reader does not wait for other readers,
    /// and permits do not depend on the queue order.
    ///
    /// A waiter also counts as near while the client asks how many nodes are left ahead of it,
    /// after an event has reported that one of them is gone. A waiter watches only its nearest
    /// nodes, so all others can be gone too, and the next event can grant the lock. A heartbeat that
    /// were sent only after the answer would delay this grant by a round trip.
    ///
    /// A reader that takes over the position of a writer of the same owner is always near, because
    /// that writer leaves only when the reader holds the lock.
    #[must_use]
    pub fn is_near(&self) -> bool {
        let asks = self.listing.is_some() || matches!(self.probe, Probing::For(..));
        let near = |(name, id): (&NodeName, &JoinId)| {
            let Some(Entry { kind, stage: EntryStage::Queued(_), .. }) = self.entries.get(id) else {
                return false;
            };
            let uncertain = asks && self.view.as_ref().is_some_and(|view| view.stale_before(name));
            uncertain || self.has_at_most_before(self.far_beyond.get(), name, *kind)
        };
        // It is enough to check the first contenders: if none of them is near, no contender behind
        // them is near.
        self.has_reader_in_place() || self.line().iter().take(self.far_beyond.get() + 1).any(near)
    }

    /// Returns `true` if enough of our contenders wait that the next one can join without
    /// requesting a listing. Only a contender that might be the next holder needs its own listing.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.entries.queueing() > MIN_SEEN_AHEAD
    }

    /// Returns `true` if the last listing shows that this contender is behind another one.
    #[must_use]
    pub fn is_behind_another(&self, join: JoinId) -> bool {
        match self.entries.get(&join).map(|join| &join.stage) {
            Some(EntryStage::Queued(place)) if place.confirmed => {
                let ours = self.line().range(..&place.name).next().is_some();
                ours || self.view.as_ref().is_some_and(|view| view.before(&place.name).is_some())
            }
            _ => false,
        }
    }
}

/// Number of nearest blockers to report.
const NEAREST: usize = 2;

/// Maximum number of permit holders to report.
const PERMITS: usize = 16;

/// A contender that blocks another one, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContenderAhead {
    /// The contender's node.
    pub name: NodeName,
    /// Number of contenders before it.
    pub position: usize,
    /// `true` if it is known to hold the lock.
    pub holds: bool,
    /// The source of more information about it.
    pub known: Known,
}

/// The source of information about a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// One of our contenders. The number is the id of the transaction that created its node.
    Ours(JoinId, i64),
    /// Another client's contender, whose node is watched with this ticket.
    Watched(Ticket),
    /// Another client's contender for a permit. Nodes in a directory of permits are not watched.
    Listed,
}

impl Queue {
    /// Returns the contenders that block this one, in the order of the queue: the first contender
    /// in the queue and the two nearest to this one. For a permit, returns some of the permit
    /// holders, because permits do not depend on the queue order.
    #[must_use]
    pub fn known_blockers(&self, join: JoinId) -> Vec<ContenderAhead> {
        let Some(waiter) = self.entries.get(&join) else { return Vec::new() };
        let EntryStage::Queued(QueuePlace { name, .. }) = &waiter.stage else { return Vec::new() };
        self.known_blockers_before(waiter.kind, Some(name))
    }

    /// Returns the blockers of a contender that joins now, selected as in
    /// [`known_blockers`](Self::known_blockers).
    #[must_use]
    pub fn known_blockers_of_newcomer(&self, kind: Kind) -> Vec<ContenderAhead> {
        self.known_blockers_before(kind, None)
    }

    /// Returns the blockers of a contender at `name`, or at the end of the queue if `name` is
    /// `None`.
    fn known_blockers_before(&self, kind: Kind, name: Option<&NodeName>) -> Vec<ContenderAhead> {
        let view = self.last_view();
        let end = name.map_or(Bound::Unbounded, Bound::Excluded);
        let before = (Bound::<&NodeName>::Unbounded, end);
        let mut names: Vec<&NodeName> = Vec::new();
        match kind {
            Kind::Permit(_) => {
                names.extend(view.into_iter().flat_map(RemoteView::all).take(PERMITS));
                names.extend(self.places(PERMITS));
            }
            Kind::Read => {
                let all = view.filter(|_| name.is_none()).into_iter().flat_map(RemoteView::all_writers);
                let some = view.zip(name).into_iter().flat_map(|(view, name)| view.writers_before(name));
                let mut others = all.chain(some);
                let mut ours = self.line().writers().range(before);
                names.extend(others.next().into_iter().chain(others.rev().take(NEAREST)));
                names.extend(ours.next().into_iter().chain(ours.rev().take(NEAREST)));
            }
            Kind::Exclusive | Kind::Write | Kind::Lead => {
                let all = view.filter(|_| name.is_none()).into_iter().flat_map(RemoteView::all);
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
        let mut contender_ahead: Vec<_> =
            names.iter().filter_map(|name| self.contender_ahead(name, permits)).collect();
        if permits {
            contender_ahead.retain(|other| other.holds);
            contender_ahead.truncate(PERMITS);
        } else {
            // Omit the contenders between the first and the nearest ones, unless they hold the
            // lock.
            let near = names.get(far.max(1)..).unwrap_or_default();
            contender_ahead.retain(|other| other.position == 0 || other.holds || near.contains(&&other.name));
        }
        contender_ahead
    }

    fn contender_ahead(&self, name: &NodeName, permits: bool) -> Option<ContenderAhead> {
        let rank = |name| self.last_view().map_or(0, |view| view.rank(name));
        let position = rank(name) + self.line().rank(name);
        let ours = self.line().get(name).copied();
        let (holds, known) = match ours.map(|id| (id, self.entries.get(&id).map(|join| &join.stage))) {
            Some((id, Some(EntryStage::Held(place)))) => (true, Known::Ours(id, place.czxid)),
            Some((id, Some(EntryStage::Queued(place)))) => (false, Known::Ours(id, place.czxid)),
            Some(_) => return None,
            // In a directory of permits, every node of another client belongs to a permit that is
            // held, because only one client at a time waits there (rule 17).
            None if permits => (true, Known::Listed),
            None => {
                (self.is_first_of_its_kind(name, position), Known::Watched(self.watches.get(name)?.ticket))
            }
        };
        Some(ContenderAhead { name: name.clone(), position, holds, known })
    }

    /// Returns `true` if another client's contender holds the lock, because no contender ahead of
    /// it conflicts with it.
    fn is_first_of_its_kind(&self, name: &NodeName, position: usize) -> bool {
        let writers = || {
            let others = self.last_view().is_some_and(|view| view.writers_before(name).next().is_some());
            others || self.line().writers().range(..name).next().is_some()
        };
        position == 0 || name.kind() == Kind::Read && !writers()
    }
}

/// A waiter is near the front if at most this many conflicting contenders are ahead of it. It might
/// soon hold the lock, so the client must already be certain that the session is alive.
pub const NEAR: usize = 2;

/// Maximum number of contenders ahead of a waiter that is not far from the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FarBeyond(u8);

impl FarBeyond {
    pub(super) fn new(limit: u8) -> Self {
        Self(limit)
    }

    pub(super) fn get(self) -> usize {
        self.0.into()
    }
}

impl Default for FarBeyond {
    fn default() -> Self {
        Self(u8::try_from(NEAR).unwrap_or(u8::MAX))
    }
}
