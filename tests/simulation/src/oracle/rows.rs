//! Checks consecutive holds on one node: hand-offs by the holder (option `cohort`), and nodes that
//! were kept and reused (option `linger`).
//!
//! A release immediately shows which of these it is. Only a hand-off is counted as a hand-off, and
//! only a release that deletes the node waits for a reply. Each *row* of consecutive hand-offs is
//! therefore known, even during faults. Its length is limited for kept nodes too: a hold that
//! reuses a node begins a new row.
//!
//! A client needs time to learn that another client waits for a node that it keeps or reuses. The
//! waiter needs a node, and the watch of the keeping client must report that node. If the keeping
//! client was granted the lock just before, it learns of all waiters only from the listing that
//! sets that watch, and one of its own waiters can reuse the node before that. After that time,
//! while it is calm, keeping or reusing the node is a violation: a waiter waits for at most one row
//! of hand-offs.

use std::collections::BTreeMap;

use super::judge::{Granted, Mode, Oracle};
use crate::clock;

/// The way in which a hold has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseKind {
    /// The next waiter of the client received the lock.
    HandedOn,
    /// Nothing was sent and no waiter received the lock, so the node is kept.
    Kept,
    /// The node is being deleted.
    Deleted,
    /// The lock was not handed on. It is unknown whether the node is kept.
    Unseen,
}

/// The way in which a hold has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// On a new node, or unknown.
    NewNode,
    /// By a hand-off of the previous holder.
    HandedOn,
    /// On a kept node.
    TakenAgain,
}

/// A hold on a node.
#[derive(Clone, Copy, Debug)]
struct RowHold {
    /// Number of earlier holds on the node.
    handoffs: u32,
    /// The value of `handoffs` for the first hold in its row.
    first: u32,
    /// Maximum number of holds in its row.
    most: u32,
    /// Time and kind of its end.
    left: Option<(u64, ReleaseKind)>,
}

/// The last two holds on a node.
#[derive(Clone, Copy, Debug)]
struct NodeRow {
    last: RowHold,
    before: Option<RowHold>,
    /// Time of the first grant on the node.
    since: u64,
    /// Time until which the node can be kept, set when it is kept for the first time.
    kept_until: Option<u64>,
}

/// All nodes, by path.
#[derive(Debug, Default)]
pub struct Rows(BTreeMap<String, NodeRow>);

impl Rows {
    /// Records a hold on a node with this many hand-offs, or another level of the current hold.
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
        // In between there can have been a hold that no contender received. Its node was kept
        // afterwards.
        if row.last.handoffs + 1 != handoffs {
            row.kept_until.get_or_insert(u64::MAX);
        }
        row.before = Some(std::mem::replace(&mut row.last, last));
    }

    /// Returns `true` if the first grant on a node is less than `age` ago.
    pub(super) fn is_young(&self, node: &str, age: u64) -> bool {
        self.0.get(node).is_none_or(|row| row.since + age > clock::now())
    }
}

impl Oracle {
    /// Checks the end of the last hold on a node. `linger` is the time for which its lock keeps
    /// nodes.
    pub fn released(
        &mut self,
        label: &str,
        (node, place, mode): (&str, &'static str, Mode),
        release_kind: ReleaseKind,
        linger: u64,
    ) {
        let now = clock::now();
        let Some(row) = self.rows.0.get_mut(node) else { return };
        row.last.left = Some((now, release_kind));
        if linger > 0 && matches!(release_kind, ReleaseKind::Kept | ReleaseKind::Unseen) {
            row.kept_until.get_or_insert(now + linger);
        }
        let until = row.kept_until.unwrap_or(u64::MAX);
        if release_kind != ReleaseKind::Kept {
            return;
        }
        if linger == 0 {
            return self.violation(format!("{node} is released without a request"));
        }
        if until <= now {
            self.violation(format!("{node} is kept although its time ended at {until} ms"));
        }
        if let Some(waiter) = self.seen_waiting(label, (node, place, mode), now) {
            self.violation(format!("{node} is kept although {waiter} waits"));
        }
    }

    /// Checks a grant on a node, for an attempt that asked at this time and permits `cohort` holds
    /// in a row. The row must not be longer, and a kept node must not be reused while the client
    /// knows a waiter.
    pub fn judge_row(&mut self, label: &str, one: &Granted, asked: u64, cohort: u32) -> Beginning {
        let Granted { place, mode, node, lease, .. } = one;
        let Some(row) = self.rows.0.get_mut(node) else { return Beginning::NewNode };
        let (last, most) = (&mut row.last, cohort.max(1));
        // Between two holds that do not follow each other directly, there was one that no contender
        // received.
        let before = row.before.filter(|before| before.handoffs + 1 == lease.handoffs());
        let left = before.and_then(|before| Some((before, before.left?)));
        let beginning = match left {
            Some((before, (_, ReleaseKind::HandedOn))) => {
                (last.first, last.most) = (before.first, before.most.min(most));
                Beginning::HandedOn
            }
            Some(_) => Beginning::TakenAgain,
            None => Beginning::NewNode,
        };
        if beginning != Beginning::HandedOn {
            last.most = most;
        }
        let (length, most) = (last.handoffs - last.first + 1, last.most);
        if length > most {
            self.violation(format!("{node} is held {length} times in a row, more than {most}"));
        }
        if let (Beginning::TakenAgain, Some((_, (left, release_kind)))) = (beginning, left) {
            if release_kind == ReleaseKind::Deleted {
                self.violation(format!("{node} is reused although it must be deleted"));
            }
            if let Some(waiter) = self.seen_waiting(label, (node, place, *mode), left.max(asked)) {
                self.violation(format!("{node} is reused although {waiter} waits"));
            }
        }
        beginning
    }

    /// Returns an attempt for which the holder's client must not keep or reuse the node.
    ///
    /// The attempt has waited so long that every client that watches the queue knows it, it was
    /// calm during that time, and the node was first held long before. Attempts in a cohort do not
    /// count, because they might have no node yet.
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
            waiter != label && !(mode == Mode::Shared && other.reads) && self.calm.lasts_since(other.began)
        })
    }
}
