//! What a successful acquire returns: proof of holding.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::client::Shared;
use crate::driver::Command;
use crate::error::{Error, ErrorKind, Result};
use crate::owner::Owner;
use crate::path::Place;
use crate::queue::{Intent, JoinId, Kind};
use crate::term::Term;
use crate::transaction::{Operation, Transaction};

/// A wait that is worth a word.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The server was out of reach for half the session time-out: from now on it may give the lock to somebody else.
    TermEnded,
    /// The server ended the session, or forgot it.
    SessionExpired,
    /// Somebody else deleted the lock's node.
    NodeDeleted,
    /// The client was closed while it held the lock.
    ClientClosed,
    /// This process inherited the lease through fork. The parent may hold the lock still.
    Forked,
}

impl LossReason {
    /// The reason in words, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TermEnded => "term ended",
            Self::SessionExpired => "session expired",
            Self::NodeDeleted => "node deleted",
            Self::ClientClosed => "client closed",
            Self::Forked => "inherited through fork",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a lease still proves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is held, and the server out of reach. Held again when the server answers in time, lost if it does not.
    Suspended,
    /// The lock is lost, for good.
    Lost(LossReason),
    /// This lease was released. Others of the same hold may still be held.
    Released,
}

impl LeaseState {
    /// The state's name, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Suspended => "suspended",
            Self::Lost(_) => "lost",
            Self::Released => "released",
        }
    }

    /// Whether the lock is held, in touch with the server or not.
    fn holds(self) -> bool {
        matches!(self, Self::Held | Self::Suspended)
    }
}

/// One lock directory as one client sees it. All lock objects on one client and path share it, so that
/// re-entry goes by owner and path, not by object.
pub(crate) struct LockPath {
    pub(crate) client: Arc<Shared>,
    pub(crate) place: Place,
    holds: Mutex<Vec<Arc<Hold>>>,
    /// For permits: what the semaphore needs to know of the waiting.
    pub(crate) permits: Permits,
}

/// What the clients of one directory of permits know, besides their leases.
#[derive(Default)]
pub(crate) struct Permits {
    /// Told whenever contenders of this client were seen to wait for permits.
    pub(crate) waiting: Notify,
    /// The number of permits that was last compared with the others', 0 if none was.
    pub(crate) compared: AtomicU32,
}

/// What becomes of an owner's wish for a lock.
pub(crate) enum Entry {
    /// It holds already: one level more.
    Reentered(Lease),
    /// It queues, for this.
    Queues(Intent),
}

/// One hold of one lock, shared by the leases of all its levels.
pub(crate) struct Hold {
    pub(crate) lock: Arc<LockPath>,
    pub(crate) join: JoinId,
    pub(crate) owner: Owner,
    pub(crate) kind: Kind,
    /// The node's name within the lock path.
    pub(crate) node: String,
    pub(crate) fencing_token: i64,
    pub(crate) session_id: i64,
    term: Arc<Term>,
    /// When it began, if it counts.
    since: Option<Instant>,
    /// Whether its owner had to wait for somebody.
    contended: bool,
    state: watch::Sender<LeaseState>,
    /// Whether somebody has asked for the lock to be given up.
    revoked: watch::Sender<bool>,
    // Changed only while `lock.holds` is locked.
    levels: std::sync::atomic::AtomicUsize,
}

impl LockPath {
    pub(crate) fn new(client: Arc<Shared>, place: Place) -> Self {
        Self { client, place, holds: Mutex::default(), permits: Permits::default() }
    }

    fn holds(&self) -> MutexGuard<'_, Vec<Arc<Hold>>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Re-enters without a request if `owner` holds the lock; says how to queue otherwise. A reader is refused the
    /// write lock: it would wait for itself.
    pub(crate) fn enter(&self, owner: Owner, kind: Kind, intent: Intent) -> Result<Entry> {
        let holds = self.holds();
        let held = |kind: Kind| holds.iter().find(|hold| hold.held_by(owner, kind));
        if let Some(hold) = held(kind) {
            hold.levels.fetch_add(1, Ordering::Relaxed);
            return Ok(Entry::Reentered(Lease::new(Arc::clone(hold))));
        }
        match (kind, held(Kind::Read), held(Kind::Write)) {
            (Kind::Read, _, Some(writer)) => Ok(Entry::Queues(Intent::Downgrade(writer.join))),
            (Kind::Write, Some(_), _) => Err(self.upgrade_refused()),
            _ => Ok(Entry::Queues(intent)),
        }
    }

