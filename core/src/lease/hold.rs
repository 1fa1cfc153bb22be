//! The holds in a lock directory. A *hold* is the period in which an owner holds a lock through one
//! node. Each acquire of the owner adds a lease to the hold. A *level* is the state of one lease.
//!
//! The driver and the leases use this module. The caller's thread decides about a re-entry, and the
//! first thread that notices a loss declares it. A [`Notice`] informs the driver about these
//! changes. The trait [`Report`] makes this module independent of the driver.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::lock_path::LockPath;
use crate::error::escape::Escaped;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, Result};
use crate::lease::cohort::{LocalLine, SharedNode};
use crate::lease::linger::Lingering;
use crate::lease::owner::OwnerId;
use crate::lease::permit_state::PermitState;
use crate::lease::release::Release;
use crate::lease::report::HoldReport;
use crate::lease::request::{AcquireRequest, Grace};
use crate::lease::state::{HoldState, LeaseState};
use crate::lease::transaction::WriteOperation;
use crate::metrics::recorder::Recorder;
use crate::queue::{JoinId, Kind, NodeName, SmallMap};
use crate::runtime::clock::BootInstant;
use crate::runtime::fork::ForkGuard;
use crate::runtime::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, OnceLock};
use crate::session::term::Term;

/// Identifies a hold by its node and its number on that node. The node alone is not enough: several
/// holds can follow one another on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HoldId {
    pub(crate) node: NodeName,
    /// Number of holds on the node before this one.
    pub(crate) handoffs: u32,
}

/// A message to the driver about a hold.
pub(crate) enum Notice {
    /// The last lease of a hold was released. Also sent after a loss if the lock has a `grace`,
    /// because the node can then still exist.
    Released { node: NodeName, release: Release },
    /// The previous holder has handed the node to the waiter `join`, whose request is `claim`.
    HandedOn { hold: HoldId, join: JoinId, claim: Box<AcquireRequest> },
    /// The node is now kept without a hold for this time. Sent only for the first time that the
    /// node is kept.
    Kept { node: NodeName, time: Duration },
    /// A hold with this request has begun on a kept node.
    Retaken { hold: HoldId, claim: Box<AcquireRequest> },
    /// The holder noticed the end of the hold, for this reason.
    Expired { hold: HoldId, reason: LossReason },
    /// Watch the node, because the holder wants to know when another client asks for the lock.
    WatchNode { node: NodeName },
    /// Apply these operations if the node exists.
    Transact { node: NodeName, operations: Vec<WriteOperation>, reply: oneshot::Sender<Result<()>> },
}

/// The receiver of notices about the holds in a directory. The driver's mailbox implements it.
pub(crate) trait Report: Send + Sync {
    /// Sends a notice to the driver. Fails in a forked child, and after the client is closed.
    fn report(&self, directory: &Arc<str>, notice: Notice) -> Result<()>;

    /// Returns the error for a reply that did not arrive.
    fn no_answer(&self) -> Error;

    /// Returns `true` if a server has replied to any request since `since`.
    fn heard_since(&self, since: Instant) -> bool;
}

/// The result of a granted request.
#[derive(Clone)]
pub(crate) struct Grant {
    pub(crate) node: NodeName,
    pub(crate) fencing_token: i64,
    pub(crate) session_id: i64,
    pub(crate) term: Arc<Term>,
}

/// The holds of one client in one lock directory.
///
/// All lock objects with the same client and path share one table, so an owner can re-enter its
/// lock through any of these objects.
pub(crate) struct HoldTable {
    pub(crate) place: LockPath,
    pub(crate) origin: ForkGuard,
    pub(crate) recorder: Arc<Recorder>,
    driver: Arc<dyn Report>,
    all: Mutex<HoldIndex>,
    permit_state: OnceLock<Box<PermitState>>,
}

/// Index of the holds by node and by owner. Lookups are fast even if thousands of readers hold the
/// lock.
#[derive(Default)]
pub(crate) struct HoldIndex {
    by_node: SmallMap<NodeName, Arc<Hold>>,
    by_owner: SmallMap<OwnerId, OwnerHolds>,
    /// Waiters of this client to which a holder can hand the lock. `None` for most locks.
    pub(super) line: Option<Box<LocalLine>>,
    /// Nodes that are kept without a hold.
    pub(super) kept: Option<Box<Lingering>>,
}

/// The holds of one owner: nearly always one.
struct OwnerHolds {
    first: Arc<Hold>,
    others: Vec<Arc<Hold>>,
}

