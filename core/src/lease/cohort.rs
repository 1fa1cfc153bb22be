//! Hand-off inside a client (the option `cohort`): the thread that releases a lock gives it to the client's next waiter, on
//! the same node and without a request.
//!
//! Why this is safe: the node that stands in the queue is the same, so for every other client nothing has happened. The new
//! hold begins as a grant does, while the session is connected and more of its term is left than a grant needs. Hand-off,
//! loss, time-out and the driver's own grants change the line and the holds under one lock, so each waiter is answered once,
//! and of two holds on one node the first has ended before the second begins. A hold is named by its node and by its number on
//! that node, so what comes late for the first does not end the second.
//!
//! A node is not handed on
//! * more often than the locks permit: other clients wait behind it;
//! * once its holder is asked to give up the lock, or it has been held for longer than a lock's `max_hold`;
//! * while the connection is lost: it may be gone;
//! * once a downgrade is decided: a reader takes its place;
//! * to another reader, while its holder also holds the writer in whose place it stands;
//! * while a transaction may be under way, whose check of the node would also pass under the next holder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::Result;
use crate::lease::Lease;
use crate::lease::hold::{AcquireRequest, Grant, Hold, HoldId, HoldIndex, HoldTable, Notice};
use crate::lease::state::LeaseState;
use crate::queue::{HoldFacts, HoldRow, JoinId, Kind};
use crate::runtime::clock::BootInstant;
use crate::runtime::sync::{AtomicBool, AtomicUsize};

/// The waiters of a client that may be handed the lock by its holder, in the order in which they came.
#[derive(Default)]
pub(crate) struct LocalLine {
    waiting: BTreeMap<JoinId, LineWaiter>,
    /// The fencing token of the node that was handed on last, and how often it was.
    last: (i64, u32),
}

/// One that waits in the line.
struct LineWaiter {
    claim: AcquireRequest,
    reply: oneshot::Sender<Result<Lease>>,
}

/// The facts that the holds on one node share.
pub(super) struct SharedNode {
    /// How many holds there were.
    row: HoldRow,
    /// When the first of all began.
    since: BootInstant,
    /// Until when the node is kept while nobody holds through it, if it has ever been.
    kept_until: Option<BootInstant>,
    /// Transactions that were sent and may still be carried out.
    transactions: AtomicUsize,
    /// Whether a reader is to take the node's place.
    downgrading: AtomicBool,
}

impl SharedNode {
    /// Of the first hold on a node; `None` if nobody else is to have it.
    pub(super) fn first(claim: &AcquireRequest) -> Option<Box<Self>> {
        (claim.cohort > 1 || claim.linger > 0).then(|| Box::new(Self::new(HoldRow::new(0, claim.cohort))))
    }

    /// Of a reader in the place of a writer, whose fencing token it keeps, with what goes with it.
    pub(super) fn of_reader(all: &HoldIndex, token: i64) -> Option<Box<Self>> {
        let line = all.line.as_ref().filter(|line| line.last.0 == token)?;
        Some(Box::new(Self::new(HoldRow::new(line.last.1, 0))))
    }

    fn new(row: HoldRow) -> Self {
        let (transactions, downgrading) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (since, kept_until) = (BootInstant::now(), None);
        Self { row, since, kept_until, transactions, downgrading }
    }

    /// The same node, after other holds.
    fn after(&self, row: HoldRow) -> Self {
        let Self { since, kept_until, .. } = *self;
        Self { since, kept_until, ..Self::new(row) }
    }

    /// Of the next hold on the node, if there may be one.
    fn next(&self, claim: &AcquireRequest) -> Option<Box<Self>> {
        self.row.next(claim.cohort).map(|row| Box::new(self.after(row)))
    }

    /// Of a hold that begins while nobody holds. Nobody else waits, so a new row begins.
    pub(super) fn taken_again(&self, claim: &AcquireRequest) -> Self {
        self.after(self.row.taken_again(claim.cohort))
    }

    /// The same while nobody holds, and whether that is for the first time; `None` if the time for which the node is kept
    /// is over.
    pub(super) fn kept_for(&self, time: Duration) -> Option<(bool, Box<Self>)> {
        let now = BootInstant::now();
        let until = self.kept_until.unwrap_or_else(|| now.after(time));
        let kept = || Box::new(Self { kept_until: Some(until), ..self.after(self.row) });
        (now < until).then(|| (self.kept_until.is_none(), kept()))
    }

    /// Whether it is kept then while nobody holds.
    pub(super) fn is_kept_at(&self, now: BootInstant) -> bool {
        self.kept_until.is_some_and(|until| now < until)
    }

    /// Whether the node is too old for a claim.
    pub(super) fn is_too_old(&self, claim: &AcquireRequest, now: BootInstant) -> bool {
        claim.max_hold.is_some_and(|most| now.since(self.since) >= most)
    }
}

/// A lock that was handed on, and the waiter that gets it. To be told once the holds are no longer borrowed: a lease that
/// nobody receives is dropped, which borrows them.
pub(super) struct HandOff {
    lease: Lease,
    reply: oneshot::Sender<Result<Lease>>,
}