    pub(crate) fn upgrade_refused(&self) -> Error {
        let message = format!(
            "{} is held for reading, and a reader that asks for the write lock would wait for itself; release the read lock first",
            self.place.path()
        );
        Error::new(ErrorKind::UpgradeRefused, message)
    }

    pub(crate) fn owned_by(&self, owner: Owner, kind: Kind) -> bool {
        self.holds().iter().any(|hold| hold.held_by(owner, kind))
    }

    /// Records a grant; its first level is the lease returned.
    pub(crate) fn grant(self: &Arc<Self>, grant: Grant) -> Lease {
        let now = Instant::now();
        if let Some(since) = grant.since {
            let waited = now - since;
            self.client.meter().acquired(waited, grant.contended);
            let (path, node, contended) = (self.place.path(), &grant.node, grant.contended);
            if waited >= LONG_WAIT {
                tracing::info!(%path, %node, ?waited, contended, "acquired, after a long wait");
            } else {
                tracing::debug!(%path, %node, ?waited, contended, "acquired");
            }
        }
        let hold = Arc::new(Hold {
            lock: Arc::clone(self),
            join: grant.join,
            owner: grant.owner,
            kind: grant.kind,
            node: grant.node,
            fencing_token: grant.fencing_token,
            session_id: grant.session_id,
            term: grant.term,
            since: grant.since.map(|_| now),
            contended: grant.contended,
            state: watch::Sender::new(LeaseState::Held),
            revoked: watch::Sender::new(false),
            levels: std::sync::atomic::AtomicUsize::new(1),
        });
        self.holds().push(Arc::clone(&hold));
        Lease::new(hold)
    }

    /// Says whether the hold of `join` is out of touch with the server.
    pub(crate) fn suspend(&self, join: JoinId, suspended: bool) {
        let (from, to) = if suspended {
            (LeaseState::Held, LeaseState::Suspended)
        } else {
            (LeaseState::Suspended, LeaseState::Held)
        };
        if let Some(hold) = self.holds().iter().find(|hold| hold.join == join) {
            hold.change(|state| (state == from).then_some(to));
        }
    }

    /// Says that the hold through a node is to be given up. Returns whether there is one.
    pub(crate) fn revoke(&self, node: &str) -> bool {
        let holds = self.holds();
        let hold = holds.iter().find(|hold| hold.node == node);
        hold.is_some_and(|hold| {
            hold.revoked.send_replace(true);
            true
        })
    }

    /// Declares the hold of `join` lost, if there still is one.
    pub(crate) fn lose(&self, join: JoinId, reason: LossReason) {
        let lost = take(&mut self.holds(), join);
        if let Some(hold) = lost {
            hold.lose(reason);
        }
    }
}

/// What the engine knows of a grant.
pub(crate) struct Grant {
    pub(crate) join: JoinId,
    pub(crate) owner: Owner,
    pub(crate) kind: Kind,
    pub(crate) node: String,
    pub(crate) fencing_token: i64,
    pub(crate) session_id: i64,
    pub(crate) term: Arc<Term>,
    /// When its caller began to wait; `None` for what is not to be counted as a hold.
    pub(crate) since: Option<Instant>,
    /// Whether it had to wait for somebody.
    pub(crate) contended: bool,
}

/// Takes a hold out of those of its path: it ends.
fn take(holds: &mut Vec<Arc<Hold>>, join: JoinId) -> Option<Arc<Hold>> {
    let position = holds.iter().position(|hold| hold.join == join)?;
    let hold = holds.swap_remove(position);
    if let Some(since) = hold.since {
        let lasted = since.elapsed();
        hold.lock.client.meter().ended(lasted);
        tracing::debug!(path = %hold.lock.place.path(), node = %hold.node, ?lasted, "held no more");
    }
    Some(hold)
}

impl Hold {
    fn held_by(&self, owner: Owner, kind: Kind) -> bool {
        self.owner == owner && self.kind == kind && self.state().holds()
    }

    /// The state by the clock: a timer may be late, as after the machine was suspended. A loss that was seen is final.
    fn state(&self) -> LeaseState {
        let state = self.last_state();
        if !state.holds() || self.term.runs() {
            return state;
        }
        if self.lose(LossReason::TermEnded) {
            let (path, join) = (Arc::clone(self.lock.place.full()), self.join);
            self.lock.client.send(Command::Expire { path, join }).ok();
        }
        self.last_state()
    }

