//! What is asked for, by whom, and what became of it.

use std::collections::BTreeMap;

use super::waiters::Joined;
use crate::clock;

/// An attempt to acquire, and what became of it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Attempt {
    /// Where it queues, if others that queue there later may not be served before it.
    pub(super) queue: Option<&'static str>,
    /// Where else it takes its turn, at some time: a lock of several asks for one after the other.
    pub(super) later: Option<&'static str>,
    pub(super) tries: bool,
    /// Whether it wants to hold with others of its kind: these may be told in any order.
    pub(super) reads: bool,
    /// Whether even a try may wait for others.
    pub(super) takes_turns: bool,
    /// Whether its client may hand it the lock, in any order, and through a node that another attempt created.
    pub(super) in_cohort: bool,
    /// For how long its node may be kept, in milliseconds, while nobody else waits. Others of its client may take it again.
    pub(super) keeps: u64,
    /// Whether it writes, and has asked to read too: it joins once more.
    pub(super) reads_on: bool,
    /// Whether it may have lost its place.
    pub(super) excused: bool,
    pub(super) began: u64,
    pub(super) granted: Option<u64>,
    pub(super) ended: Option<u64>,
    /// The clients through which it asks, and the queues that it joins.
    pub(super) clients: Vec<usize>,
    pub(super) joined: Vec<Joined>,
}

impl Attempt {
    /// Begins now.
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

    /// The same, through these clients, in these queues.
    pub fn through(self, clients: Vec<usize>, joined: Vec<Joined>) -> Self {
        Self { clients, joined, ..self }
    }

    /// The same, whose client may hand it the lock.
    pub fn in_cohort(self, in_cohort: bool) -> Self {
        Self { in_cohort, ..self }
    }

    /// The same, whose node may be kept for so long.
    pub fn keeps(self, keeps: u64) -> Self {
        Self { keeps, ..self }
    }

    /// The same, which may be served before it knows: nobody overtakes it for certain.
    pub fn served_unseen(self) -> Self {
        Self { excused: true, ..self }
    }
}

/// All attempts, by the labels of their nodes.
#[derive(Debug, Default)]
pub struct Attempts(pub(super) BTreeMap<String, Attempt>);

impl Attempts {
    /// Until when others may have been in a queue: for ever, if one may be there now.
    pub(super) fn last_beside(&self, label: &str, queue: &str) -> Option<u64> {
        let is_there = |attempt: &Attempt| [attempt.queue, attempt.later].contains(&Some(queue));
        let others = self.0.iter().filter(|(other, attempt)| *other != label && is_there(attempt));
        let waited_until = |attempt: &Attempt| attempt.granted.or(attempt.ended).unwrap_or(u64::MAX);
        others.map(|(_, attempt)| waited_until(attempt)).max()
    }

    /// How many other attempts of the same clients contend for a lock, and may have no node since then.
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

    /// Until when an attempt may need its node in a queue: its end, or that of the last of its client who may be handed the
    /// lock, or may take the node again, and the time for which it is kept. `waits`: since when somebody else waits for the
    /// node, and since when every client knows that. Whoever asks later does not take the node again, and nobody keeps it.
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
        // It is kept from the end of one of them on, and that time does not begin anew.
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

    /// The attempts that wait in a queue, and have asked for it long before then.
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

    /// Whether an attempt waits in the place that it has had.
    pub(super) fn is_waiting(&self, label: &str) -> bool {
        let waits =
            |attempt: &Attempt| !attempt.excused && attempt.granted.is_none() && attempt.ended.is_none();
        self.0.get(label).is_some_and(waits)
    }

    /// Whoever waits may have lost its place.
    pub fn excuse(&mut self) {
        for attempt in self.0.values_mut().filter(|attempt| attempt.granted.is_none()) {
            attempt.excused = true;
        }
    }
}
