//! What a successful acquire returns: proof of holding.
//!
//! The driver answers with it too: a lease that no one receives is dropped like any other, and so released exactly
//! once, whether the caller, the reply's channel or the driver is the last to have it.

mod cohort;
mod forgotten;
pub(crate) mod hold;
pub(crate) mod lease_set;
pub(crate) mod linger;
pub(crate) mod mode;
pub(crate) mod owner;
pub(crate) mod release;
pub(crate) mod report;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod transaction;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::cohort::SharedNode;
use self::hold::{AcquireRequest, Grant, Hold, HoldId, HoldTable, Notice};
use self::owner::{Owner, OwnerId};
use self::release::{LateLossReporter, Level, OwnLevel, Release, ReleaseWaiter, Releasing};
use self::state::LeaseState;
use self::transaction::Transaction;
use crate::config::timeout::Timeout;
use crate::error::escape::Escaped;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::mode::LockMode;
use crate::queue::{Intent, Kind, NodeName};
use crate::runtime::sync::AtomicBool;
use crate::session::term::Term;

pub use self::forgotten::{Forgotten, on_forgotten};

/// A wait that is long enough to be logged.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// How an owner's request for a lock proceeds.
pub(crate) enum EnterOutcome {
    /// It holds already: one level more.
    Reentered(Lease),
    /// It queues, for this.
    Queues(Intent),
}

/// The two ways in which leases come about.
impl HoldTable {
    /// Re-enters without a request if `owner` holds the lock; says how to queue otherwise. A reader is refused the
    /// write lock: it would wait for itself.
    pub(crate) fn enter(&self, owner: OwnerId, kind: Kind, intent: Intent) -> Result<EnterOutcome> {
        let holds = self.all();
        let held = |kind: Kind| holds.of(owner, kind);
        if let Some(hold) = held(kind) {
            hold.begin_level(&holds);
            return Ok(EnterOutcome::Reentered(Lease::new(Arc::clone(hold))));
        }
        match (kind, held(Kind::Read), held(Kind::Write)) {
            (Kind::Read, _, Some(writer)) => {
                writer.begin_downgrade(&holds);
                Ok(EnterOutcome::Queues(intent.in_place_of(writer.grant.node.clone())))
            }
            (Kind::Write, Some(_), _) => Err(self.upgrade_refused()),
            _ => Ok(EnterOutcome::Queues(intent)),
        }
    }

    pub(crate) fn upgrade_refused(&self) -> Error {
        let message = format!(
            "{:?} is held for reading, and a reader that asks for the write lock would wait for itself; release the read lock first",
            self.place.path()
        );
        Error::new(ErrorKind::UpgradeRefused, message)
    }

    /// Counts and logs a grant.
    fn note_grant(&self, claim: &AcquireRequest, node: &NodeName) {
        let Some(since) = claim.since else { return };
        let (waited, contended) = (since.elapsed(), claim.contended);
        self.recorder.acquired(waited, contended);
        let (path, node) = (Escaped(self.place.path()), Escaped(node.as_str()));
        if waited >= LONG_WAIT {
            tracing::info!(%path, %node, ?waited, contended, "acquired, after a long wait");
        } else {
            tracing::debug!(%path, %node, ?waited, contended, "acquired");
        }
    }

    /// Records a grant; its first level is the lease returned.
    pub(crate) fn grant(self: &Arc<Self>, claim: AcquireRequest, grant: Grant) -> Lease {
        self.note_grant(&claim, &grant.node);
        let mut all = self.all();
        let of_writer = SharedNode::of_reader(&all, grant.fencing_token).filter(|_| claim.kind == Kind::Read);
        let shared = of_writer.or_else(|| SharedNode::first(&claim));
        let hold = Arc::new(Hold::new(Arc::clone(self), claim, grant, shared));
        all.add(&hold);
        drop(all);
        Lease::new(hold)
    }
}