    /// Changes the state to lost. Returns whether it was not before.
    fn lose(&self, reason: LossReason) -> bool {
        let (path, node) = (self.lock.place.path(), &self.node);
        let accident = reason != LossReason::ClientClosed;
        let lost = self.change(|state| {
            // Counted before anybody hears of it.
            if state.holds() && self.since.is_some() && accident {
                self.lock.client.meter().lost();
            }
            state.holds().then_some(LeaseState::Lost(reason))
        });
        match (lost, accident) {
            (true, true) => tracing::warn!(%path, %node, %reason, "lock lost"),
            (true, false) => tracing::debug!(%path, %node, %reason, "lock lost"),
            (false, _) => {}
        }
        lost
    }

    /// Whether a state, of the hold or of one of its leases, still proves anything.
    fn check(&self, state: LeaseState) -> Result<()> {
        self.lock.client.check_process()?;
        match state {
            LeaseState::Held | LeaseState::Suspended => Ok(()),
            LeaseState::Lost(reason) => {
                let message = format!(
                    "the lock {} is lost: {reason}; another client may hold it. Stop what it guards, then acquire \
                     it again",
                    self.lock.place.path()
                );
                Err(Error::new(ErrorKind::LockLost, message))
            }
            LeaseState::Released => Err(released()),
        }
    }

    /// The state that was set last.
    fn last_state(&self) -> LeaseState {
        *self.state.borrow()
    }

    /// Changes the state, and tells those that wait for it. Returns whether it was changed.
    fn change(&self, to: impl FnOnce(LeaseState) -> Option<LeaseState>) -> bool {
        self.state.send_if_modified(|state| match to(*state) {
            Some(new) => {
                *state = new;
                true
            }
            None => false,
        })
    }
}

/// What a transaction needs of a hold, without keeping it.
#[derive(Debug)]
pub(crate) struct Guard(Weak<Hold>);

impl Guard {
    /// Has operations carried out while the hold's node stands.
    pub(crate) async fn transact(&self, operations: Vec<Operation>) -> Result<()> {
        let hold = self.0.upgrade().ok_or_else(released)?;
        hold.lock.client.check_process()?;
        hold.check(hold.state())?;
        let (reply, done) = oneshot::channel();
        let (path, node) = (Arc::clone(hold.lock.place.full()), hold.node.clone());
        hold.lock.client.send(Command::Transact { path, node, operations, reply })?;
        hold.lock.client.answer(done).await
    }
}

/// Proof of holding a lock. Dropping it releases it in the background.
///
/// Every successful acquire returns a lease of its own; those of one owner on one path share node, token and
/// state, and the last one released frees the lock.
pub struct Lease {
    hold: Arc<Hold>,
    live: AtomicBool,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("path", &self.path())
            .field("node", &self.hold.node)
            .field("fencing_token", &self.hold.fencing_token)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Lease {
    fn new(hold: Arc<Hold>) -> Self {
        Self { hold, live: AtomicBool::new(true) }
    }

    /// The lock path, as given when the lock was made.
    #[must_use]
    pub fn path(&self) -> &str {
        self.hold.lock.place.path()
    }

    /// The full path of the lock's node, below the client's chroot.
    #[must_use]
    pub fn node(&self) -> String {
        format!("{}/{}", self.hold.lock.place.directory(), self.hold.node)
    }

    /// The fencing token: the zxid that created the node. It grows from holder to holder over the life of the
    /// ensemble, also when the lock directory is deleted and made anew. Hand it to the resource that the lock
    /// guards, and let that refuse smaller ones.
    #[must_use]
    pub fn fencing_token(&self) -> i64 {
        self.hold.fencing_token
    }

    /// The ZooKeeper session that owns the node.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.hold.session_id
    }

    /// Whether its owner had to wait for somebody.
    pub(crate) fn contended(&self) -> bool {
        self.hold.contended
    }

