//! What the driver grants: the holds of a lock directory.
//!
//! Both the driver and the handles use this: re-entry is decided here, on the caller's thread, and a loss is declared
//! here by the first to see it. What the driver must know of it is a [`Notice`]. It goes through [`Report`], because
//! the mailbox, which carries it, is above this file.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
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
use crate::lease::owner::{Owner, OwnerId};
use crate::lease::release::Release;
use crate::lease::report::HoldReport;
use crate::lease::state::{HoldState, LeaseState};
use crate::lease::transaction::WriteOperation;
use crate::metrics::recorder::{Recorder, WaitTimer};
use crate::queue::contender::{Contender, NodeSnapshot};
use crate::queue::{JoinId, Kind, NodeName, SmallMap};
use crate::runtime::clock::BootInstant;
use crate::runtime::fork::ForkGuard;
use crate::runtime::sync::{AtomicBool, AtomicU32, AtomicUsize, Mutex, MutexGuard, Notify, OnceLock};
use crate::session::term::Term;

/// How many nodes with permits are remembered.
const REMEMBERED: usize = 1_000;

/// Names a hold: several may follow each other on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HoldId {
    pub(crate) node: NodeName,
    /// How many holds there were on the node before.
    pub(crate) handoffs: u32,
}

/// What the driver is told about a hold.
pub(crate) enum Notice {
    /// The last lease was released. A hold that is lost, and has a grace, ends with it too.
    Released { node: NodeName, release: Release },
    /// The hold that comes after so many on this node begins, of the waiter with this claim; the hold before it has ended.
    HandedOn { hold: HoldId, join: JoinId, claim: Box<AcquireRequest> },
    /// For the first time nobody holds through this node, which is kept for so long.
    Kept { node: NodeName, time: Duration },
    /// This hold with this claim has begun on a node that was kept.
    Retaken { hold: HoldId, claim: Box<AcquireRequest> },
    /// A holder found that its time is over, for this reason.
    Expired { hold: HoldId, reason: LossReason },
    /// A holder wants to be told at once when it is asked to give up the lock: its node must be watched.
    Listening { node: NodeName },
    /// These operations are to be carried out, if the node exists.
    Transact { node: NodeName, operations: Vec<WriteOperation>, reply: oneshot::Sender<Result<()>> },
}

/// Where notices of the holds in a directory go: to the driver.
pub(crate) trait Report: Send + Sync {
    /// Takes a notice. Fails in a forked child, and once the client is closed.
    fn report(&self, directory: &Arc<str>, notice: Notice) -> Result<()>;

    /// The error for a reply that will never come.
    fn no_answer(&self) -> Error;

    /// Whether a server has answered anything since then.
    fn heard_since(&self, since: Instant) -> bool;
}

/// What a contender claims; the same when it waits and when it holds.
#[derive(Clone)]
pub(crate) struct AcquireRequest {
    pub(crate) owner: OwnerId,
    /// The caller that asked for it: the owner itself, or, without re-entry, the flow of control that the owner was made for.
    pub(crate) caller: Owner,
    pub(crate) kind: Kind,
    /// The label of its lock.
    pub(crate) label: Option<Arc<str>>,
    /// When its caller began to wait; `None` for a claim that does not count as a hold.
    pub(crate) since: Option<Instant>,
    /// Whether it had to wait for another contender.
    pub(crate) contended: bool,
    /// For how long it may hold the lock, if that is limited.
    pub(crate) max_hold: Option<Duration>,
    /// How long before the end of its term it is lost.
    pub(crate) grace: Grace,
    /// How many holds there may be on one node, if it may be handed from one to the next: more than one.
    pub(crate) cohort: u16,
    /// For how long its node is kept after the first release, in milliseconds; 0 if it is not.
    pub(crate) linger: u32,
}

/// How long before the end of its term a lease is lost, in whole milliseconds: there is one for each waiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grace(u32);

impl Grace {
    /// This long, rounded down: a sixth of a session time-out is seldom whole, and must not become more. Not to nothing.
    pub(crate) fn of(time: Duration) -> Self {
        let whole = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Self(if time.is_zero() { 0 } else { whole.max(1) })
    }

    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn time(self) -> Duration {
        Duration::from_millis(self.0.into())
    }

    pub(crate) fn millis(self) -> u32 {
        self.0
    }
}

