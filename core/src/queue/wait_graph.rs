//! The graph of owners that wait for each other, over the queues of many locks. Its cycles are deadlocks.
//!
//! A queue is served in order, so a waiter waits for every contender before it that it cannot hold together with, whether
//! that one holds or waits: one that holds alone waits for all before it, a reader for the writers before it. In a queue of
//! ten thousand these would be fifty million edges. Instead each place has a helper, "everything before here", with one edge
//! to the owner before it and one to the helper before that; the writers of a queue have a second chain. An owner counts as
//! one flow of control, which releases nothing while it waits. Its own contenders do not block it.
//!
//! # Two passes prove a deadlock
//! Queues are read one after the other while they change, so a cycle in one pass may mix views of different moments. Each
//! node of a cycle that was seen in a first pass is looked for again in a second one, which begins after the first has
//! ended. A node that is in both, with the same name and the zxid that created it, existed at the moment between the two.
//! Names tell the order and the kind of contenders, and do not change: a node behind one that blocks it waits as long as
//! both exist. So all edges of a confirmed cycle existed together at that moment. (See [`confirmed`].)
//!
//! A limit remains: a lease may be released by another flow of control than the owner that took it, and the lease of a dead
//! program ends with its session. Such a cycle resolves by itself.

use std::collections::{HashMap, HashSet, VecDeque};

use super::contender::{Contender, ContenderInfo};

/// So many owners are visited at most to find the shortest cycle of a component. In a large one that is sought from the
/// first owners alone: from all of them would be quadratic.
const MOST_VISITS: usize = 1_000_000;

/// The queue of one lock, as it was read.
#[derive(Clone, Debug)]
pub struct LockQueue {
    /// The path of the lock.
    pub path: String,
    /// Its contenders, in order, with the full paths of their nodes.
    pub contenders: Vec<Contender>,
}

/// A deadlock: each owner waits for the next one, and the last one for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The owners, two or more.
    pub owners: Vec<CycleOwner>,
}

/// An owner in a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleOwner {
    /// Its contender for which the owner before it waits.
    pub blocking: CyclePlace,
    /// Its contender that waits for the next owner. The same as the other one if it only stands between two others.
    pub waiting: CyclePlace,
}

/// The place of a contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CyclePlace {
    /// The path of the lock.
    pub path: String,
    /// Whether the contender holds the lock, or waits for it.
    pub holds: bool,
    /// The contender.
    pub contender: Contender,
}

/// The key that tells owners apart, also those of processes in containers with the same host name and process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnerKey<'a> {
    host: &'a str,
    pid: u32,
    process: u64,
    number: u64,
}

impl<'a> OwnerKey<'a> {
    /// The key of a contender's owner, if its node tells it.
    pub(crate) fn of(about: &'a ContenderInfo) -> Option<Self> {
        let owner = about.owner.as_ref()?;
        Some(Self { host: &about.host, pid: about.pid, process: owner.process, number: owner.number })
    }
}

/// A contender: the number of its queue, and its position there.
type Place = (usize, usize);

/// An edge: an owner, its waiting contender, and the position of the contender that blocks it there.
type Edge = (usize, Place, usize);

/// A helper: everything before a place, or all writers before it.
struct Helper {
    /// The owner of the last contender before it.
    owner: usize,
    /// Whether the helper before this one in the list is the next of its chain.
    continues: bool,
}

/// The graph of owners that wait for each other. Owners are numbered in the order in which they appear.
pub struct WaitGraph<'a> {
    queues: &'a [LockQueue],
    /// The owners of the contenders, by queue.
    owners: Vec<Vec<usize>>,
    /// Whether the contenders hold, by queue.
    holding: Vec<Vec<bool>>,
    /// The positions of the writers, by queue.
    writers: Vec<Vec<usize>>,
    /// All contenders, by owner.
    places: Vec<Vec<Place>>,
    /// The contenders that wait, by owner.
    waits: Vec<Vec<Place>>,
    helpers: Vec<Helper>,
    /// Where the helpers of a queue begin: those for everything, and those for writers.
    bases: Vec<(usize, usize)>,
    unattributed: usize,
}

impl<'a> WaitGraph<'a> {
    /// The graph of these queues.
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
                // It has a place in the queue all the same: others wait for it, and it waits for others.
                self.unattributed += 1;
                new
            };
            if owner == new {
                self.places.push(Vec::new());
                self.waits.push(Vec::new());
            }
            self.places[owner].push((at, position));
            // A writer that holds may read too, in its place (rule 4): its reader waits for no writer in between.
            let in_its_place = !self.queues[at].contenders[0].reader && owners.first() == Some(&owner);
            let holds = position == 0 || contender.reader && (writers.is_empty() || in_its_place);
            // A persistent node keeps others out for good, and waits for nobody.
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

    /// How many contenders do not tell their owner. Each of them counts as an owner of its own.
    #[must_use]
    pub fn unattributed(&self) -> usize {
        self.unattributed
    }

    /// How many contenders wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waits.iter().map(Vec::len).sum()
    }

    /// The cycles: of each group of owners that wait for each other the shortest one, and then the shortest one of those
    /// that are not in it. No owner is in two of them.
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

    /// The vertex to which a waiting contender has an edge: the helper for all that blocks it.
    fn helper(&self, (queue, position): Place) -> usize {
        let (all, of_writers) = self.bases[queue];
        let (base, before) = if self.reads((queue, position)) {
            (of_writers, self.writers_before((queue, position)))
        } else {
            (all, position)
        };
        // One that waits has another before it.
        self.places.len() + base + before.saturating_sub(1)
    }

    fn reads(&self, (queue, position): Place) -> bool {
        self.queues[queue].contenders[position].reader
    }

    /// How many writers stand before a place.
    fn writers_before(&self, (queue, position): Place) -> usize {
        self.writers[queue].partition_point(|writer| *writer < position)
    }

    /// The successor of a vertex with this number. Owners come first, then helpers.
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

    /// The groups of two or more of these owners that all wait for each other, in order; by Tarjan's algorithm, with a
    /// stack of its own in place of recursion.
    fn components(&self, owners: &[usize]) -> Vec<Vec<usize>> {
        /// A vertex on the way: its number, and the number of its next successor.
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

    /// The shortest cycle among the owners of a component.
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

    /// The shortest cycle through an owner, if it has fewer owners than `limit`: breadth first. Of each queue only the
    /// part is looked at that was not looked at before, so that all steps together take no longer than the queues are.
    fn shortest_cycle_from(&self, start: usize, members: &HashSet<usize>, limit: usize) -> Option<Vec<Edge>> {
        // Where the start stands first in each queue, and where first as a writer.
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
    /// Its places, each once or twice.
    pub fn places(&self) -> impl Iterator<Item = &CyclePlace> {
        self.owners.iter().flat_map(|owner| [&owner.blocking, &owner.waiting])
    }
}

/// The cycles all of whose nodes are also in these queues, which were read after the others: see the two passes at the top of
/// this module.
#[must_use]
pub fn confirmed(cycles: Vec<Cycle>, later: &[LockQueue]) -> Vec<Cycle> {
    let id = |contender: &'_ Contender| (contender.node.clone(), contender.fencing_token);
    let there: HashSet<_> = later.iter().flat_map(|queue| &queue.contenders).map(id).collect();
    let stands = |cycle: &Cycle| cycle.places().all(|place| there.contains(&id(&place.contender)));
    cycles.into_iter().filter(stands).collect()
}

#[cfg(test)]
mod tests;
