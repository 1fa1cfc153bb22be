//! Finds deadlocks: cycles in the graph of owners that wait for each other in the queues of many
//! locks.
//!
//! A queue is served in order. So a waiter waits for every conflicting contender ahead of it, even
//! if that contender does not hold the lock yet. A contender that wants to hold the lock alone
//! waits for all contenders ahead of it, and a reader waits for the writers ahead of it. In a queue
//! of ten thousand contenders, this would make fifty million edges.
//!
//! Instead, each position in a queue has a helper vertex that represents "everything ahead of this
//! position". The helper has one edge to the owner of the contender directly ahead, and one edge to
//! the previous helper. The writers of a queue have a second chain of helpers. An owner counts as
//! one flow of control, which releases no lock while it waits. An owner's contenders do not block
//! each other.
//!
//! # Two passes prove a deadlock
//! Queues are read one after the other while they change, so a cycle found in one pass can mix
//! states of different moments. Therefore a second pass, which starts after the first has ended,
//! searches for each node of the cycle again (see [`confirmed`]).
//!
//! A node that is in both passes, with the same name and creation zxid, existed at the moment
//! between the two passes. Names determine the order and the kind of contenders, and names do not
//! change. So a node waits for a blocking node ahead of it as long as both exist. All edges of a
//! confirmed cycle therefore existed together at that moment.
//!
//! There is one limitation: some cycles resolve by themselves. A task other than the owner can
//! release a lease, and the lease of a crashed program ends with its session.

use std::collections::{HashMap, HashSet, VecDeque};

use super::contender::{Contender, ContenderInfo};

/// Maximum number of owners to visit in search of a component's shortest cycle. If a component is
/// large, the searches start only from its first owners, because a search from every owner would
/// take quadratic time.
const MOST_VISITS: usize = 1_000_000;

/// The queue of one lock, as it was read.
#[derive(Clone, Debug)]
pub struct LockQueue {
    /// The path of the lock.
    pub path: String,
    /// The lock's contenders in queue order, with the full paths of their nodes.
    pub contenders: Vec<Contender>,
}

/// A deadlock: each owner waits for the next one, and the last one waits for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The owners, two or more.
    pub owners: Vec<CycleOwner>,
}

/// An owner in a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleOwner {
    /// The owner's contender for which the previous owner waits.
    pub blocking: CyclePlace,
    /// The owner's contender that waits for the next owner. It is the same as `blocking` if one
    /// contender both blocks the previous owner and waits for the next owner in one queue.
    pub waiting: CyclePlace,
}

/// The place of a contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CyclePlace {
    /// The path of the lock.
    pub path: String,
    /// `true` if the contender holds the lock, `false` if it waits.
    pub holds: bool,
    /// The contender.
    pub contender: Contender,
}

/// A key that distinguishes owners, even those of processes with the same host name and process id
/// in different containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnerKey<'a> {
    host: &'a str,
    pid: u32,
    process: u64,
    number: u64,
}

impl<'a> OwnerKey<'a> {
    /// Returns the key of a contender's owner, if its node describes the owner.
    pub(crate) fn of(about: &'a ContenderInfo) -> Option<Self> {
        let owner = about.owner.as_ref()?;
        Some(Self { host: &about.host, pid: about.pid, process: owner.process, number: owner.number })
    }
}

/// A contender: the index of its queue, and its position there.
type Place = (usize, usize);

/// An edge: an owner, its waiting contender, and the position of the contender that blocks it in
/// the same queue.
type Edge = (usize, Place, usize);

/// A helper vertex. It represents all contenders ahead of a position in a queue, or all writers
/// ahead of it.
struct Helper {
    /// The owner of the last contender before the place.
    owner: usize,
    /// `true` if this helper has an edge to the helper before it in the list.
    continues: bool,
}