impl AcquireRequest {
    /// Of a caller that has waited like this; `None` for a claim that does not count as a hold.
    pub(crate) fn new(caller: Owner, kind: Kind, wait: Option<WaitTimer>) -> Self {
        let contended = wait.is_some_and(|wait| wait.contended);
        let (since, grace) = (wait.map(|wait| wait.since), Grace::default());
        Self {
            owner: caller.id(),
            caller,
            kind,
            label: None,
            since,
            contended,
            max_hold: None,
            grace,
            cohort: 0,
            linger: 0,
        }
    }

    /// Whether it is a part of a semaphore's attempt, which counts its own outcome: a turn, or one of several permits.
    pub(crate) fn is_part(&self) -> bool {
        self.since.is_none() || matches!(self.kind, Kind::Permit(_))
    }
}

/// What a claim was granted through.
#[derive(Clone)]
pub(crate) struct Grant {
    pub(crate) node: NodeName,
    pub(crate) fencing_token: i64,
    pub(crate) session_id: i64,
    pub(crate) term: Arc<Term>,
}

/// The holds of one client in one lock directory. They are the same for all lock objects on one client and path, so
/// re-entry goes by owner and path, not by object.
pub(crate) struct HoldTable {
    pub(crate) place: LockPath,
    pub(crate) origin: ForkGuard,
    pub(crate) recorder: Arc<Recorder>,
    driver: Arc<dyn Report>,
    all: Mutex<HoldIndex>,
    permit_news: OnceLock<Box<PermitNews>>,
}

/// Holds, by node and by owner: thousands of readers may hold together, and each question is about one of them.
#[derive(Default)]
pub(crate) struct HoldIndex {
    by_node: SmallMap<NodeName, Arc<Hold>>,
    by_owner: HashMap<OwnerId, Owned, BuildHasherDefault<OwnerHasher>>,
    /// The waiters of this client that a holder may hand the lock to. Most locks have none.
    pub(super) line: Option<Box<LocalLine>>,
    /// The nodes that are kept though nobody holds through them.
    pub(super) kept: Option<Box<Lingering>>,
}

/// The holds of an owner: nearly always one.
struct Owned {
    first: Arc<Hold>,
    others: Vec<Arc<Hold>>,
}

/// Spreads owners over a map. They are numbered one after the other, and nobody else chooses the numbers.
#[derive(Default)]
struct OwnerHasher(u64);

