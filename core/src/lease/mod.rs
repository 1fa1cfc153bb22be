//! Defines [`Lease`], the proof that the lock is held, which a successful acquire returns.
//!
//! A granted lock is always released exactly once. The driver sends the [`Lease`] to the waiting
//! caller. If the caller no longer waits, the lease is dropped, and the drop releases the lock.

mod cohort;
mod forgotten;
pub(crate) mod hold;
pub(crate) mod lease_set;
pub(crate) mod linger;
pub(crate) mod mode;
pub(crate) mod owner;
mod permit_state;
pub(crate) mod release;
pub(crate) mod report;
pub(crate) mod request;
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
use self::hold::{Grant, Hold, HoldId, HoldTable, Notice};
use self::owner::{Owner, OwnerId};
use self::release::{LateLossReporter, Level, OwnLevel, Release, ReleaseWaiter, Releasing};
use self::request::AcquireRequest;
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

/// Waits of at least this duration are logged at level info.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// The result of an attempt to re-enter a lock, before any request is sent.
pub(crate) enum EnterOutcome {
    /// The owner already holds the lock. The hold has one more level.
    Reentered(Lease),
    /// The owner does not hold the lock. It must join the queue with this intent.
    Queues(Intent),
}

/// The functions that create leases.
impl HoldTable {
    /// Re-enters the lock without a request if `owner` holds it. Otherwise, returns the intent for
    /// joining the queue.
    ///
    /// Fails if the owner holds only the read lock and requests the write lock. A writer waits for
    /// all readers, so the owner would wait for itself.
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
            "{:?} is held for reading, so acquiring the write lock would be a deadlock; release the read lock first",
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
            tracing::info!(%path, %node, ?waited, contended, "acquired after a long wait");
        } else {
            tracing::debug!(%path, %node, ?waited, contended, "acquired");
        }
    }

    /// Records a grant and returns the lease of its first level.
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

/// The proof that a lock is held. Dropping the lease releases it in the background.
///
/// Every successful acquire returns a separate lease. If one owner acquires a path several times,
/// its leases share the node, the fencing token and the state. The lock is freed when the last of
/// these leases is released.
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
#[must_use = "dropping a lease releases the lock immediately: keep the lease as long as the lock is needed"]
pub struct Lease {
    hold: Arc<Hold>,
    level: OwnLevel,
    /// True for the lease of a garbage-collected object. If the collector drops the lease while the
    /// lock is held, the program has a bug.
    collectable: bool,
    /// True if this lease counts as a pin of its hold.
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

    /// Creates a released lease of the same hold. See [`remains`](crate::internal::remains).
    pub(crate) fn remains(&self) -> Self {
        Self::with_level(Arc::clone(&self.hold), OwnLevel::over())
    }

    fn with_level(hold: Arc<Hold>, level: OwnLevel) -> Self {
        Self { hold, level, collectable: false, pinned: AtomicBool::new(false) }
    }

    /// Returns the lock path, as given when the lock was created.
    #[must_use]
    pub fn path(&self) -> &str {
        self.hold.holds.place.path()
    }

    /// Returns the full path of the lock's node, relative to the client's chroot.
    #[must_use]
    pub fn node(&self) -> String {
        format!("{}/{}", self.hold.holds.place.directory(), self.hold.grant.node.as_str())
    }

    /// Returns the full path of the lock's node, from the root of the ensemble.
    pub(crate) fn full_node(&self) -> String {
        format!("{}/{}", self.hold.holds.place.full(), self.hold.grant.node.as_str())
    }

    /// Returns the mode in which the lock is held.
    #[must_use]
    pub fn mode(&self) -> LockMode {
        self.hold.claim.kind.into()
    }