/// The graph of owners that wait for each other. Owners are numbered in the order in which they
/// appear.
pub struct WaitGraph<'a> {
    queues: &'a [LockQueue],
    /// The owners of the contenders, by queue.
    owners: Vec<Vec<usize>>,
    /// `true` for each contender that holds the lock, by queue.
    holding: Vec<Vec<bool>>,
    /// The positions of the writers, by queue.
    writers: Vec<Vec<usize>>,
    /// All contenders, by owner.
    places: Vec<Vec<Place>>,
    /// The waiting contenders, by owner.
    waits: Vec<Vec<Place>>,
    helpers: Vec<Helper>,
    /// For each queue, the index of its first helper for all contenders, and the index of its first
    /// helper for writers.
    bases: Vec<(usize, usize)>,
    unattributed: usize,
}

impl<'a> WaitGraph<'a> {
    /// Creates the graph of these queues.
    #[must_use]
    pub fn new(queues: &'a [LockQueue]) -> Self {
        let mut graph = Self {
            queues,
            owners: Vec::with_capacity(queues.len()),
            holding: Vec::with_capacity(queues.len()),
            writers: Vec::with_capacity(queues.len()),
            places: Vec::new(),
            waits: Vec::new(),
            helpers: Vec::new(),
            bases: Vec::with_capacity(queues.len()),
            unattributed: 0,
        };
        let mut numbers = HashMap::new();
        for (at, queue) in queues.iter().enumerate() {
            graph.add(at, queue, &mut numbers);
        }
        graph
    }

    fn add(&mut self, at: usize, queue: &'a LockQueue, numbers: &mut HashMap<OwnerKey<'a>, usize>) {
        let (mut owners, mut writers) = (Vec::with_capacity(queue.contenders.len()), Vec::new());
        let mut holding = Vec::with_capacity(queue.contenders.len());
        for (position, contender) in queue.contenders.iter().enumerate() {
            let new = self.places.len();
            let owner = if let Some(key) = contender.about.as_ref().and_then(OwnerKey::of) {
                *numbers.entry(key).or_insert(new)
            } else {
                // Treat a contender without a known owner as a separate owner. It can wait for
                // other contenders, and they can wait for it.
                self.unattributed += 1;
                new
            };
            if owner == new {
                self.places.push(Vec::new());
                self.waits.push(Vec::new());
            }
            self.places[owner].push((at, position));
            // An owner that holds the lock as a writer can also hold it as a reader (a downgrade,
            // rule 4). That reader does not wait for writers between the owner's two nodes.
            let in_its_place = !self.queues[at].contenders[0].reader && owners.first() == Some(&owner);
            let holds = position == 0 || contender.reader && (writers.is_empty() || in_its_place);
            // A persistent node blocks other contenders permanently and waits for none.
            if !holds && contender.session_id != 0 {
                self.waits[owner].push((at, position));
            }
            if !contender.reader {
                writers.push(position);
            }
            owners.push(owner);
            holding.push(holds);
        }
        let all = self.helpers.len();
        let chain = |owner: usize, first: bool| Helper { owner, continues: !first };
        self.helpers.extend(owners.iter().enumerate().map(|(place, owner)| chain(*owner, place == 0)));
        let of_writers = self.helpers.len();
        let numbered = writers.iter().enumerate();
        self.helpers.extend(numbered.map(|(number, place)| chain(owners[*place], number == 0)));
        self.bases.push((all, of_writers));
        self.owners.push(owners);
        self.holding.push(holding);
        self.writers.push(writers);
    }

    /// Returns the number of contenders without a known owner. Each of them counts as a separate
    /// owner.
    #[must_use]
    pub fn unattributed(&self) -> usize {
        self.unattributed
    }

