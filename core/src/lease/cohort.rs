//! Hands a lock from one owner directly to another owner of the same client (the option `cohort`).
//!
//! The waiters of one client for one lock form a *line*, in order of arrival. The thread that
//! releases a lock gives it directly to the first waiter in the line. The new hold uses the same
//! node, so this hand-off needs no request.
//!
//! Hand-off is safe for these reasons:
//! * The queue still contains the same node, so nothing changes for other clients.
//! * A new hold needs the same conditions as a grant: the session is connected, and enough time is
//!   left in its *term*, the time during which the server does not expire the session.
//! * Every hand-off, loss, timeout and grant changes the line and the holds under the same mutex.
//!   So each waiter receives exactly one answer, and each hold on a node ends before the next hold
//!   on that node begins.
//! * The id of a hold consists of its node and its number on that node. So a late event for one
//!   hold does not end the next hold.
//!
//! There is no hand-off in these cases:
//! * The limit of the lock's option `cohort` is reached. There is a limit because other clients
//!   wait behind the node.
//! * Another client has asked the holder to give up the lock.
//! * The node has been held for longer than the lock's `max_hold`.
//! * The connection is lost, so the node might no longer exist.
//! * A downgrade has begun: the current owner, a writer, has requested the read lock, and a
//!   reader's node will replace the writer's node. That reader's lock is not handed on either while
//!   its owner still holds the write lock.
//! * A transaction of the current owner might be in progress. The server would apply it even after
//!   a hand-off, because it only checks that the node exists.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::Result;
use crate::lease::Lease;
use crate::lease::hold::{Grant, Hold, HoldId, HoldIndex, HoldTable, Notice};
use crate::lease::request::AcquireRequest;
use crate::lease::state::LeaseState;
use crate::queue::{HoldCounts, HoldFacts, JoinId, Kind};
use crate::runtime::clock::BootInstant;
use crate::runtime::sync::{AtomicBool, AtomicUsize};

/// The waiters in the line, in order of arrival.
#[derive(Default)]
pub(crate) struct LocalLine {
    waiting: BTreeMap<JoinId, LineWaiter>,
    /// Fencing token of the last shared node, and the number of hand-offs on it. After a downgrade,
    /// the reader's node continues this count.
    last: (i64, u32),
}

/// One waiter in the line.
struct LineWaiter {
    claim: AcquireRequest,
    reply: oneshot::Sender<Result<Lease>>,
}

/// State that all holds on one node share.
pub(super) struct SharedNode {
    /// Counts the holds on the node, and limits the number of consecutive holds.
    counts: HoldCounts,
    /// Start of the first hold on the node.
    since: BootInstant,
    /// Time until which the node is kept without a hold. `None` if it was never kept.
    kept_until: Option<BootInstant>,
    /// Number of transactions that the server might still carry out.
    transactions: AtomicUsize,
    /// True if a reader's node will replace this node.
    downgrading: AtomicBool,
}

impl SharedNode {
    /// Creates the state for the first hold on a node. Returns `None` if the lock has neither the
    /// option `cohort` nor `linger`.
    pub(super) fn first(claim: &AcquireRequest) -> Option<Box<Self>> {
        (claim.cohort > 1 || claim.linger > 0).then(|| Box::new(Self::new(HoldCounts::new(0, claim.cohort))))
    }

    /// Creates the state for a reader's node that replaces its owner's writer node (a downgrade).
    /// It continues the writer's fencing token and number of hand-offs.
    pub(super) fn of_reader(all: &HoldIndex, token: i64) -> Option<Box<Self>> {
        let line = all.line.as_ref().filter(|line| line.last.0 == token)?;
        Some(Box::new(Self::new(HoldCounts::new(line.last.1, 0))))
    }

    fn new(counts: HoldCounts) -> Self {
        let (transactions, downgrading) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (since, kept_until) = (BootInstant::now(), None);
        Self { counts, since, kept_until, transactions, downgrading }
    }

    /// Returns the state of the same node for a later hold.
    fn after(&self, counts: HoldCounts) -> Self {
        let Self { since, kept_until, .. } = *self;
        Self { since, kept_until, ..Self::new(counts) }
    }

    /// Returns the state after one more hand-off, or `None` if the limit is reached.
    fn next(&self, claim: &AcquireRequest) -> Option<Box<Self>> {
        self.counts.next(claim.cohort).map(|counts| Box::new(self.after(counts)))
    }

    /// Returns the state for a new hold on a kept node. The count of consecutive hand-offs starts
    /// again, because a kept node is reused only if no other client waits.
    pub(super) fn taken_again(&self, claim: &AcquireRequest) -> Self {
        self.after(self.counts.taken_again(claim.cohort))
    }

    /// Returns the state for a kept node, and `true` if it is kept for the first time. Returns
    /// `None` if its `linger` time has passed.
    pub(super) fn kept_for(&self, time: Duration) -> Option<(bool, Box<Self>)> {
        let now = BootInstant::now();
        let until = self.kept_until.unwrap_or_else(|| now.after(time));
        let kept = || Box::new(Self { kept_until: Some(until), ..self.after(self.counts) });
        (now < until).then(|| (self.kept_until.is_none(), kept()))
    }