impl HandOff {
    pub(super) fn tell(self) {
        self.reply.send(Ok(self.lease)).ok();
    }
}

/// The line of waiters.
impl HoldTable {
    /// Puts an attempt in the line. All that are there want the same kind of hold.
    pub(crate) fn line_up(
        &self,
        join: JoinId,
        claim: &AcquireRequest,
        reply: oneshot::Sender<Result<Lease>>,
    ) {
        let mut all = self.all();
        let line = all.line.get_or_insert_with(Box::default);
        line.waiting.insert(join, LineWaiter { claim: claim.clone(), reply });
    }

    /// Takes an attempt out of the line; `None` if it is not there, because it was handed the lock.
    pub(crate) fn leave_line(&self, join: JoinId) -> Option<oneshot::Sender<Result<Lease>>> {
        let mut all = self.all();
        let line = all.line.as_mut()?;
        Some(line.waiting.remove(&join)?.reply)
    }

    /// A reader is to take the place of this hold's node. Returns false if the hold is over.
    pub(crate) fn begin_downgrade(&self, id: &HoldId) -> bool {
        let all = self.all();
        let hold = all.through(&id.node).filter(|hold| hold.handoffs() == id.handoffs);
        hold.is_some_and(|hold| {
            hold.begin_downgrade(&all);
            true
        })
    }

    /// The first in the line.
    pub(crate) fn first_in_line(&self) -> Option<JoinId> {
        self.all().line.as_ref()?.waiting.first_key_value().map(|(join, _)| *join)
    }
}

impl HoldIndex {
    /// Remembers the last hold on a node with this token, for a reader that takes the node's place.
    pub(super) fn note_shared(&mut self, token: i64, node: &SharedNode) {
        self.line.get_or_insert_default().last = (token, node.row.handoffs());
    }

    /// Whether somebody waits in the line.
    pub(super) fn has_line(&self) -> bool {
        self.line.as_ref().is_some_and(|line| !line.waiting.is_empty())
    }
}

impl Hold {
    /// How many holds there were on its node before.
    pub(crate) fn handoffs(&self) -> u32 {
        self.shared.as_ref().map_or(0, |node| node.row.handoffs())
    }

    /// A reader is to take the place of its node.
    pub(super) fn begin_downgrade(&self, _: &HoldIndex) {
        if let Some(node) = &self.shared {
            node.downgrading.store(true, Ordering::Relaxed);
        }
    }

    /// A transaction is about to be sent. It counts until its outcome is known.
    pub(super) fn begin_transaction(&self) {
        if let Some(node) = &self.shared {
            let _all = self.holds.all();
            node.transactions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The outcome of a transaction is known.
    pub(super) fn end_transaction(&self) {
        if let Some(node) = &self.shared {
            let _all = self.holds.all();
            node.transactions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether another hold may begin on its node, as far as this hold decides that.
    pub(super) fn may_have_successor(&self, node: &SharedNode, all: &HoldIndex) -> bool {
        let facts = HoldFacts {
            held: self.state() == LeaseState::Held,
            revoked: self.fate.is_revoked(),
            too_old: node.is_too_old(&self.claim, BootInstant::now()),
            transacting: node.transactions.load(Ordering::Relaxed) > 0,
            downgrading: node.downgrading.load(Ordering::Relaxed),
            beside_writer: self.claim.kind == Kind::Read && all.of(self.claim.owner, Kind::Write).is_some(),
        };
        facts.may_have_successor()
    }

    /// Ends this hold, whose last level was released, and begins that of the first in the line on the same node; `None` if
    /// that is not to be, or nobody is there.
    pub(super) fn hand_on(&self, all: &mut HoldIndex) -> Option<HandOff> {
        let shared = self.shared.as_ref()?;
        if !all.is_current(self) || !self.may_have_successor(shared, all) {
            return None;
        }
        let line = all.line.as_mut()?;
        let first = line.waiting.first_entry()?;
        let claim = &first.get().claim;
        let next = shared.next(claim)?;
        let too_old = shared.is_too_old(claim, BootInstant::now());
        // As for a grant: a sixth of the session time-out, and the grace.
        let Grant { node, fencing_token, term, .. } = &self.grant;
        let needed = term.interval() + claim.grace.time();
        if claim.kind != self.claim.kind || too_old || term.remaining() <= needed {
            return None;
        }
        let (join, LineWaiter { claim, reply }) = first.remove_entry();
        all.note_shared(*fencing_token, &next);
        all.take(node);
        self.fate.change(|state| state.holds().then_some(LeaseState::Released));
        let claim = AcquireRequest { contended: true, ..claim };
        self.holds.note_grant(&claim, node);
        self.holds.recorder.handoff();
        let told = Box::new(claim.clone());
        let hold = Arc::new(Hold::new(Arc::clone(&self.holds), claim, self.grant.clone(), Some(next)));
        all.add(&hold);
        hold.report(|hold| Notice::HandedOn { hold, join, claim: told }).ok();
        Some(HandOff { lease: Lease::new(hold), reply })
    }
}