impl Hasher for OwnerHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("an owner is a number");
    }

    fn write_u64(&mut self, number: u64) {
        // The map takes the bucket from the lowest bits and a tag from the highest: both must differ from one to the next.
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Knowledge that the semaphores on one directory share, besides their leases. Other locks have none.
#[derive(Default)]
pub(crate) struct PermitNews {
    /// Told whenever contenders of this client were seen to wait for permits.
    pub(crate) waiting: Notify,
    /// The number of permits that was last compared with the others', 0 if none was.
    pub(crate) compared: AtomicU32,
    /// Whether a number of permits was found in a node.
    pub(crate) number_seen: AtomicBool,
    /// The nodes that there were when one of ours last began to wait for permits. As long as it waits nobody else adds
    /// any: those of them that are still there have the permits (rule 17).
    seen: Mutex<Option<NodeSnapshots>>,
}

/// Nodes, each with its snapshot.
struct NodeSnapshots(Vec<(NodeName, Arc<NodeSnapshot>)>);

impl PermitNews {
    /// Remembers the nodes that there are.
    pub(crate) fn remember(&self, contenders: &[Contender]) {
        let seen = contenders.iter().take(REMEMBERED).filter_map(|contender| {
            let name = NodeName::parse(contender.node.rsplit('/').next()?)?;
            Some((name, Arc::new(contender.snapshot())))
        });
        *self.seen() = Some(NodeSnapshots(seen.collect()));
    }

    /// A snapshot of a node.
    pub(crate) fn snapshot(&self, node: &NodeName) -> Option<Arc<NodeSnapshot>> {
        let seen = self.seen();
        let (_, snapshot) = seen.as_ref()?.0.iter().find(|(name, _)| name == node)?;
        Some(Arc::clone(snapshot))
    }

    fn seen(&self) -> MutexGuard<'_, Option<NodeSnapshots>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One hold of one lock, with a lease for each of its levels.
pub(crate) struct Hold {
    pub(crate) holds: Arc<HoldTable>,
    pub(crate) claim: AcquireRequest,
    pub(crate) grant: Grant,
    /// When it began, if it counts.
    began: Option<Instant>,
    /// When it has lasted for as long as it may, by the clock that goes on while the machine is suspended.
    until: Option<BootInstant>,
    /// Those that wait for it do not keep the hold.
    pub(crate) fate: Arc<HoldState>,
    /// The leases that have not been released yet. Used only while [`HoldIndex`] is borrowed, which orders its changes.
    levels: AtomicUsize,
    /// Those of them that something keeps for the program; see [`levels`](Self::levels).
    pins: AtomicUsize,
    /// Whether the program was warned that it forgot this hold.
    forgotten: AtomicBool,
    /// The facts that it shares with the others on its node, if it may be handed on.
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
    /// The holds of a client that was created in a process, whose driver is told about them.
    pub(crate) fn new(
        place: LockPath,
        origin: ForkGuard,
        recorder: Arc<Recorder>,
        driver: Arc<dyn Report>,
    ) -> Self {
        Self { place, origin, recorder, driver, all: Mutex::default(), permit_news: OnceLock::new() }
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, HoldIndex> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The knowledge that the semaphores on this directory share. Created on first use, since most locks are none.
    pub(crate) fn permit_news(&self) -> &PermitNews {
        self.permit_news.get_or_init(Box::default)
    }

    /// Whether a server has answered anything since then.
    pub(crate) fn heard_since(&self, since: Instant) -> bool {
        self.driver.heard_since(since)
    }

    pub(crate) fn owned_by(&self, owner: OwnerId, kind: Kind) -> bool {
        self.all().of(owner, kind).is_some()
    }

    /// The owner that asked for the hold through a node.
    pub(crate) fn caller(&self, node: &NodeName) -> Option<OwnerId> {
        self.all().by_node.get(node).map(|hold| hold.claim.caller.id())
    }

    /// The grace of the hold through a node.
    pub(crate) fn grace(&self, node: &NodeName) -> Option<Grace> {
        self.all().through(node).map(|hold| hold.claim.grace)
    }

    /// Tells the hold through a node whether it is disconnected from the server.
    pub(crate) fn suspend(&self, node: &NodeName, suspended: bool) {
        let (from, to) = if suspended {
            (LeaseState::Held, LeaseState::Suspended)
        } else {
            (LeaseState::Suspended, LeaseState::Held)
        };
        if let Some(hold) = self.all().by_node.get(node) {
            hold.fate.change(|state| (state == from).then_some(to));
        }
    }

    /// Tells the hold through a node to give up the lock. Returns whether there is one.
    pub(crate) fn revoke(&self, node: &NodeName) -> bool {
        self.all().by_node.get(node).is_some_and(|hold| {
            hold.fate.revoke();
            true
        })
    }

    /// Reports the hold through a node, if it counts.
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

    /// Declares the hold through a node lost, whichever of those on the node it is, or a node that is kept. Returns false if
    /// there is none: its release is on its way.
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

    /// The same for one of the holds on its node. `None` if that is over, and the node was handed on or is kept.
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
        match self.by_owner.entry(hold.claim.owner) {
            Entry::Occupied(owned) => owned.into_mut().others.push(Arc::clone(hold)),
            Entry::Vacant(none) => {
                none.insert(Owned { first: Arc::clone(hold), others: Vec::new() });
            }
        }
    }

    /// The hold of this kind that an owner has.
    pub(crate) fn of(&self, owner: OwnerId, kind: Kind) -> Option<&Arc<Hold>> {
        let Owned { first, others } = self.by_owner.get(&owner)?;
        if first.is_of(kind) { Some(first) } else { others.iter().find(|hold| hold.is_of(kind)) }
    }

    /// The hold through a node.
    pub(super) fn through(&self, node: &NodeName) -> Option<&Arc<Hold>> {
        self.by_node.get(node)
    }

    /// Whether this hold is the one through its node.
    pub(super) fn is_current(&self, hold: &Hold) -> bool {
        self.through(&hold.grant.node).is_some_and(|current| std::ptr::eq(&raw const **current, hold))
    }

    /// Removes the hold through a node: it ends.
    pub(crate) fn take(&mut self, node: &NodeName) -> Option<Arc<Hold>> {
        let hold = self.by_node.remove(node)?;
        let owner = hold.claim.owner;
        if let Some(Owned { first, others }) = self.by_owner.get_mut(&owner) {
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
    /// With one level, beginning now, and with what it knows of the others on its node.
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
            fate: Arc::default(),
            levels: AtomicUsize::new(1),
            pins: AtomicUsize::new(0),
            forgotten: AtomicBool::new(false),
            shared,
        }
    }

    /// Its name for the driver.
    pub(super) fn id(&self) -> HoldId {
        HoldId { node: self.grant.node.clone(), handoffs: self.handoffs() }
    }

    /// One lease more.
    pub(crate) fn begin_level(&self, _: &HoldIndex) {
        self.levels.store(self.levels.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// One lease less. Returns how many are left.
    pub(crate) fn end_level(&self, _: &HoldIndex) -> usize {
        let left = self.levels.load(Ordering::Relaxed) - 1;
        self.levels.store(left, Ordering::Relaxed);
        left
    }

    /// Something keeps one lease more.
    pub(crate) fn pin(&self, _: &HoldIndex) {
        self.pins.store(self.pins.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Something keeps one lease less.
    pub(crate) fn unpin(&self, _: &HoldIndex) {
        self.pins.store(self.pins.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Notes that the program is warned of this hold. Returns false if it was warned before.
    pub(crate) fn forget(&self) -> bool {
        !self.forgotten.swap(true, Ordering::Relaxed)
    }

    /// How long it has lasted. Zero for one that does not count.
    pub(crate) fn lasted(&self) -> Duration {
        self.began.map(|began| began.elapsed()).unwrap_or_default()
    }

    fn is_of(&self, kind: Kind) -> bool {
        self.claim.kind == kind && self.state().holds()
    }

    /// Tells the driver.
    pub(crate) fn report(&self, notice: impl FnOnce(HoldId) -> Notice) -> Result<()> {
        self.holds.driver.report(self.holds.place.full(), notice(self.id()))
    }

    /// The error for a reply from the driver that will never come.
    pub(crate) fn no_answer(&self) -> Error {
        self.holds.driver.no_answer()
    }

    /// The state by the clock: a timer may be late, as after the machine was suspended. A loss that was seen is final.
    pub(crate) fn state(&self) -> LeaseState {
        match self.seen() {
            LeaseState::Lost(reason) => {
                if self.fate.state().holds() && self.lose(reason) {
                    self.report(|hold| Notice::Expired { hold, reason }).ok();
                }
                self.fate.state()
            }
            seen => seen,
        }
    }

    /// The same, without telling anyone that its time is over.
    fn seen(&self) -> LeaseState {
        let state = self.fate.state();
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

    /// Whether more than the grace is left of the term. Without a grace it is not worked out how much is left: every
    /// re-entry asks.
    fn is_in_term(&self) -> bool {
        let (term, grace) = (&self.grant.term, self.claim.grace);
        if grace.is_zero() { term.runs() } else { term.remaining() > grace.time() }
    }

    /// For how long it may still be held, if that is limited.
    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.since(BootInstant::now()))
    }

    /// For how long it is certain, if nobody breaks it and it is not lost already.
    pub(crate) fn remaining(&self) -> Duration {
        let term = self.grant.term.remaining().saturating_sub(self.claim.grace.time());
        self.left().map_or(term, |left| left.min(term))
    }

    /// Changes the state to lost. Returns whether it was not lost before.
    fn lose(&self, reason: LossReason) -> bool {
        let (path, node) = (Escaped(self.holds.place.path()), Escaped(self.grant.node.as_str()));
        let accident = reason != LossReason::ClientClosed;
        let lost = self.fate.change(|state| {
            // Counted before anyone is told.
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

    /// The state of the hold, or of one of its leases.
    pub(crate) fn check(&self, state: LeaseState) -> Result<()> {
        self.holds.origin.check()?;
        match state {
            LeaseState::Held | LeaseState::Suspended => Ok(()),
            LeaseState::Lost(reason) => {
                let message = format!(
                    "the lock {:?} is lost: {reason}; another client may hold it. Stop what it protects, then acquire \
                     it again",
                    self.holds.place.path()
                );
                Err(Error::lost(reason, message))
            }
            LeaseState::Released => Err(Error::released()),
        }
    }
}