/// Proof of holding a lock. Dropping it releases it in the background.
///
/// Every successful acquire returns a lease of its own; those of one owner on one path share node, token and
/// state, and the last one released frees the lock.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let lock = zklock::Mutex::new(client, "/locks/report")?;
/// let lease = lock.acquire().await?;
/// println!("token {}, for {:?} at least", lease.fencing_token(), lease.remaining());
/// tokio::select! {
///     () = async { /* the work */ } => lease.check()?,
///     reason = lease.lost() => println!("stop: {reason}"),
/// }
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease that is dropped releases the lock at once: keep it for as long as the lock is needed"]
pub struct Lease {
    hold: Arc<Hold>,
    level: OwnLevel,
    /// Whether a garbage collector drops it: then that is a mistake while the lock is held.
    collectable: bool,
    /// Whether it counts as a pin of its hold.
    pinned: AtomicBool,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("path", &self.path())
            .field("node", &self.hold.grant.node)
            .field("fencing_token", &self.fencing_token())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Lease {
    fn new(hold: Arc<Hold>) -> Self {
        Self::with_level(hold, OwnLevel::default())
    }

    /// What is left of a level of the same hold that was released and dropped.
    pub(crate) fn remains(&self) -> Self {
        Self::with_level(Arc::clone(&self.hold), OwnLevel::over())
    }

    fn with_level(hold: Arc<Hold>, level: OwnLevel) -> Self {
        Self { hold, level, collectable: false, pinned: AtomicBool::new(false) }
    }

    /// The lock path, as given when the lock was created.
    #[must_use]
    pub fn path(&self) -> &str {
        self.hold.holds.place.path()
    }

    /// The full path of the lock's node, below the client's chroot.
    #[must_use]
    pub fn node(&self) -> String {
        format!("{}/{}", self.hold.holds.place.directory(), self.hold.grant.node.as_str())
    }

    /// The same, from the root of the ensemble.
    pub(crate) fn full_node(&self) -> String {
        format!("{}/{}", self.hold.holds.place.full(), self.hold.grant.node.as_str())
    }

    /// What the lock is held for.
    #[must_use]
    pub fn mode(&self) -> LockMode {
        self.hold.claim.kind.into()
    }

    /// The fencing token: the zxid that created the node. It grows from holder to holder over the life of the
    /// ensemble, even if the lock directory is deleted and created again. Pass it to the resource that the lock
    /// guards, and let the resource refuse smaller ones.
    #[must_use]
    pub fn fencing_token(&self) -> i64 {
        self.hold.grant.fencing_token
    }

    /// How many holds there were on this lease's node before its own. Holds that follow each other on one node, because of
    /// the options [`cohort`](crate::LockOptions::cohort) and [`linger`](crate::LockOptions::linger), have the same fencing
    /// token; the pair of token and hand-offs grows from holder to holder. 0 without these options.
    #[must_use]
    pub fn handoffs(&self) -> u32 {
        self.hold.handoffs()
    }

    /// The ZooKeeper session that owns the node.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.hold.grant.session_id
    }

