//! What is asked for, by whom: whether it is served in its turn, and whether it leaves anything behind.

use std::collections::BTreeMap;

use super::Oracle;
use crate::clock;

/// An attempt to acquire, and what became of it.
#[derive(Debug)]
pub struct Attempt {
    /// Where it queues, if others that queue there later may not be served before it.
    queue: Option<&'static str>,
    tries: bool,
    /// Whether it wants to hold with others of its kind: these may be told in any order.
    reads: bool,
    /// Whether even a try may wait for others.
    takes_turns: bool,
    /// Whether it may have lost its place.
    excused: bool,
    began: u64,
    granted: Option<u64>,
    ended: Option<u64>,
}

impl Attempt {
    /// Begins now.
    pub fn new(queue: Option<&'static str>, [tries, reads, takes_turns]: [bool; 3]) -> Self {
        Self {
            queue,
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
pub struct Attempts(BTreeMap<String, Attempt>);

impl Attempts {
    /// Whether an attempt is in a queue, or was after this moment, but not this one.
    fn last_beside(&self, label: &str, queue: &str) -> Option<u64> {
        let others = self.0.iter().filter(|(other, attempt)| *other != label && attempt.queue == Some(queue));
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

impl Oracle {
    /// Somebody asks for a lock, and queues there.
    pub fn asks(&mut self, label: &str, attempt: Attempt) {
        self.attempts.0.insert(label.to_owned(), attempt);
    }

    /// It has what it asked for. Nobody that asked long before is still waiting.
    pub fn is_served(&mut self, label: &str) {
        let Some(served) = self.attempts.0.get_mut(label) else { return };
        served.granted = Some(clock::now());
        let (Some(queue), began, reads) = (served.queue, served.began, served.reads) else { return };
        let soon = self.calm.soon();
        let overtaken = self.attempts.0.iter().find(|(_, other)| {
            other.queue == Some(queue)
                && !other.tries
                && !other.excused
                && !(reads && other.reads)
                && other.granted.is_none()
                && other.ended.is_none()
                && other.began + soon < began
                && self.calm.reigns_since(other.began)
        });
        if let Some((other, _)) = overtaken {
            let what = format!("{label} is granted {queue} before {other}, which asked long before");
            self.violation(what);
        }
    }

    /// An attempt has come to its end: refused, given up, or released.
    pub fn is_through(&mut self, label: &str) {
        if let Some(attempt) = self.attempts.0.get_mut(label) {
            attempt.ended.get_or_insert(clock::now());
        }
    }

    /// For how long a try has waited without anybody else in the queue, in calm; `None` if that cannot be told.
    pub fn waited_alone(&self, label: &str) -> Option<u64> {
        let attempt = self.attempts.0.get(label)?;
        let beside = self.attempts.last_beside(label, attempt.queue?).filter(|_| attempt.takes_turns);
        let alone = self.calm.reigns_since(attempt.began).then(|| beside.unwrap_or(0).max(attempt.began))?;
        clock::now().checked_sub(alone)
    }

    /// Looks at a lock's directory: whose nodes are there, by their labels. `turns`: those of a semaphore's turns, which
    /// nobody keeps that has its permits.
    pub fn look_at(&mut self, directory: &str, nodes: &[(String, Option<String>)], turns: bool) {
        let now = clock::now();
        let soon = 2 * self.calm.soon();
        for (node, label) in nodes {
            let attempt = label.as_ref().and_then(|label| self.attempts.0.get(label));
            let Some(attempt) = attempt else {
                // A request to give up takes the label's place.
                if !self.requests.is_asked(&format!("{directory}/{node}")) {
                    self.violation(format!("{directory}/{node} is nobody's"));
                }
                continue;
            };
            let over = if turns { attempt.granted.or(attempt.ended) } else { attempt.ended };
            if let Some(over) = over.filter(|over| over + soon < now && self.calm.reigns_since(*over)) {
                let what = format!("{directory}/{node} is left of {label:?}, which was through at {over} ms");
                self.violation(what);
            }
        }
    }
}