/// One hold of one lock. Each of its levels has a lease.
pub(crate) struct Hold {
    pub(crate) holds: Arc<HoldTable>,
    pub(crate) claim: AcquireRequest,
    pub(crate) grant: Grant,
    /// Time when the hold began. `None` for an internal hold (such as the mutex of a semaphore),
    /// which reports and metrics omit.
    began: Option<Instant>,
    /// Time at which `max_hold` is reached. This clock also runs while the machine is suspended.
    until: Option<BootInstant>,
    /// The state of the hold. Futures that wait for a change share it, so they do not keep the hold
    /// itself alive.
    pub(crate) state_cell: Arc<HoldState>,
    /// Number of leases that are not released. Only accessed while [`HoldIndex`] is locked.
    levels: AtomicUsize,
    /// Number of these leases that the library keeps although the program has dropped them. Only
    /// accessed while [`HoldIndex`] is locked.
    pins: AtomicUsize,
    /// True if the program was warned that it forgot this hold.
    forgotten: AtomicBool,
    /// State that all holds on the node share. `None` if the node can have only one hold.
    pub(super) shared: Option<Box<SharedNode>>,
}

impl std::fmt::Debug for HoldTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holds").field("place", &self.place).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("node", &self.grant.node).finish_non_exhaustive()
    }
}

impl HoldTable {
    /// Creates an empty table. `origin` is the process to which the client belongs. Notices are
    /// sent to `driver`.
    pub(crate) fn new(
        place: LockPath,
        origin: ForkGuard,
        recorder: Arc<Recorder>,
        driver: Arc<dyn Report>,
    ) -> Self {
        Self { place, origin, recorder, driver, all: Mutex::default(), permit_state: OnceLock::new() }
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, HoldIndex> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state that the semaphores in this directory share. Created on first use, because
    /// most locks are not semaphores.
    pub(crate) fn permit_state(&self) -> &PermitState {
        self.permit_state.get_or_init(Box::default)
    }

    pub(crate) fn heard_since(&self, since: Instant) -> bool {
        self.driver.heard_since(since)
    }

    pub(crate) fn owned_by(&self, owner: OwnerId, kind: Kind) -> bool {
        self.all().of(owner, kind).is_some()
    }

    /// Returns the owner that requested the hold on a node.
    pub(crate) fn caller(&self, node: &NodeName) -> Option<OwnerId> {
        self.all().by_node.get(node).map(|hold| hold.claim.caller.id())
    }

    /// Returns the grace of the hold on a node.
    pub(crate) fn grace(&self, node: &NodeName) -> Option<Grace> {
        self.all().by_node(node).map(|hold| hold.claim.grace)
    }

    /// Marks the hold on a node as suspended or as held again.
    pub(crate) fn suspend(&self, node: &NodeName, suspended: bool) {
        let (from, to) = if suspended {
            (LeaseState::Held, LeaseState::Suspended)
        } else {
            (LeaseState::Suspended, LeaseState::Held)
        };
        if let Some(hold) = self.all().by_node.get(node) {
            hold.state_cell.change(|state| (state == from).then_some(to));
        }
    }

    /// Notifies the hold on a node that another client asks for the lock. Returns `true` if there
    /// is a hold.
    pub(crate) fn revoke(&self, node: &NodeName) -> bool {
        self.all().by_node.get(node).is_some_and(|hold| {
            hold.state_cell.revoke();
            true
        })
    }

    /// Returns a report on the hold on a node. Returns `None` if there is no hold, or for an
    /// internal hold (such as the mutex of a semaphore).
    pub(crate) fn report(&self, node: &NodeName) -> Option<HoldReport> {
        let all = self.all();
        let hold = all.by_node.get(node)?;
        let state = hold.seen();
        Some(HoldReport {
            path: self.place.path().to_owned(),
            mode: hold.claim.kind.into(),
            owner: hold.claim.caller.clone(),
            label: hold.claim.label.as_deref().map(str::to_owned),
            node: format!("{}/{}", self.place.directory(), node.as_str()),
            fencing_token: hold.grant.fencing_token,
            age: hold.began?.elapsed(),
            levels: hold.levels.load(Ordering::Relaxed),
            pinned: hold.pins.load(Ordering::Relaxed) > 0,
            state,
            remaining: if state.holds() { hold.remaining() } else { Duration::ZERO },
        })
    }

    /// Marks the current hold on a node as lost. If the node is kept without a hold, stops keeping
    /// it.
    ///
    /// Returns `false` if the program has already released the lock and the driver has not yet
    /// received the notice.
    pub(crate) fn lose(&self, node: &NodeName, reason: LossReason) -> bool {
        let mut all = self.all();
        if all.forget_kept(node) {
            return true;
        }
        let lost = all.take(node);
        drop(all);
        lost.is_some_and(|hold| {
            hold.lose(reason);
            true
        })
    }

    /// Marks the hold with this id as lost. Returns `None` if the node now has a later hold or is
    /// kept without a hold.
    pub(crate) fn lose_unless_handed_on(&self, id: &HoldId, reason: LossReason) -> Option<bool> {
        let mut all = self.all();
        let current = all.by_node.get(&id.node).map(|hold| hold.handoffs());
        if current.is_some_and(|handoffs| handoffs != id.handoffs) || all.is_kept(&id.node) {
            return None;
        }
        let lost = all.take(&id.node);
        drop(all);
        Some(lost.is_some_and(|hold| {
            hold.lose(reason);
            true
        }))
    }
}

impl HoldIndex {
    pub(crate) fn add(&mut self, hold: &Arc<Hold>) {
        self.by_node.insert(hold.grant.node.clone(), Arc::clone(hold));
        let owner = hold.claim.owner;
        if let Some(owned) = self.by_owner.get_mut(&owner) {
            owned.others.push(Arc::clone(hold));
        } else {
            self.by_owner.insert(owner, OwnerHolds { first: Arc::clone(hold), others: Vec::new() });
        }
    }