    /// The session time-out that the server granted: for so long it may not hear from the client before it frees the
    /// lock.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.hold.grant.term.session_timeout()
    }

    /// Whether its owner had to wait for another contender.
    pub(crate) fn contended(&self) -> bool {
        self.hold.claim.contended
    }

    /// Who may re-enter on this hold.
    #[must_use]
    pub fn owner(&self) -> Owner {
        let AcquireRequest { owner, caller, .. } = &self.hold.claim;
        if *owner == caller.id() { caller.clone() } else { (*owner).into() }
    }

    /// The owner that others are told of.
    pub(crate) fn caller(&self) -> &Owner {
        &self.hold.claim.caller
    }

    /// The claim that was granted.
    pub(crate) fn claim(&self) -> &AcquireRequest {
        &self.hold.claim
    }

    /// The name of its hold.
    pub(crate) fn hold_id(&self) -> HoldId {
        self.hold.id()
    }

    /// Whether it has not been released yet. False in a process that inherited it through fork.
    pub(crate) fn is_open(&self) -> bool {
        self.hold.holds.origin.is_here() && self.level.is_open()
    }

    /// Whether it is a lease of this directory, as this client sees it.
    pub(crate) fn is_of(&self, holds: &Arc<HoldTable>) -> bool {
        Arc::ptr_eq(&self.hold.holds, holds)
    }

    /// The state of the lease. Sends nothing.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        if !self.hold.holds.origin.is_here() {
            return LeaseState::Lost(LossReason::Forked);
        }
        if self.level.is_open() {
            return self.hold.state();
        }
        match self.hold.fate.state() {
            LeaseState::Lost(reason) if !self.level.is_over() => LeaseState::Lost(reason),
            _ => self.level.late_loss().map_or(LeaseState::Released, LeaseState::Lost),
        }
    }

    /// For how long no one else can get the lock, unless it is broken: the rest of the term. It ends half the session
    /// time-out after the last write that the server acknowledged, and is extended by heartbeats while the server
    /// answers, but not beyond the lock's `max_hold`, and less the lock's `grace`. Zero for a lease that is lost or released. Sends nothing.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.state().holds() { self.hold.remaining() } else { Duration::ZERO }
    }

    /// The term of its session.
    pub(crate) fn term(&self) -> &Term {
        &self.hold.grant.term
    }

    /// Succeeds while the lock is held, that is while its term runs. Sends nothing.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost), [`NotHeld`](ErrorKind::NotHeld) after [`release`](Self::release), or
    /// [`Forked`](ErrorKind::Forked).
    pub fn check(&self) -> Result<()> {
        self.hold.check(self.state())
    }

    /// Waits until a contender asks for the lock, as with [`Client::revoke`](crate::Client::revoke) or Curator's
    /// `Revoker`. The lease stays held: whether to give it up is the holder's decision. A request that was made before
    /// this call counts. Never returns for a lease that is released or lost.
    ///
    /// Cancel safe: dropping the future changes nothing.
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + 'static {
        if !self.hold.fate.is_revoked() {
            // A long hold watches its node anyway; this one starts now.
            self.hold.report(|hold| Notice::Listening { node: hold.node }).ok();
        }
        let (fate, level) = (Arc::clone(&self.hold.fate), self.shared_level(false));
        async move {
            fate.wait_for(|fate| fate.is_revoked().then_some(())).await;
            // Other levels of the hold may be asked after this one was released; of a lost lease nothing is asked.
            if !fate.state().holds() || !level.is_some_and(|level| level.is_open()) {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Begins a transaction that is carried out only while the lock is held. Sends nothing. It does not keep the lease
    /// held.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::downgrade(&self.hold))
    }

    /// Waits until the lease is lost. Never returns for a lease that is released in time.
    ///
    /// Cancel safe: dropping the future changes nothing.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static {
        let ended = self.ended();
        async move {
            match ended.await {
                Some(reason) => reason,
                None => std::future::pending().await,
            }
        }
    }

    /// Waits until the lease ends: the reason, if it is lost, and `None` once it is released.
    ///
    /// Cancel safe: dropping the future changes nothing.
    pub fn ended(&self) -> impl Future<Output = Option<LossReason>> + Send + 'static {
        let (fate, level) = (Arc::clone(&self.hold.fate), self.shared_level(true));
        async move {
            // For a process that inherited it through fork it has ended: nothing of the parent's is reported here.
            let Some(level) = level else { return Some(LossReason::Forked) };
            let ended = |state: LeaseState| (!state.holds() || level.is_over()).then_some(state);
            match fate.wait_for(|fate| ended(fate.state())).await {
                // The other levels of the hold may be lost after this one was released.
                LeaseState::Lost(reason) if !level.is_over() => Some(reason),
                _ => None,
            }
        }
    }

    /// Its level for who waits, perhaps for its end alone, which is told only then; `None` in a process that inherited it
    /// through fork, whose copy of the holds may be borrowed for ever.
    fn shared_level(&self, for_its_end: bool) -> Option<Arc<Level>> {
        let Hold { holds, .. } = &*self.hold;
        holds.origin.is_here().then(|| {
            let all = holds.all();
            let level = Arc::clone(self.level.share(&all));
            if for_its_end {
                level.watch();
            }
            level
        })
    }

    /// Why the lease is lost, if it is. Sends nothing.
    #[must_use]
    pub fn loss_reason(&self) -> Option<LossReason> {
        match self.state() {
            LeaseState::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Releases this level; the last one of a hold frees the lock. The release is on its way when this
    /// function returns. The future waits until the server has acknowledged it, but no longer than
    /// [`remaining`](Self::remaining) was when it was called: at most half the session time-out. The release goes on
    /// in the background then.
    ///
    /// Never fails because of the network. A lost lease is released without an error: there is nothing to undo. If the
    /// server answers that the node was gone, although the lease seemed to be held, somebody has deleted it; if it ends
    /// the session before it acknowledges the release, although the term runs, somebody has ended that: then
    /// [`state`](Self::state) is lost afterwards.
    ///
    /// Cancel safe: if the future is dropped, the release goes on in the background.
    ///
    /// # Errors
    /// [`NotHeld`](ErrorKind::NotHeld) the second time, [`Forked`](ErrorKind::Forked).
    pub fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        self.release_with(Timeout::Forever)
    }

    /// Like [`release`](Self::release), but waits for at most `time`, and returns without an error then too.
    ///
    /// Cancel safe as [`release`](Self::release).
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn release_within(&self, time: Duration) -> impl Future<Output = Result<()>> + Send + 'static {
        self.release_with(Timeout::For(time))
    }

    /// Releases this level, and waits for the acknowledgement with this patience.
    pub(crate) fn release_with(&self, timeout: Timeout) -> Releasing {
        match self.begin_release(timeout) {
            Ok(None) => Releasing::Over,
            Ok(Some(acknowledged)) => Releasing::Sent(acknowledged),
            Err(error) => Releasing::Refused(Box::new(error)),
        }
    }

    /// Releases this level. What is returned ends when the server has acknowledged it, and with an error if there is
    /// nothing to wait for, or no longer.
    pub(crate) fn begin_release(&self, timeout: Timeout) -> Result<Option<oneshot::Receiver<()>>> {
        let mut acknowledged = None;
        self.release_level(|| {
            // As long as it could be held no one else can have the lock, so a caller may want to know when it is free.
            // Later it would only wait for a server that is away.
            let most = self.hold.remaining();
            let time = match timeout {
                Timeout::Forever => most,
                Timeout::For(time) => time.min(most),
                Timeout::Try | Timeout::TryWithin(_) => Duration::ZERO,
            };
            if time.is_zero() {
                return None;
            }
            let (done, receiver) = oneshot::channel();
            acknowledged = Some(receiver);
            Some(ReleaseWaiter { done, until: Instant::now() + time })
        })?;
        Ok(acknowledged)
    }

    /// Like [`release`](Self::release), without waiting for the acknowledgement.
    ///
    /// # Errors
    /// [`NotHeld`](ErrorKind::NotHeld) the second time, [`Forked`](ErrorKind::Forked).
    pub fn release_in_background(&self) -> Result<()> {
        self.release_level(|| None).map(drop)
    }

    /// Returns whether this frees the lock. `waiter`: who waits, if it does. Otherwise nobody does, and the clock is not
    /// read.
    fn release_level(&self, waiter: impl FnOnce() -> Option<ReleaseWaiter>) -> Result<bool> {
        let Hold { holds, claim, grant, .. } = &*self.hold;
        holds.origin.check()?;
        let mut all = holds.all();
        let Some(watched) = self.level.end(&all) else { return Err(Error::released()) };
        if matches!(self.hold.fate.state(), LeaseState::Lost(_)) {
            self.level.end_lost(&all);
        }
        if self.pinned.load(Ordering::Relaxed) {
            self.hold.unpin(&all);
        }
        if self.hold.end_level(&all) > 0 {
            if watched {
                self.hold.fate.look_again();
            }
            return Ok(false);
        }
        // The notices are sent while the holds are borrowed: a join that results from this is behind this release.
        if let Some(hand_off) = self.hold.hand_on(&mut all) {
            drop(all);
            hand_off.tell();
            return Ok(true);
        }
        if self.hold.keep_node(&mut all) {
            return Ok(true);
        }
        let freed = all.take(&grant.node);
        if let Some(hold) = &freed {
            let waiter = waiter();
            hold.fate.change(|state| state.holds().then_some(LeaseState::Released));
            let reporter = claim.since.map(|_| LateLossReporter {
                place: holds.place.clone(),
                recorder: Arc::clone(&holds.recorder),
                level: Arc::clone(self.level.share(&all)),
                term: Arc::clone(&grant.term),
            });
            hold.report(|hold| Notice::Released { node: hold.node, release: Release { waiter, reporter } })
                .ok();
        } else if !claim.grace.is_zero() {
            // Lost before the end of its term: its node may have been kept until now.
            let release = Release { waiter: None, reporter: None };
            self.hold.report(|hold| Notice::Released { node: hold.node, release }).ok();
        }
        Ok(freed.is_some())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.hold.holds.origin.is_here() {
            // Inherited through fork. The last reference would wake tasks of the parent's runtime, of which this
            // process has only a copy, with locks that may be held by threads that it does not have: leaked.
            std::mem::forget(Arc::clone(&self.hold));
            return;
        }
        if self.level.is_open() && self.collectable {
            self.drop_forgotten();
        } else if self.level.is_open() {
            // An error says that it was released in between: nothing to do.
            self.release_level(|| None).ok();
        }
    }
}
