//! Holds that follow each other on one node: the lock was handed on by its holder (the option `cohort`), or the node was
//! kept and taken again (`linger`).
//!
//! A release says at once which of these it is: nothing else counts a hand-off, and one that deletes the node has an
//! answer to wait for. So each row of hand-offs is known, whatever befalls clients, and its length is judged where nodes
//! are kept too: a hold that takes a node again begins a new row.
//!
//! That somebody waits while a node is kept, or is taken again, takes time to be known: a waiter needs its node, and the
//! client that keeps the other one has to hear of it from its watch. If it was granted the lock only just now, it hears of
//! all from the listing that comes with that watch; a waiter of its own takes the node again before that. Later, while it
//! is calm, both are wrong: whoever waits for a lock then waits for one row of hand-offs, and for no second one.

use std::collections::BTreeMap;

use super::judge::{Granted, Mode, Oracle};
use crate::clock;

/// How a hold has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// The lock was handed to the next one of the client.
    HandedOn,
    /// Nothing was sent, and nobody was handed the lock: the node is kept.
    Kept,
    /// The node is to be deleted.
    Deleted,
    /// The lock was not handed on. Whether the node is kept nobody was told.
    Unseen,
}

/// How a hold has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// On a node of its own, or nobody knows.
    Anew,
    /// By the hands of the holder before.
    HandedOn,
    /// On a node that was kept.
    TakenAgain,
}

/// A hold on a node.
#[derive(Clone, Copy, Debug)]
struct RowHold {
    /// How many there were before it.
    handoffs: u32,
    /// That of the first hold of its row.
    first: u32,
    /// How many there may be in its row.
    most: u32,
    /// When and how it has ended.
    left: Option<(u64, Parting)>,
}

/// A node, and its last two holds.
#[derive(Clone, Copy, Debug)]
struct NodeRow {
    last: RowHold,
    before: Option<RowHold>,
    /// When the first hold on it was told.
    since: u64,
    /// Until when the node may be kept, once it has been for the first time.
    kept_until: Option<u64>,
}

/// All nodes, by their paths.
#[derive(Debug, Default)]
pub struct Rows(BTreeMap<String, NodeRow>);

impl Rows {
    /// A hold has begun on a node, after so many others; or there is one level more of it.
    pub(super) fn begins(&mut self, node: &str, handoffs: u32) {
        let now = clock::now();
        let last = RowHold { handoffs, first: handoffs, most: u32::MAX, left: None };
        let Some(row) = self.0.get_mut(node) else {
            let kept_until = (handoffs > 0).then_some(u64::MAX);
            self.0.insert(node.to_owned(), NodeRow { last, before: None, since: now, kept_until });
            return;
        };
        if row.last.handoffs == handoffs {
            return;
        }
        // In between there may have been a hold that nobody has received, after which the node was kept.
        if row.last.handoffs + 1 != handoffs {
            row.kept_until.get_or_insert(u64::MAX);
        }
        row.before = Some(std::mem::replace(&mut row.last, last));
    }

    /// Whether a node was held for the first time only that long ago.
    pub(super) fn is_young(&self, node: &str, age: u64) -> bool {
        self.0.get(node).is_none_or(|row| row.since + age > clock::now())
    }
}

impl Oracle {
    /// The last hold on a node has ended: in which way its release shows. Its lock keeps nodes for so long.
    pub fn parts(
        &mut self,
        label: &str,
        (node, place, mode): (&str, &'static str, Mode),
        parting: Parting,
        linger: u64,
    ) {
        let now = clock::now();
        let Some(row) = self.rows.0.get_mut(node) else { return };
        row.last.left = Some((now, parting));
        if linger > 0 && matches!(parting, Parting::Kept | Parting::Unseen) {
            row.kept_until.get_or_insert(now + linger);
        }
        let until = row.kept_until.unwrap_or(u64::MAX);
        if parting != Parting::Kept {
            return;
        }
        if linger == 0 {
            return self.violation(format!("{node} is released, and nothing is sent"));
        }
        if until <= now {
            self.violation(format!("{node} is kept, although its time was over at {until} ms"));
        }
        if let Some(waiter) = self.seen_waiting(label, (node, place, mode), now) {
            self.violation(format!("{node} is kept, although {waiter} waits"));
        }
    }

    /// An attempt, which asked at that time and permits so many holds in a row, has a hold on a node. Its row is not too
    /// long, and a node that was kept is taken again only while nobody is seen that waits for it.
    pub fn judge_row(&mut self, label: &str, one: &Granted, asked: u64, cohort: u32) -> Beginning {
        let Granted { place, mode, node, lease, .. } = one;
        let Some(row) = self.rows.0.get_mut(node) else { return Beginning::Anew };
        let (last, most) = (&mut row.last, cohort.max(1));
        // Between two holds that are not next to each other there was one that nobody has received.
        let before = row.before.filter(|before| before.handoffs + 1 == lease.handoffs());
        let left = before.and_then(|before| Some((before, before.left?)));
        let beginning = match left {
            Some((before, (_, Parting::HandedOn))) => {
                (last.first, last.most) = (before.first, before.most.min(most));
                Beginning::HandedOn
            }
            Some(_) => Beginning::TakenAgain,
            None => Beginning::Anew,
        };
        if beginning != Beginning::HandedOn {
            last.most = most;
        }
        let (length, most) = (last.handoffs - last.first + 1, last.most);
        if length > most {
            self.violation(format!("{node} is held {length} times in a row, of {most}"));
        }
        if let (Beginning::TakenAgain, Some((_, (left, parting)))) = (beginning, left) {
            if parting == Parting::Deleted {
                self.violation(format!("{node} is taken again, although it was to be deleted"));
            }
            if let Some(waiter) = self.seen_waiting(label, (node, place, *mode), left.max(asked)) {
                self.violation(format!("{node} is taken again, although {waiter} waits"));
            }
        }
        beginning
    }

    /// An attempt that waits for a lock that is held like that, has waited for so long then that every client knows which
    /// watches the queue, and has done so in calm: the node was first held long before, too. Not one in a cohort, which may
    /// have no node yet.
    fn seen_waiting(
        &self,
        label: &str,
        (node, place, mode): (&str, &'static str, Mode),
        then: u64,
    ) -> Option<String> {
        if self.rows.0.get(node).is_none_or(|row| row.since + self.calm.soon() > then) {
            return None;
        }
        let known = self.calm.entry() + self.calm.soon();
        let waiting = self.attempts.long_waiting(place, then, known);
        waiting.into_iter().find(|waiter| {
            let other = &self.attempts.0[waiter];
            waiter != label && !(mode == Mode::Shared && other.reads) && self.calm.reigns_since(other.began)
        })
    }
}