    /// Returns `true` if the node is still kept at `now`.
    pub(super) fn is_kept_at(&self, now: BootInstant) -> bool {
        self.kept_until.is_some_and(|until| now < until)
    }

    pub(super) fn is_too_old(&self, claim: &AcquireRequest, now: BootInstant) -> bool {
        claim.max_hold.is_some_and(|most| now.since(self.since) >= most)
    }
}

/// A lease for the waiter to which the lock is handed.
///
/// Unlock the mutex of the holds before the delivery. If the waiter has left, the lease is dropped,
/// and the drop locks that mutex.
pub(super) struct HandOff {
    lease: Lease,
    reply: oneshot::Sender<Result<Lease>>,
}

impl HandOff {
    pub(super) fn deliver(self) {
        self.reply.send(Ok(self.lease)).ok();
    }
}

/// Functions for the line of waiters.
impl HoldTable {
    /// Adds an acquire to the line. All acquires in a line request the same kind of hold
    /// (exclusive, read or write).
    pub(crate) fn enqueue_local(
        &self,
        join: JoinId,
        claim: &AcquireRequest,
        reply: oneshot::Sender<Result<Lease>>,
    ) {
        let mut all = self.all();
        let line = all.line.get_or_insert_with(Box::default);
        line.waiting.insert(join, LineWaiter { claim: claim.clone(), reply });
    }

    /// Removes an acquire from the line. Returns `None` if it has already received the lock.
    pub(crate) fn dequeue_local(&self, join: JoinId) -> Option<oneshot::Sender<Result<Lease>>> {
        let mut all = self.all();
        let line = all.line.as_mut()?;
        Some(line.waiting.remove(&join)?.reply)
    }

    /// Records a downgrade: a reader's node will replace this hold's node. Returns `false` if the
    /// hold has ended.
    pub(crate) fn begin_downgrade(&self, id: &HoldId) -> bool {
        let all = self.all();
        let hold = all.by_node(&id.node).filter(|hold| hold.handoffs() == id.handoffs);
        hold.is_some_and(|hold| {
            hold.begin_downgrade(&all);
            true
        })
    }

    /// Returns the first acquire in the line.
    pub(crate) fn first_local(&self) -> Option<JoinId> {
        self.all().line.as_ref()?.waiting.first_key_value().map(|(join, _)| *join)
    }
}

impl HoldIndex {
    /// Stores the number of hand-offs on the node with this token, for a downgrade.
    pub(super) fn note_shared(&mut self, token: i64, node: &SharedNode) {
        self.line.get_or_insert_default().last = (token, node.counts.handoffs());
    }

    /// Returns `true` if an acquire waits in the line.
    pub(super) fn has_local_waiters(&self) -> bool {
        self.line.as_ref().is_some_and(|line| !line.waiting.is_empty())
    }
}

impl Hold {
    /// Returns the number of holds on this node before this one.
    pub(crate) fn handoffs(&self) -> u32 {
        self.shared.as_ref().map_or(0, |node| node.counts.handoffs())
    }

    /// Notes that a reader's node will replace this node.
    pub(super) fn begin_downgrade(&self, _: &HoldIndex) {
        if let Some(node) = &self.shared {
            node.downgrading.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a transaction from its start until its outcome is known.
    pub(super) fn begin_transaction(&self) {
        if let Some(node) = &self.shared {
            let _all = self.holds.all();
            node.transactions.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn end_transaction(&self) {
        if let Some(node) = &self.shared {
            let _all = self.holds.all();
            node.transactions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the node can be handed on or kept after this hold.
    pub(super) fn may_have_successor(&self, node: &SharedNode, all: &HoldIndex) -> bool {
        let facts = HoldFacts {
            held: self.state() == LeaseState::Held,
            revoked: self.state_cell.is_revoked(),
            too_old: node.is_too_old(&self.claim, BootInstant::now()),
            transacting: node.transactions.load(Ordering::Relaxed) > 0,
            downgrading: node.downgrading.load(Ordering::Relaxed),
            beside_writer: self.claim.kind == Kind::Read && all.of(self.claim.owner, Kind::Write).is_some(),
        };
        facts.may_have_successor()
    }

    /// Ends this hold, because its last lease was released, and starts a hold on the same node for
    /// the first waiter in the line. Returns `None` if the line is empty or a hand-off is not
    /// permitted.
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
        // A hand-off needs the same time in the term as a grant: more than a sixth of the session
        // timeout plus the grace.
        let Grant { node, fencing_token, term, .. } = &self.grant;
        let needed = term.interval() + claim.grace.time();
        if claim.kind != self.claim.kind || too_old || term.remaining() <= needed {
            return None;
        }
        let (join, LineWaiter { claim, reply }) = first.remove_entry();
        all.note_shared(*fencing_token, &next);
        all.take(node);
        self.state_cell.change(|state| state.holds().then_some(LeaseState::Released));
        let claim = AcquireRequest { contended: true, ..claim };
        self.holds.note_grant(&claim, node);
        self.holds.recorder.handoff();
        let sent_claim = Box::new(claim.clone());
        let hold = Arc::new(Hold::new(Arc::clone(&self.holds), claim, self.grant.clone(), Some(next)));
        all.add(&hold);
        hold.report(|hold| Notice::HandedOn { hold, join, claim: sent_claim }).ok();
        Some(HandOff { lease: Lease::new(hold), reply })
    }
}
