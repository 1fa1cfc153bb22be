//! Checks consecutive holds that use the same node.
//!
//! With the option `cohort`, a release can hand the lock and its node on to the next waiter of the
//! same client. With the option `linger`, a release can keep the node, so that a later attempt of
//! the same client reuses it. A *row* is a sequence of holds on one node that were handed on from
//! one to the next. A hold that reuses a kept node begins a new row.
//!
//! The length of a row is limited. It is checked even during faults, because the client's counter
//! of hand-offs shows which releases were hand-offs.
//!
//! If another client waits, the node must not be kept or reused, so that the waiter waits for at
//! most one row. The client needs time to learn of the waiter: after a grant, it lists the queue
//! and sets a watch. Until it receives the reply, it can still reuse the node. The check therefore
//! allows for this time, and is skipped while a fault has an effect.

use std::collections::BTreeMap;

use super::judge::{Granted, Mode, Oracle};
use crate::clock;

/// The way in which a hold has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseKind {
    /// The next waiter of the client received the lock.
    HandedOn,
    /// The release sent no request and no waiter received the lock. The client therefore keeps the
    /// node.
    Kept,
    /// The node is being deleted.
    Deleted,
    /// No waiter received the lock, and it is unknown whether the client keeps the node.
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
    /// Time at which the hold ended, and the kind of its end.
    left: Option<(u64, ReleaseKind)>,
}

/// The last two holds on a node.
#[derive(Clone, Copy, Debug)]
struct NodeRow {
    last: RowHold,
    before: Option<RowHold>,
    /// Time of the first grant on the node.
    since: u64,
    /// Time until which the client may keep the node. Set when the node is kept for the first time.
    kept_until: Option<u64>,
}

/// All nodes, by path.
#[derive(Debug, Default)]
pub struct Rows(BTreeMap<String, NodeRow>);

impl Rows {
    /// Records a hold on a node. `handoffs` is the number of earlier holds on it. If this number
    /// has not changed, the holder has entered its lock again, and nothing is recorded.
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
        // If there was a hold in between, its grant was never recorded, because it ended before its
        // contender received the lease. The client might have kept the node afterwards.
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
    /// Checks how the last hold on a node ended. `linger` is the maximum time for which the client
    /// may keep the node.
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

    /// Checks a grant that uses this node. `asked` is the time at which the attempt began. A row
    /// must not have more than `cohort` holds. A kept node must not be reused if the client knows
    /// that another client waits.
    pub fn judge_row(&mut self, label: &str, one: &Granted, asked: u64, cohort: u32) -> Beginning {
        let Granted { place, mode, node, lease, .. } = one;
        let Some(row) = self.rows.0.get_mut(node) else { return Beginning::NewNode };
        let (last, most) = (&mut row.last, cohort.max(1));
        // If the numbers are not consecutive, the previous hold was never recorded, because it
        // ended before its contender received the lease. In this case, ignore the recorded one.
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

    /// Returns a waiting attempt of another client, if the node's client must know of the attempt.
    /// That client must then not keep or reuse the node.
    ///
    /// The attempt has waited so long that every client that watches the queue knows of it. During
    /// that time, no fault had an effect, and the node was held. Attempts that can receive the lock
    /// by a hand-off do not count, because they might have no node yet.
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