    /// Returns the fencing token: the zxid of the transaction that created the node.
    ///
    /// Each new holder receives a larger token than all earlier holders, even if the lock directory
    /// is deleted and created again. Tokens are small again only in a new ensemble. Holders with
    /// the option [`cohort`](crate::LockOptions::cohort) or [`linger`](crate::LockOptions::linger)
    /// can have equal tokens: see [`handoffs`](Self::handoffs). Pass the token to the resource that
    /// the lock protects. The resource must reject smaller tokens.
    #[must_use]
    pub fn fencing_token(&self) -> i64 {
        self.hold.grant.fencing_token
    }

    /// Returns the number of earlier holds on this lease's node.
    ///
    /// With the option [`cohort`](crate::LockOptions::cohort) or
    /// [`linger`](crate::LockOptions::linger), several holds can use one node, one after the other.
    /// These holds have the same fencing token. To order them, compare first the tokens and then
    /// these numbers. Without these options, the number is 0.
    #[must_use]
    pub fn handoffs(&self) -> u32 {
        self.hold.handoffs()
    }

    /// Returns the id of the ZooKeeper session that owns the node.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.hold.grant.session_id
    }

    /// Returns the session timeout that the server granted.
    ///
    /// If the servers receive no message from the client for this long, they end its session and
    /// free the lock.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.hold.grant.term.session_timeout()
    }

    pub(crate) fn contended(&self) -> bool {
        self.hold.claim.contended
    }

    /// Returns the owner of this hold. Only this owner can re-enter.
    #[must_use]
    pub fn owner(&self) -> Owner {
        let AcquireRequest { owner, caller, .. } = &self.hold.claim;
        if *owner == caller.id() { caller.clone() } else { (*owner).into() }
    }

    /// Returns the owner that is named in health reports, in messages and to other contenders.
    pub(crate) fn caller(&self) -> &Owner {
        &self.hold.claim.caller
    }

    /// Returns the request that was granted.
    pub(crate) fn claim(&self) -> &AcquireRequest {
        &self.hold.claim
    }

    /// Returns the id of this lease's hold.
    pub(crate) fn hold_id(&self) -> HoldId {
        self.hold.id()
    }

    /// Returns `true` if this lease has not been released. Returns `false` in a process that
    /// inherited the lease through `fork`.
    pub(crate) fn is_open(&self) -> bool {
        self.hold.holds.origin.is_here() && self.level.is_open()
    }

    /// Returns `true` if this lease belongs to `holds`.
    pub(crate) fn is_of(&self, holds: &Arc<HoldTable>) -> bool {
        Arc::ptr_eq(&self.hold.holds, holds)
    }

    /// Returns the state of the lease. Sends no request.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        if !self.hold.holds.origin.is_here() {
            return LeaseState::Lost(LossReason::Forked);
        }
        if self.level.is_open() {
            return self.hold.state();
        }
        match self.hold.state_cell.state() {
            LeaseState::Lost(reason) if !self.level.is_over() => LeaseState::Lost(reason),
            _ => self.level.late_loss().map_or(LeaseState::Released, LeaseState::Lost),
        }
    }

    /// Returns the time for which no other client can get the lock, unless an operator breaks it.
    /// Returns zero if the lease is lost or released. Sends no request.
    ///
    /// The session's *term* ends half the session timeout after the client sent the last write that
    /// the server acknowledged. Heartbeats extend the term while the server replies. The result is
    /// the time left in the term minus the lock's `grace`, and never more than `max_hold` permits.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.state().holds() { self.hold.remaining() } else { Duration::ZERO }
    }

    /// Returns the term of the lease's session.
    pub(crate) fn term(&self) -> &Term {
        &self.hold.grant.term
    }

    /// Returns an error unless the lock is held and the term of its session still runs (see
    /// [`remaining`](Self::remaining)). Sends no request.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost) if the lock is lost, [`NotHeld`](ErrorKind::NotHeld) after
    /// [`release`](Self::release), or [`Forked`](ErrorKind::Forked) in a forked child process.
    pub fn check(&self) -> Result<()> {
        self.hold.check(self.state())
    }

    /// Waits until another client asks the holder to release the lock.
    ///
    /// [`Client::revoke`](crate::Client::revoke) and Curator's `Revoker` send such requests. The
    /// lease stays held, because the holder decides whether to release it. If such a request
    /// arrived before this call, the future completes immediately. After the lease is released or
    /// lost, the future never completes.
    ///
    /// Cancel safe: dropping the future changes nothing.
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + 'static {
        if !self.hold.state_cell.is_revoked() {
            // The driver watches the node of every long hold. Make it watch this node immediately.
            self.hold.report(|hold| Notice::WatchNode { node: hold.node }).ok();
        }
        let (state_cell, level) = (Arc::clone(&self.hold.state_cell), self.shared_level(false));
        async move {
            state_cell.wait_for(|state_cell| state_cell.is_revoked().then_some(())).await;
            // Ignore a request after the loss of the lock or after the release of this lease, even
            // if the hold has other leases.
            if !state_cell.state().holds() || !level.is_some_and(|level| level.is_open()) {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Begins a transaction that the server applies only if the lock is still held. Sends no
    /// request.
    ///
    /// The transaction does not keep the lock held: the lease can be released or dropped before the
    /// commit.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::downgrade(&self.hold))
    }

    /// Waits until the lease is lost, and returns the reason. The future never completes if the
    /// lease is released before that.
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

    /// Waits until the lease is lost or released. Returns the reason for the loss, or `None` after
    /// a release.
    ///
    /// Cancel safe: dropping the future changes nothing.
    pub fn ended(&self) -> impl Future<Output = Option<LossReason>> + Send + 'static {
        let (state_cell, level) = (Arc::clone(&self.hold.state_cell), self.shared_level(true));
        async move {
            // In a process that inherited the lease through `fork`, the lease counts as lost,
            // regardless of the state of the parent's hold.
            let Some(level) = level else { return Some(LossReason::Forked) };
            let ended = |state: LeaseState| (!state.holds() || level.is_over()).then_some(state);
            match state_cell.wait_for(|state_cell| ended(state_cell.state())).await {
                // If this lease was released before the loss, it is not lost.
                LeaseState::Lost(reason) if !level.is_over() => Some(reason),
                _ => None,
            }
        }
    }

    /// Returns the state of this lease (its [`Level`]) for a future that waits for a change.
    ///
    /// If `for_its_end` is `true`, a release of this lease also wakes the future. Returns `None` in
    /// a process that inherited the lease through `fork`, because the mutex of the holds might stay
    /// locked forever in that process.
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

    /// Returns the reason for the loss if the lease is lost, or `None` if it is not. Sends no
    /// request.
    #[must_use]
    pub fn loss_reason(&self) -> Option<LossReason> {
        match self.state() {
            LeaseState::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Releases this lease. If its owner has several leases of this lock, the lock is freed when
    /// the last of them is released.
    ///
    /// The release has begun when this function returns, even if the future is never polled. The
    /// future waits until the server acknowledges the release, but not longer than the time that
    /// [`remaining`](Self::remaining) returns at the call. That time is at most half the session
    /// timeout. After that, the release continues in the background.
    ///
    /// A release never fails because of the network. A lost lease is released without an error. In
    /// two cases, the client learns only during the release that the lock was lost, and
    /// [`state`](Self::state) then returns the loss:
    /// * The server replies that the node no longer exists, because another client has deleted it.
    /// * The session ends before the server acknowledges the release and before the end of its
    ///   term, because another client has closed the session.
    ///
    /// Cancel safe: if the future is dropped, the release continues in the background.
    ///
    /// # Errors
    /// [`NotHeld`](ErrorKind::NotHeld) if this lease was released before, or
    /// [`Forked`](ErrorKind::Forked) in a forked child process.
    pub fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        self.release_with(Timeout::Forever)
    }

    /// Releases this lease like [`release`](Self::release), but waits for at most `time`. A timeout
    /// is not an error.
    ///
    /// Cancel safe like [`release`](Self::release).
    ///
    /// # Errors
    /// Same as [`release`](Self::release).
    pub fn release_within(&self, time: Duration) -> impl Future<Output = Result<()>> + Send + 'static {
        self.release_with(Timeout::For(time))
    }

    pub(crate) fn release_with(&self, timeout: Timeout) -> Releasing {
        match self.begin_release(timeout) {
            Ok(None) => Releasing::Over,
            Ok(Some(acknowledged)) => Releasing::Sent(acknowledged),
            Err(error) => Releasing::Refused(Box::new(error)),
        }
    }

    /// Releases this lease and returns a receiver for the server's acknowledgement.
    ///
    /// The receiver fails if an acknowledgement can no longer arrive. Returns `None` if the caller
    /// must not wait, because of `timeout` or because the term has ended.
    pub(crate) fn begin_release(&self, timeout: Timeout) -> Result<Option<oneshot::Receiver<()>>> {
        let mut acknowledged = None;
        self.release_level(|| {
            // Wait at most until the term ends. No other client can have the lock before that.
            // After that, the lock is lost, so an acknowledgement has no use.
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

    /// Releases this lease like [`release`](Self::release), but does not wait for the
    /// acknowledgement.
    ///
    /// # Errors
    /// [`NotHeld`](ErrorKind::NotHeld) if this lease was released before, or
    /// [`Forked`](ErrorKind::Forked) in a forked child process.
    pub fn release_in_background(&self) -> Result<()> {
        self.release_level(|| None).map(drop)
    }

    /// Releases this lease. Returns `true` if this frees the lock.
    ///
    /// `waiter` is called only if the release deletes the node. It returns the channel to the
    /// caller, or `None` if the caller does not wait for the deletion.
    fn release_level(&self, waiter: impl FnOnce() -> Option<ReleaseWaiter>) -> Result<bool> {
        let Hold { holds, claim, grant, .. } = &*self.hold;
        holds.origin.check()?;
        let mut all = holds.all();
        let Some(watched) = self.level.end(&all) else { return Err(Error::released()) };
        if matches!(self.hold.state_cell.state(), LeaseState::Lost(_)) {
            self.level.end_lost(&all);
        }
        if self.pinned.load(Ordering::Relaxed) {
            self.hold.unpin(&all);
        }
        if self.hold.end_level(&all) > 0 {
            if watched {
                self.hold.state_cell.wake_waiters();
            }
            return Ok(false);
        }
        // Send the notices while the index of holds is locked. The driver then receives this
        // release before any acquire that the release makes possible.
        if let Some(hand_off) = self.hold.hand_on(&mut all) {
            drop(all);
            hand_off.deliver();
            return Ok(true);
        }
        if self.hold.keep_node(&mut all) {
            return Ok(true);
        }
        let freed = all.take(&grant.node);
        if let Some(hold) = &freed {
            let waiter = waiter();
            hold.state_cell.change(|state| state.holds().then_some(LeaseState::Released));
            let reporter = claim.since.map(|_| LateLossReporter {
                place: holds.place.clone(),
                recorder: Arc::clone(&holds.recorder),
                level: Arc::clone(self.level.share(&all)),
                term: Arc::clone(&grant.term),
            });
            hold.report(|hold| Notice::Released { node: hold.node, release: Release { waiter, reporter } })
                .ok();
        } else if !claim.grace.is_zero() {
            // The node can still exist: a lock with a `grace` is lost before the end of the term.
            let release = Release { waiter: None, reporter: None };
            self.hold.report(|hold| Notice::Released { node: hold.node, release }).ok();
        }
        Ok(freed.is_some())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.hold.holds.origin.is_here() {
            // This process inherited the lease through `fork`. Leak the hold: dropping its last
            // reference would wake tasks of the parent's runtime, which is only a copy here.
            // Threads of the parent might have locked the mutexes of that runtime.
            std::mem::forget(Arc::clone(&self.hold));
            return;
        }
        if self.level.is_open() && self.collectable {
            self.drop_forgotten();
        } else if self.level.is_open() {
            // An error means that another thread has already released the lease.
            self.release_level(|| None).ok();
        }
    }
}