    /// Returns the owner's hold of this kind.
    pub(crate) fn of(&self, owner: OwnerId, kind: Kind) -> Option<&Arc<Hold>> {
        let OwnerHolds { first, others } = self.by_owner.get(&owner)?;
        if first.is_of(kind) { Some(first) } else { others.iter().find(|hold| hold.is_of(kind)) }
    }

    /// Returns the hold on a node.
    pub(super) fn by_node(&self, node: &NodeName) -> Option<&Arc<Hold>> {
        self.by_node.get(node)
    }

    /// Returns `true` if `hold` is the current hold on its node.
    pub(super) fn is_current(&self, hold: &Hold) -> bool {
        self.by_node(&hold.grant.node).is_some_and(|current| std::ptr::eq(&raw const **current, hold))
    }

    /// Removes the hold on a node, because it ends.
    pub(crate) fn take(&mut self, node: &NodeName) -> Option<Arc<Hold>> {
        let hold = self.by_node.remove(node)?;
        let owner = hold.claim.owner;
        if let Some(OwnerHolds { first, others }) = self.by_owner.get_mut(&owner) {
            others.retain(|other| !Arc::ptr_eq(other, &hold));
            if Arc::ptr_eq(first, &hold) {
                if others.is_empty() {
                    self.by_owner.remove(&owner);
                } else {
                    *first = others.remove(0);
                }
            }
        }
        if let Some(began) = hold.began {
            let lasted = began.elapsed();
            hold.holds.recorder.ended(lasted);
            let (path, node) = (Escaped(hold.holds.place.path()), Escaped(hold.grant.node.as_str()));
            tracing::debug!(%path, %node, ?lasted, "no longer held");
        }
        Some(hold)
    }
}

impl Hold {
    /// Creates a hold with one level. It begins now.
    pub(super) fn new(
        holds: Arc<HoldTable>,
        claim: AcquireRequest,
        grant: Grant,
        shared: Option<Box<SharedNode>>,
    ) -> Self {
        Self {
            holds,
            began: claim.since.map(|_| Instant::now()),
            until: claim.max_hold.map(|time| BootInstant::now().after(time)),
            claim,
            grant,
            state_cell: Arc::default(),
            levels: AtomicUsize::new(1),
            pins: AtomicUsize::new(0),
            forgotten: AtomicBool::new(false),
            shared,
        }
    }

    /// Returns the id of this hold.
    pub(super) fn id(&self) -> HoldId {
        HoldId { node: self.grant.node.clone(), handoffs: self.handoffs() }
    }

