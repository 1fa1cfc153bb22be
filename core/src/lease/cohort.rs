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
//! * while a transaction may be under way, whose check of the node would also pass under the next holder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use crate::error::Result;
use crate::lease::Lease;
use crate::lease::hold::{AcquireRequest, Grant, Hold, HoldId, HoldIndex, HoldTable, Notice};
use crate::lease::state::LeaseState;
use crate::queue::JoinId;
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
pub(super) struct CohortHold {
    /// How many holds there were on this node before.
    handoffs: u32,
    /// How many holds there may be on it.
    most: u16,
    /// When the first of them began.
    since: BootInstant,
    /// Transactions that were sent and may still be carried out.
    transactions: AtomicUsize,
    /// Whether a reader is to take the node's place.
    downgrading: AtomicBool,
}

impl CohortHold {
    /// Of the first hold on a node; `None` if nobody else is to have it.
    pub(super) fn first(claim: &AcquireRequest) -> Option<Box<Self>> {
        (claim.cohort > 1).then(|| Box::new(Self::new(0, claim.cohort, BootInstant::now())))
    }

    /// Of a reader in the place of a writer, whose fencing token it keeps, with what goes with it.
    pub(super) fn of_reader(all: &HoldIndex, token: i64) -> Option<Box<Self>> {
        let line = all.line.as_ref().filter(|line| line.last.0 == token)?;
        Some(Box::new(Self::new(line.last.1, 0, BootInstant::now())))
    }

    fn new(handoffs: u32, most: u16, since: BootInstant) -> Self {
        let (transactions, downgrading) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { handoffs, most, since, transactions, downgrading }
    }

    /// Of the next hold on the node, if there may be one.
    fn next(&self, claim: &AcquireRequest) -> Option<Box<Self>> {
        let (handoffs, most) = (self.handoffs + 1, self.most.min(claim.cohort));
        (handoffs < u32::from(most)).then(|| Box::new(Self::new(handoffs, most, self.since)))
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

impl Hold {
    /// How many holds there were on its node before.
    pub(crate) fn handoffs(&self) -> u32 {
        self.cohort.as_ref().map_or(0, |cohort| cohort.handoffs)
    }

    /// A reader is to take the place of its node.
    pub(super) fn begin_downgrade(&self, _: &HoldIndex) {
        if let Some(cohort) = &self.cohort {
            cohort.downgrading.store(true, Ordering::Relaxed);
        }
    }

    /// A transaction is about to be sent. It counts until its outcome is known.
    pub(super) fn begin_transaction(&self) {
        if let Some(cohort) = &self.cohort {
            let _all = self.holds.all();
            cohort.transactions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The outcome of a transaction is known.
    pub(super) fn end_transaction(&self) {
        if let Some(cohort) = &self.cohort {
            let _all = self.holds.all();
            cohort.transactions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether another hold may begin on its node, as far as this hold decides that.
    fn may_be_handed_on(&self, cohort: &CohortHold) -> bool {
        let too_old = self.claim.max_hold.is_some_and(|most| BootInstant::now().since(cohort.since) >= most);
        self.state() == LeaseState::Held
            && !self.fate.is_revoked()
            && !too_old
            && cohort.transactions.load(Ordering::Relaxed) == 0
            && !cohort.downgrading.load(Ordering::Relaxed)
    }

    /// Ends this hold, whose last level was released, and begins that of the first in the line on the same node; `None` if
    /// that is not to be, or nobody is there.
    pub(super) fn hand_on(&self, all: &mut HoldIndex) -> Option<HandOff> {
        let cohort = self.cohort.as_ref()?;
        if !all.is_current(self) || !self.may_be_handed_on(cohort) {
            return None;
        }
        let line = all.line.as_mut()?;
        let first = line.waiting.first_entry()?;
        let claim = &first.get().claim;
        let next = cohort.next(claim)?;
        let too_old = claim.max_hold.is_some_and(|most| BootInstant::now().since(cohort.since) >= most);
        // As for a grant: a sixth of the session time-out, and the grace.
        let Grant { node, fencing_token, session_id, term } = &self.grant;
        let needed = term.interval() + claim.grace.time();
        if claim.kind != self.claim.kind || too_old || term.remaining() <= needed {
            return None;
        }
        let (join, LineWaiter { claim, reply }) = first.remove_entry();
        line.last = (*fencing_token, next.handoffs);
        all.take(node);
        self.fate.change(|state| state.holds().then_some(LeaseState::Released));
        let claim = AcquireRequest { contended: true, ..claim };
        self.holds.note_grant(&claim, node);
        self.holds.recorder.handoff();
        let told = Box::new(claim.clone());
        let grant = Grant {
            node: node.clone(),
            fencing_token: *fencing_token,
            session_id: *session_id,
            term: Arc::clone(term),
        };
        let hold = Arc::new(Hold::new(Arc::clone(&self.holds), claim, grant, Some(next)));
        all.add(&hold);
        hold.report(|hold| Notice::HandedOn { hold, join, claim: told }).ok();
        Some(HandOff { lease: Lease::new(hold), reply })
    }
}
