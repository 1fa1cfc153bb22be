//! What is asked for, by whom, and what became of it.

use std::collections::BTreeMap;

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
    /// Whether it may have lost its place.
    pub(super) excused: bool,
    pub(super) began: u64,
    pub(super) granted: Option<u64>,
    pub(super) ended: Option<u64>,
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
            excused: false,
            began: clock::now(),
            granted: None,
            ended: None,
        }
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

    /// Whoever waits may have lost its place.
    pub fn excuse(&mut self) {
        for attempt in self.0.values_mut().filter(|attempt| attempt.granted.is_none()) {
            attempt.excused = true;
        }
    }
}