    /// Returns the number of waiting contenders.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waits.iter().map(Vec::len).sum()
    }

    /// Returns the deadlocks. In each group of owners that wait for each other, finds the shortest
    /// cycle, then the shortest cycle of the remaining owners, and so on. Each owner is in at most
    /// one of the returned cycles.
    #[must_use]
    pub fn cycles(&self) -> Vec<Cycle> {
        let mut found = Vec::new();
        let mut pending = vec![(0..self.places.len()).collect::<Vec<_>>()];
        while let Some(owners) = pending.pop() {
            for component in self.components(&owners) {
                let Some(edges) = self.shortest_cycle(&component) else { continue };
                let rest: Vec<_> = component
                    .into_iter()
                    .filter(|owner| edges.iter().all(|(member, ..)| member != owner))
                    .collect();
                if rest.len() > 1 {
                    pending.push(rest);
                }
                found.push((edges.first().map(|(owner, ..)| *owner), self.cycle(&edges)));
            }
        }
        found.sort_by_key(|(first, _)| *first);
        found.into_iter().map(|(_, cycle)| cycle).collect()
    }

    /// Returns the helper vertex that represents all contenders that block a waiting contender.
    fn helper(&self, (queue, position): Place) -> usize {
        let (all, of_writers) = self.bases[queue];
        let (base, before) = if self.reads((queue, position)) {
            (of_writers, self.writers_before((queue, position)))
        } else {
            (all, position)
        };
        // A waiting contender has at least one contender before it.
        self.places.len() + base + before.saturating_sub(1)
    }

    fn reads(&self, (queue, position): Place) -> bool {
        self.queues[queue].contenders[position].reader
    }

    fn writers_before(&self, (queue, position): Place) -> usize {
        self.writers[queue].partition_point(|writer| *writer < position)
    }

    /// Returns the vertex at the end of the outgoing edge with this number. The vertices with the
    /// lowest numbers are owners, and the others are helpers.
    fn successor(&self, vertex: usize, number: usize) -> Option<usize> {
        if let Some(waits) = self.waits.get(vertex) {
            return waits.get(number).map(|place| self.helper(*place));
        }
        let helper = &self.helpers[vertex - self.places.len()];
        match number {
            0 => Some(helper.owner),
            1 if helper.continues => Some(vertex - 1),
            _ => None,
        }
    }

    /// Returns the groups of two or more of these owners that wait for each other, directly or
    /// indirectly. Each group is sorted. Uses Tarjan's algorithm with an explicit stack instead of
    /// recursion, so that a long chain of owners cannot overflow the stack.
    fn components(&self, owners: &[usize]) -> Vec<Vec<usize>> {
        /// A step of the depth-first search: a vertex, and the number of its next successor.
        type Step = (usize, usize);
        let members: HashSet<usize> = owners.iter().copied().collect();
        let outside = |vertex: usize| vertex < self.places.len() && !members.contains(&vertex);
        let (mut order, mut low) = (HashMap::new(), HashMap::new());
        let (mut open, mut is_open) = (Vec::new(), HashSet::new());
        let mut found = Vec::new();
        for root in owners {
            if order.contains_key(root) {
                continue;
            }
            let mut way: Vec<Step> = vec![(*root, 0)];
            while let Some((vertex, number)) = way.pop() {
                if number == 0 {
                    let index = order.len();
                    order.insert(vertex, index);
                    low.insert(vertex, index);
                    open.push(vertex);
                    is_open.insert(vertex);
                }
                if let Some(next) = self.successor(vertex, number) {
                    way.push((vertex, number + 1));
                    if outside(next) {
                        continue;
                    }
                    if !order.contains_key(&next) {
                        way.push((next, 0));
                    } else if is_open.contains(&next) {
                        let reached = order[&next].min(low[&vertex]);
                        low.insert(vertex, reached);
                    }
                    continue;
                }
                if let Some((before, _)) = way.last() {
                    let reached = low[before].min(low[&vertex]);
                    low.insert(*before, reached);
                }
                if low[&vertex] == order[&vertex] {
                    let begin = open.iter().rposition(|other| *other == vertex).unwrap_or_default();
                    let closed = open.split_off(begin);
                    for vertex in &closed {
                        is_open.remove(vertex);
                    }
                    let mut component: Vec<_> =
                        closed.into_iter().filter(|vertex| *vertex < self.places.len()).collect();
                    component.sort_unstable();
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
            }
        }
        found
    }

    fn shortest_cycle(&self, component: &[usize]) -> Option<Vec<Edge>> {
        let members: HashSet<usize> = component.iter().copied().collect();
        let mut best: Option<Vec<Edge>> = None;
        for start in component.iter().take((MOST_VISITS / component.len()).max(1)) {
            let limit = best.as_ref().map_or(usize::MAX, Vec::len);
            if limit == 2 {
                break;
            }
            best = self.shortest_cycle_from(*start, &members, limit).or(best);
        }
        best
    }

    /// Finds the shortest cycle through an owner by breadth-first search. Returns the cycle if it
    /// has fewer owners than `limit`. Each part of a queue is examined only once, so the time is
    /// linear in the length of the queues.
    fn shortest_cycle_from(&self, start: usize, members: &HashSet<usize>, limit: usize) -> Option<Vec<Edge>> {
        // For each queue: the starting owner's first position, and its first position as a writer.
        let mut own: HashMap<usize, (usize, Option<usize>)> = HashMap::new();
        for (queue, position) in &self.places[start] {
            let first = own.entry(*queue).or_insert((*position, None));
            if !self.reads((*queue, *position)) {
                first.1 = first.1.or(Some(*position));
            }
        }
        let mut looked_at: HashMap<(usize, bool), usize> = HashMap::new();
        let mut reached_by: HashMap<usize, Edge> = HashMap::new();
        let mut next = VecDeque::from([(start, 1)]);
        while let Some((owner, length)) = next.pop_front() {
            if length >= limit {
                return None;
            }
            for place in &self.waits[owner] {
                let (queue, position) = *place;
                let reads = self.reads(*place);
                let first =
                    own.get(&queue).and_then(|(any, writer)| if reads { *writer } else { Some(*any) });
                if let Some(first) = first.filter(|first| owner != start && *first < position) {
                    let mut edges = vec![(owner, *place, first)];
                    let mut last = owner;
                    while let Some(edge) = reached_by.get(&last) {
                        edges.push(*edge);
                        last = edge.0;
                    }
                    edges.reverse();
                    return Some(edges);
                }
                let done = looked_at.entry((queue, reads)).or_default();
                let end = if reads { self.writers_before(*place) } else { position };
                for number in *done..end {
                    let ahead = if reads { self.writers[queue][number] } else { number };
                    let other = self.owners[queue][ahead];
                    if other != start && members.contains(&other) && !reached_by.contains_key(&other) {
                        reached_by.insert(other, (owner, *place, ahead));
                        next.push_back((other, length + 1));
                    }
                }
                *done = end.max(*done);
            }
        }
        None
    }

    fn cycle(&self, edges: &[Edge]) -> Cycle {
        let before = edges.iter().cycle().skip(edges.len().saturating_sub(1));
        let owner = |((_, (queue, _), ahead), (_, waiting, _)): (&Edge, &Edge)| CycleOwner {
            blocking: self.place((*queue, *ahead)),
            waiting: self.place(*waiting),
        };
        Cycle { owners: before.zip(edges).map(owner).collect() }
    }

    fn place(&self, (queue, position): Place) -> CyclePlace {
        let LockQueue { path, contenders } = &self.queues[queue];
        let holds = self.holding[queue][position];
        CyclePlace { path: path.clone(), holds, contender: contenders[position].clone() }
    }
}

impl Cycle {
    /// Returns the places of the cycle. A place can appear twice.
    pub fn places(&self) -> impl Iterator<Item = &CyclePlace> {
        self.owners.iter().flat_map(|owner| [&owner.blocking, &owner.waiting])
    }
}

/// Returns the cycles whose nodes also exist in `later`, the queues as read in the second pass. The
/// module documentation explains the two passes.
#[must_use]
pub fn confirmed(cycles: Vec<Cycle>, later: &[LockQueue]) -> Vec<Cycle> {
    let id = |contender: &'_ Contender| (contender.node.clone(), contender.fencing_token);
    let there: HashSet<_> = later.iter().flat_map(|queue| &queue.contenders).map(id).collect();
    let stands = |cycle: &Cycle| cycle.places().all(|place| there.contains(&id(&place.contender)));
    cycles.into_iter().filter(stands).collect()
}

#[cfg(test)]
mod tests;
