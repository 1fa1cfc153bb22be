//! All attempts to acquire a lock, and their outcomes.

use std::collections::BTreeMap;

use super::waiters::Joined;
use crate::clock;

/// An attempt to acquire a lock, and its outcome.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Attempt {
    /// The queue that the attempt joins, or `None` if the order of grants is not checked.
    pub(super) queue: Option<&'static str>,
    /// Another queue that the attempt joins later, because a multi-lock acquires its members one
    /// after another.
    pub(super) later: Option<&'static str>,
    pub(super) tries: bool,
    /// True if the attempt holds the lock together with other attempts of its kind, like a reader.
    /// Such attempts can be granted in any order.
    pub(super) reads: bool,
    /// True if even a try waits for other contenders: to get a semaphore's permit, an attempt first
    /// waits for the semaphore's mutex.
    pub(super) takes_turns: bool,
    /// True if the attempt can receive the lock by a hand-off from another attempt of the same
    /// client. The grant then uses the other attempt's node and does not follow the order of the
    /// queue.
    pub(super) in_cohort: bool,
    /// Time in milliseconds for which the client can keep the attempt's node after the release,
    /// while no other client waits. Other attempts of the client can reuse a kept node.
    pub(super) keeps: u64,
    /// True if the attempt holds the write lock and also requests the read lock. It then joins the
    /// queue a second time.
    pub(super) reads_on: bool,
    /// True if the attempt might have lost its position in the queue, so that its order is not
    /// checked.
    pub(super) excused: bool,
    pub(super) began: u64,
    pub(super) granted: Option<u64>,
    pub(super) ended: Option<u64>,
    /// The clients that the attempt uses, and the queues that it joins.
    pub(super) clients: Vec<usize>,
    pub(super) joined: Vec<Joined>,
}

impl Attempt {
    /// Creates an attempt that begins now.
    pub fn new([queue, later]: [Option<&'static str>; 2], [tries, reads, takes_turns]: [bool; 3]) -> Self {
        Self {
            queue,
            later,
            tries,
            reads,
            takes_turns,
            in_cohort: false,
            keeps: 0,
            reads_on: false,
            excused: false,
            began: clock::now(),
            granted: None,
            ended: None,
            clients: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// Adds the clients and the queues.
    pub fn through(self, clients: Vec<usize>, joined: Vec<Joined>) -> Self {
        Self { clients, joined, ..self }
    }

    /// Sets whether the attempt can receive the lock by a hand-off.
    pub fn in_cohort(self, in_cohort: bool) -> Self {
        Self { in_cohort, ..self }
    }

    /// Sets for how long the client can keep the attempt's node.
    pub fn keeps(self, keeps: u64) -> Self {
        Self { keeps, ..self }
    }

    /// The order of this attempt is not checked, because its contender might notice the grant late.
    pub fn served_unseen(self) -> Self {
        Self { excused: true, ..self }
    }
}

/// All attempts, by the labels of their nodes.
#[derive(Debug, Default)]
pub struct Attempts(pub(super) BTreeMap<String, Attempt>);

impl Attempts {
    /// Returns the time at which the last other attempt stopped waiting in a queue. Returns
    /// `u64::MAX` if an attempt might still wait.
    pub(super) fn last_beside(&self, label: &str, queue: &str) -> Option<u64> {
        let is_there = |attempt: &Attempt| [attempt.queue, attempt.later].contains(&Some(queue));
        let others = self.0.iter().filter(|(other, attempt)| *other != label && is_there(attempt));
        let waited_until = |attempt: &Attempt| attempt.granted.or(attempt.ended).unwrap_or(u64::MAX);
        others.map(|(_, attempt)| waited_until(attempt)).max()
    }

    /// Returns the number of other attempts for the same lock that use one of this attempt's
    /// clients and might have been without a node at some time after `since`.
    pub(super) fn of_its_clients(&self, label: &str, path: &str, since: u64) -> usize {
        let Some(clients) = self.0.get(label).map(|attempt| &attempt.clients) else { return 0 };
        let is_over = |at: Option<u64>| at.is_some_and(|at| at < since);
        let own = self.0.iter().filter(|(other, attempt)| {
            *other != label
                && attempt.joined.iter().any(|joined| joined.path() == path)
                && attempt.clients.iter().any(|client| clients.contains(client))
                && (attempt.reads_on || !is_over(attempt.granted))
                && !is_over(attempt.ended)
        });
        own.count()
    }

    /// Returns the time until which an attempt might need its node in a queue.
    ///
    /// Other attempts of the same client can receive the lock by a hand-off or reuse the kept node.
    /// The node is therefore needed until the last of these attempts ends, plus the time for which
    /// the client keeps it.
    ///
    /// `waits` is set if another client waits for the node. Its first time is the beginning of the
    /// wait. At its second time, every client knows of the waiter. From then on, the client must
    /// not keep the node or reuse it for a new attempt.
    pub(super) fn needs_node_until(
        &self,
        attempt: &Attempt,
        queue: &str,
        waits: Option<(u64, u64)>,
    ) -> Option<u64> {
        if !attempt.in_cohort && attempt.keeps == 0 {
            return attempt.ended;
        }
        let end = |one: &Attempt| one.ended.unwrap_or(u64::MAX);
        let beside = self.0.values().filter(|other| {
            (other.in_cohort || other.keeps > 0)
                && other.joined.iter().any(|joined| joined.path() == queue)
                && other.clients.iter().any(|client| attempt.clients.contains(client))
                && end(other) >= attempt.began
        });
        let mut kept = end(attempt).saturating_add(attempt.keeps);
        let mut held = end(attempt);
        for other in beside {
            kept = kept.max(end(other).saturating_add(other.keeps));
            if other.in_cohort || waits.is_none_or(|(_, known)| other.began < known) {
                held = held.max(end(other));
            }
        }
        let until = waits.map_or(kept, |(since, _)| kept.min(held.max(since)));
        Some(until).filter(|until| *until < u64::MAX)
    }

    /// Returns the attempts that wait in a queue and began more than `entry` milliseconds before
    /// `then`.
    pub(super) fn long_waiting(&self, queue: &str, then: u64, entry: u64) -> Vec<String> {
        let waiting = self.0.iter().filter(|(label, attempt)| {
            attempt.queue == Some(queue)
                && !attempt.in_cohort
                && !attempt.tries
                && attempt.began + entry < then
                && self.is_waiting(label)
        });
        waiting.map(|(label, _)| label.clone()).collect()
    }

    /// Returns `true` if an attempt still waits and has certainly kept its position in the queue.
    pub(super) fn is_waiting(&self, label: &str) -> bool {
        let waits =
            |attempt: &Attempt| !attempt.excused && attempt.granted.is_none() && attempt.ended.is_none();
        self.0.get(label).is_some_and(waits)
    }

    pub fn excuse(&mut self) {
        for attempt in self.0.values_mut().filter(|attempt| attempt.granted.is_none()) {
            attempt.excused = true;
        }
    }
}
