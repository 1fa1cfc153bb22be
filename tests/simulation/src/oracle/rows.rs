//! Checks consecutive holds on one node. With the option `cohort`, a release can hand the node on
//! to the next waiter of the same client. With the option `linger`, a release can keep the node, so
//! that a later attempt of the same client reuses it.
//!
//! The checks know immediately which of these a release did: only a hand-off increases the counter
//! of hand-offs, and only a release that deletes the node waits for a reply. Each *row* of
//! consecutive hand-offs is therefore known, even during faults, and its length is checked. A hold
//! that reuses a kept node begins a new row.
//!
//! A client needs time to learn that another client waits for its node. It learns this from its
//! watch, after the waiter has created a node. A client that was granted the lock just before
//! learns of all waiters only from the listing that sets that watch, so one of its own attempts can
//! reuse the node before that listing. After that time, if no fault has an effect, keeping or
//! reusing the node is a violation. A waiter therefore waits for at most one row of hand-offs.

use std::collections::BTreeMap;

use super::judge::{Granted, Mode, Oracle};
use crate::clock;

/// The way in which a hold has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseKind {
    /// The next waiter of the client received the lock.
    HandedOn,
    /// The release sent no request and no waiter received the lock, so the node is kept.
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
    /// Records a hold on a node with this many hand-offs. A re-entry of the current holder changes
    /// nothing.
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
        // The numbers are not consecutive, so there was another hold in between that no contender
        // received. The node was kept after that hold.
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
    /// Checks the end of the last hold on a node. `linger` is the time for which the lock's nodes
    /// can be kept.
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

    /// Checks a grant on a node, for an attempt that asked at the time `asked`. The attempt permits
    /// `cohort` holds in a row, so the row must not be longer. A kept node must not be reused while
    /// the client knows of a waiter.
    pub fn judge_row(&mut self, label: &str, one: &Granted, asked: u64, cohort: u32) -> Beginning {
        let Granted { place, mode, node, lease, .. } = one;
        let Some(row) = self.rows.0.get_mut(node) else { return Beginning::NewNode };
        let (last, most) = (&mut row.last, cohort.max(1));
        // If the numbers of the two holds are not consecutive, there was another hold in between
        // that no contender received.
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

    /// Returns an attempt because of which the holder's client must not keep or reuse the node.
    ///
    /// The attempt has waited so long that every client that watches the queue knows it. No fault
    /// had an effect during that time, and the node was first held long before. Attempts that can
    /// receive the lock by a hand-off do not count, because they might have no node yet.
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