    /// Adds one lease.
    pub(crate) fn begin_level(&self, _: &HoldIndex) {
        self.levels.store(self.levels.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Removes one lease. Returns the number of leases that are left.
    pub(crate) fn end_level(&self, _: &HoldIndex) -> usize {
        let left = self.levels.load(Ordering::Relaxed) - 1;
        self.levels.store(left, Ordering::Relaxed);
        left
    }

    /// Counts one more lease that the library keeps.
    pub(crate) fn pin(&self, _: &HoldIndex) {
        self.pins.store(self.pins.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts one fewer lease that the library keeps.
    pub(crate) fn unpin(&self, _: &HoldIndex) {
        self.pins.store(self.pins.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Returns `true` on the first call: the program must be warned that it forgot this hold.
    pub(crate) fn forget(&self) -> bool {
        !self.forgotten.swap(true, Ordering::Relaxed)
    }

    /// Returns the duration of the hold so far, or zero for an internal hold.
    pub(crate) fn lasted(&self) -> Duration {
        self.began.map(|began| began.elapsed()).unwrap_or_default()
    }

    fn is_of(&self, kind: Kind) -> bool {
        self.claim.kind == kind && self.state().holds()
    }

    /// Sends a notice to the driver.
    pub(crate) fn report(&self, notice: impl FnOnce(HoldId) -> Notice) -> Result<()> {
        self.holds.driver.report(self.holds.place.full(), notice(self.id()))
    }

    pub(crate) fn no_answer(&self) -> Error {
        self.holds.driver.no_answer()
    }

    /// Returns the current state. If the hold is lost according to the clock, declares the loss and
    /// reports it to the driver.
    ///
    /// A timer would be too late in some cases, for example after the machine was suspended. A
    /// declared loss is final.
    pub(crate) fn state(&self) -> LeaseState {
        match self.seen() {
            LeaseState::Lost(reason) => {
                if self.state_cell.state().holds() && self.lose(reason) {
                    self.report(|hold| Notice::Expired { hold, reason }).ok();
                }
                self.state_cell.state()
            }
            seen => seen,
        }
    }

    /// Returns the state according to the clock. Does not record a loss.
    fn seen(&self) -> LeaseState {
        let state = self.state_cell.state();
        if !state.holds() {
            state
        } else if !self.is_in_term() {
            LeaseState::Lost(LossReason::TermEnded)
        } else if self.left().is_some_and(|left| left.is_zero()) {
            LeaseState::Lost(LossReason::HeldTooLong)
        } else {
            state
        }
    }

    /// Returns `true` if the time left in the term is longer than the grace.
    ///
    /// Without a grace, this function does not compute the rest of the term: it must be fast,
    /// because every re-entry calls it.
    fn is_in_term(&self) -> bool {
        let (term, grace) = (&self.grant.term, self.claim.grace);
        if grace.is_zero() { term.runs() } else { term.remaining() > grace.time() }
    }

    /// Returns the time until `max_hold` is reached, or `None` if the request has no `max_hold`.
    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.since(BootInstant::now()))
    }

    /// Returns the time for which the hold is certain to continue, unless an operator breaks the
    /// lock. Does not check whether the hold is already lost.
    pub(crate) fn remaining(&self) -> Duration {
        let term = self.grant.term.remaining().saturating_sub(self.claim.grace.time());
        self.left().map_or(term, |left| left.min(term))
    }

    /// Sets the state to lost. Returns `true` if the hold was not lost or released before.
    fn lose(&self, reason: LossReason) -> bool {
        let (path, node) = (Escaped(self.holds.place.path()), Escaped(self.grant.node.as_str()));
        let accident = reason != LossReason::ClientClosed;
        let lost = self.state_cell.change(|state| {
            // Count the loss before any waiter learns of it.
            if state.holds() && self.began.is_some() && accident {
                self.holds.recorder.lost(reason);
            }
            state.holds().then_some(LeaseState::Lost(reason))
        });
        match (lost, accident) {
            (true, true) => {
                let (token, lasted) = (self.grant.fencing_token.to_string(), self.lasted());
                let last_proof = self.grant.term.proof_age().unwrap_or_default();
                tracing::warn!(%path, %node, %reason, %token, ?lasted, ?last_proof, "lock lost");
            }
            (true, false) => tracing::debug!(%path, %node, %reason, "lock lost"),
            (false, _) => {}
        }
        lost
    }

    /// Returns an error unless the lock can be used. `state` is the state of this hold, or of one
    /// of its leases.
    pub(crate) fn check(&self, state: LeaseState) -> Result<()> {
        self.holds.origin.check()?;
        match state {
            LeaseState::Held | LeaseState::Suspended => Ok(()),
            LeaseState::Lost(reason) => {
                let message = format!(
                    "the lock {:?} is lost: {reason}; another client might hold it. Stop the work that it protects, \
                     then acquire it again",
                    self.holds.place.path()
                );
                Err(Error::lost(reason, message))
            }
            LeaseState::Released => Err(Error::released()),
        }
    }
}