    /// Who may re-enter on this hold.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.hold.owner
    }

    /// Whether it is a lease of this directory, as this client sees it.
    pub(crate) fn is_of(&self, lock: &Arc<LockPath>) -> bool {
        Arc::ptr_eq(&self.hold.lock, lock)
    }

    /// Whether the lease still proves anything. Sends nothing.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        if self.hold.lock.client.check_process().is_err() {
            return LeaseState::Lost(LossReason::Forked);
        }
        if self.live.load(Ordering::Relaxed) {
            return self.hold.state();
        }
        match self.hold.last_state() {
            LeaseState::Lost(reason) => LeaseState::Lost(reason),
            _ => LeaseState::Released,
        }
    }

    /// For how long nobody else can have the lock, whatever happens: what is left of the term. It ends half the session
    /// time-out after the last write that the server acknowledged, and is prolonged by a heartbeat while the server answers.
    /// Zero for a lease that is lost or released. Sends nothing.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.state().holds() { self.hold.term.remaining() } else { Duration::ZERO }
    }

    /// Succeeds while the lock is held, that is while its term runs. Sends nothing.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost), [`NotHeld`](ErrorKind::NotHeld) after [`release`](Self::release), or
    /// [`Forked`](ErrorKind::Forked).
    pub fn check(&self) -> Result<()> {
        self.hold.check(self.state())
    }

    /// Waits until somebody asks for the lock to be given up, as with [`Client::revoke`](crate::Client::revoke) or Curator's
    /// `Revoker`. The lease stays held: to give it up is the holder's part. A request that was made before this
    /// call counts. Never returns for a lease that is released or lost.
    ///
    /// Cancel safe: dropping the future changes nothing.
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut revoked = self.hold.revoked.subscribe();
        if !*revoked.borrow() {
            // A long hold watches its node anyway; this one now.
            let (path, join) = (Arc::clone(self.hold.lock.place.full()), self.hold.join);
            self.hold.lock.client.send(Command::Guard { path, join }).ok();
        }
        async move {
            if revoked.wait_for(|revoked| *revoked).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Begins a transaction that is carried out only while the lock is held. Sends nothing. It does not keep the lease held.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Guard(Arc::downgrade(&self.hold)))
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

    /// Waits until the hold ends: why, if it is lost, and `None` once its last level is released.
    ///
    /// Cancel safe: dropping the future changes nothing.
    pub fn ended(&self) -> impl Future<Output = Option<LossReason>> + Send + 'static {
        // For who inherited it through fork it has ended: nothing of the parent's is told here.
        let ours = self.hold.lock.client.check_process().is_ok();
        let state = ours.then(|| self.hold.state.subscribe());
        async move {
            let Some(mut state) = state else { return Some(LossReason::Forked) };
            match state.wait_for(|state| !state.holds()).await.as_deref() {
                Ok(LeaseState::Lost(reason)) => Some(*reason),
                _ => None,
            }
        }
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
    /// function returns; the future waits until the server has acknowledged it, or the session is over.
    ///
    /// Never fails because of the network. A lost lease is released without an error: there is nothing to undo.
    ///
    /// Cancel safe: a future that is dropped leaves the release going on in the background.
    ///
    /// # Errors
    /// [`NotHeld`](ErrorKind::NotHeld) the second time, [`Forked`](ErrorKind::Forked).
    pub fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        let (done, acknowledged) = oneshot::channel();
        let result = self.release_level(Some(done));
        async move {
            result?;
            // A dropped sender means that the client is closed, and the session and its nodes with it.
            acknowledged.await.ok();
            Ok(())
        }
    }

    /// Like [`release`](Self::release), without waiting for the acknowledgement.
    ///
    /// # Errors
    /// [`NotHeld`](ErrorKind::NotHeld) the second time, [`Forked`](ErrorKind::Forked).
    pub fn release_in_background(&self) -> Result<()> {
        self.release_level(None)
    }

    fn release_level(&self, done: Option<oneshot::Sender<()>>) -> Result<()> {
        let Hold { lock, join, .. } = &*self.hold;
        lock.client.check_process()?;
        if !self.live.swap(false, Ordering::Relaxed) {
            return Err(released());
        }
        let mut holds = lock.holds();
        if self.hold.levels.fetch_sub(1, Ordering::Relaxed) > 1 {
            return Ok(());
        }
        // Sent while the path is locked: a join that follows from here is behind this release.
        if let Some(hold) = take(&mut holds, *join) {
            hold.change(|state| state.holds().then_some(LeaseState::Released));
            let path = Arc::clone(lock.place.full());
            lock.client.send(Command::Release { path, join: *join, done }).ok();
        }
        Ok(())
    }
}

fn released() -> Error {
    Error::not_held("this lease has been released already")
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.hold.lock.client.check_process().is_err() {
            // Inherited through fork. The last reference would wake tasks of the parent's runtime, of which this
            // process has only a copy, with locks that may be held by threads which it does not have: leaked.
            std::mem::forget(Arc::clone(&self.hold));
            return;
        }
        // An error says that it was released before: nothing to do.
        self.release_level(None).ok();
    }
}
