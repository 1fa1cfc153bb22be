//! Checks that attempts are granted in the order of the queue, and that none of them leaves a node
//! behind.

use super::attempts::Attempt;
use super::judge::{Granted, Oracle};
use crate::clock;
use crate::frame::STRANGER;

impl Oracle {
    /// Records an attempt that asks for a lock and joins its queue.
    pub fn asks(&mut self, label: &str, attempt: Attempt) {
        let contender = label.split('.').next().and_then(|contender| contender.parse().ok());
        if let (Some(recorder), Some(contender)) = (&mut self.recorder, contender) {
            recorder.asks(contender);
        }
        self.attempts.0.insert(label.to_owned(), attempt);
    }

    /// Checks a grant: no attempt that began much earlier than the granted one may still wait.
    pub fn is_served(&mut self, label: &str, granted: &[Granted]) {
        let Some(served) = self.attempts.0.get_mut(label) else { return };
        served.granted = Some(clock::now());
        let (Some(queue), began, reads) = (served.queue, served.began, served.reads) else { return };
        // By rule 19, a client that has just been granted a lock can reuse its node while it does
        // not know of other waiters. Such a grant need not follow the order of the queue.
        let soon = self.calm.soon();
        let again = |one: &Granted| one.lease.handoffs() > 0 && self.rows.is_young(&one.node, soon);
        if served.in_cohort || granted.iter().any(again) {
            return;
        }
        let entry = self.calm.entry();
        let overtaken = self.attempts.0.iter().find(|(_, other)| {
            let in_order = !other.tries && !other.excused && !other.in_cohort;
            let in_the_way = other.queue == Some(queue) && in_order;
            let together = reads && other.reads;
            in_the_way
                && !together
                && other.granted.is_none()
                && other.ended.is_none()
                && other.began + entry < began
                && self.calm.lasts_since(other.began)
        });
        if let Some((other, _)) = overtaken {
            let what = format!("{label} is granted {queue} before {other}, which asked long before");
            self.violation(what);
        }
    }

    /// Records that an attempt that holds the write lock also requests the read lock.
    pub fn reads_on(&mut self, label: &str) {
        if let Some(attempt) = self.attempts.0.get_mut(label) {
            attempt.reads_on = true;
        }
    }

    /// Records the end of an attempt: it was refused or given up, or its lock was released.
    pub fn is_through(&mut self, label: &str) {
        if let Some(attempt) = self.attempts.0.get_mut(label) {
            attempt.ended.get_or_insert(clock::now());
        }
    }

    /// Returns `true` if an attempt had ended before that time.
    pub fn was_through(&self, label: &str, then: u64) -> bool {
        self.attempts.0.get(label).and_then(|attempt| attempt.ended).is_some_and(|ended| ended < then)
    }

    /// Returns for how long a try has waited without a reason. Faults are a reason, and so are
    /// other attempts in the queue if the try can wait for them (see `takes_turns`). Returns `None`
    /// if there might still be a reason.
    pub fn waited_alone(&self, label: &str) -> Option<u64> {
        let attempt = self.attempts.0.get(label)?;
        let beside = self.attempts.last_beside(label, attempt.queue?).filter(|_| attempt.takes_turns);
        let alone = self.calm.lasts_since(attempt.began).then(|| beside.unwrap_or(0).max(attempt.began))?;
        clock::now().checked_sub(alone)
    }

    /// Reports the late grants (see `Prompt::take_late`). Must be called after all directories were
    /// listed.
    pub fn judge_promptness(&mut self) {
        for (node, waited) in self.prompt.take_late() {
            self.violation(format!("{node} was granted {waited} ms after the last node had gone"));
        }
    }

    /// Checks that the nodes in a lock's directory belong to attempts that need them. `turns` is
    /// true for the directory of a semaphore's mutex. An attempt needs its node there only until it
    /// has its permits.
    pub fn look_at(&mut self, directory: &str, nodes: &[(String, Option<String>)], turns: bool) {
        self.prompt.sees(directory, nodes.iter().map(|(node, _)| node.clone()));
        let now = clock::now();
        for (node, _) in nodes {
            self.seen.entry(format!("{directory}/{node}")).or_insert(now);
        }
        let soon = 2 * self.calm.soon();
        for (node, label) in nodes {
            let attempt = label.as_ref().and_then(|label| self.attempts.0.get(label));
            let Some(attempt) = attempt else {
                // A request to give up the lock replaces the node's data. The node then has no
                // label.
                if !node.starts_with(STRANGER) && !self.requests.is_asked(&format!("{directory}/{node}")) {
                    self.violation(format!("{directory}/{node} belongs to no attempt"));
                }
                continue;
            };
            let waits = self.waits_since(attempt, (directory, node), nodes);
            let waits = waits.map(|since| (since, since + self.calm.soon()));
            let ended = self.attempts.needs_node_until(attempt, directory, waits);
            let over = if turns { attempt.granted.or(ended) } else { ended };
            if let Some(over) = over.filter(|over| over + soon < now && self.calm.lasts_since(*over)) {
                let what = format!("{directory}/{node} is left of {label:?}, which was through at {over} ms");
                self.violation(what);
            }
        }
    }

    /// Returns the time since which an attempt of another client has waited for this node. After
    /// that time, the client must not keep the node after a release.
    ///
    /// A writer waits for every node, and a reader waits for a writer's node. Some waiting attempts
    /// join other queues first, or might use another attempt's node. For them, this is the time at
    /// which their own node was first seen.
    fn waits_since(
        &self,
        attempt: &Attempt,
        (directory, node): (&str, &str),
        nodes: &[(String, Option<String>)],
    ) -> Option<u64> {
        let waiting = nodes.iter().filter_map(|(waiter, label)| {
            let label = label.as_ref().filter(|label| self.attempts.is_waiting(label))?;
            let other = self.attempts.0.get(label)?;
            let apart = !other.clients.iter().any(|client| attempt.clients.contains(client));
            if !apart || other.tries || (is_reader(node) && is_reader(waiter)) {
                return None;
            }
            let at_once = other.queue == Some(directory) && !other.in_cohort;
            if at_once && self.calm.lasts_since(other.began) {
                return Some(other.began + self.calm.entry());
            }
            self.seen.get(&format!("{directory}/{waiter}")).copied()
        });
        waiting.min()
    }
}

/// Returns `true` if a node belongs to a reader.
fn is_reader(node: &str) -> bool {
    node.contains("-__READ__") || node.contains("__rlock__")
}
