//! Defines [`Lock`], the common part of mutexes and of the two halves of read/write locks.

pub(crate) mod any;
pub(crate) mod election;
pub(crate) mod multi;
pub(crate) mod mutex;
mod node_metadata;
pub(crate) mod once;
pub(crate) mod options;
pub(crate) mod rwlock;
mod scoped;
pub(crate) mod semaphore;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::client::Client;
use crate::client::source::ClientSource;
use crate::config::ClientOptions;
use crate::config::lock_path::{LockOrder, LockPath};
use crate::config::timeout::{Deadline, Timeout};
use crate::driver::mailbox::{AcquireAttempt, Command, Query, Reply};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::hold::HoldTable;
use crate::lease::owner::{Owner, OwnerId};
use crate::lease::request::AcquireRequest;
use crate::lease::{EnterOutcome, Lease};
use crate::lock::options::LockSettings;
use crate::metrics::recorder::WaitTimer;
use crate::queue::contender::{Contender, ContenderInfo};
use crate::queue::{Access, Intent, JoinId, Kind};
use crate::runtime::fork::PerProcess;

/// A lock that can be acquired: a [`Mutex`](crate::Mutex), or one half of a
/// [`ReadWriteLock`](crate::ReadWriteLock).
///
/// A clone refers to the same lock. Waiters receive the lock in the order in which the server
/// queued them. An [`Owner`] that holds the lock can acquire it again, through this or any other
/// lock object with the same client and path.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use std::time::Duration;
/// use zklock::{ErrorKind, Lock, ReadWriteLock};
///
/// let lock: Lock = ReadWriteLock::new(client, "/locks/catalogue")?.read_lock;
/// match lock.acquire_within(Duration::from_secs(5)).await {
///     Ok(lease) => println!("reading as {}", lease.node()),
///     Err(error) if error.kind() == ErrorKind::LockTimeout => println!("{error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lock(Arc<Inner>);

/// The state that all handles of a lock share.
#[derive(Debug)]
struct Inner {
    source: ClientSource,
    place: LockPath,
    kind: Kind,
    settings: LockSettings,
    /// The first client that this lock used in this process. This field never changes. If the
    /// client is shared and is closed, the lock uses `last` instead.
    first: PerProcess<Arc<Resolved>>,
    /// The client that the lock uses after the shared client in `first` was closed.
    last: PerProcess<Mutex<Option<Arc<Resolved>>>>,
}

/// A client, and its holds in a lock's directory.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) client: Client,
    pub(crate) holds: Arc<HoldTable>,
}

impl Lock {
    pub(crate) fn new(source: ClientSource, path: &str, kind: Kind, settings: LockSettings) -> Result<Self> {
        Self::with_part(source, path, "", kind, settings)
    }

    /// Creates a lock at `path` whose nodes are in a subdirectory of the path. `part` is `/` and
    /// the name of the subdirectory, or empty if there is none.
    pub(crate) fn with_part(
        source: ClientSource,
        path: &str,
        part: &str,
        kind: Kind,
        settings: LockSettings,
    ) -> Result<Self> {
        let place = LockPath::new(&source.hosts().chroot, path, part)?;
        let settings = settings.validated()?;
        let (first, last) = (PerProcess::new(), PerProcess::new());
        Ok(Self(Arc::new(Inner { source, place, kind, settings, first, last })))
    }

    /// Returns the same lock, bound to its current client. The returned lock keeps this client even
    /// after the client is closed.
    pub(crate) fn on_one_client(&self) -> Result<Self> {
        let Inner { place, kind, settings, .. } = &*self.0;
        let source = ClientSource::Client(self.resolve()?.client.clone());
        let (first, last) = (PerProcess::new(), PerProcess::new());
        let (place, kind, settings) = (place.clone(), *kind, settings.clone());
        Ok(Self(Arc::new(Inner { source, place, kind, settings, first, last })))
    }

    /// Returns the lock path, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.place.path()
    }

    /// Returns the client of the lock. Sends no request.
    ///
    /// If the lock was created with [shared](ClientSource::Shared) options, this is the process's
    /// only client with these options. It is created now if it does not exist yet.
    ///
    /// ```no_run
    /// # fn main() -> zklock::Result<()> {
    /// use zklock::{ClientOptions, Mutex};
    ///
    /// let lock = Mutex::new(ClientOptions::from_env(None)?, "/locks/report")?;
    /// println!("{:?}", lock.client()?.state());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked) in a forked child process.
    pub fn client(&self) -> Result<Client> {
        Ok(self.resolve()?.client.clone())
    }

    /// Acquires the lock for a new owner. Waits without a time limit.
    ///
    /// Cancel safe: if the future is dropped, the contender leaves the queue. If the lock is
    /// granted at the same moment, it is released.
    ///
    /// # Errors
    /// * [`ClientClosed`](ErrorKind::ClientClosed) if the client is closed.
    /// * [`ConnectionFailed`](ErrorKind::ConnectionFailed) if the client has never reached a
    ///   server.
    /// * [`AuthFailed`](ErrorKind::AuthFailed) if a server rejects the credentials, or if they do
    ///   not permit the operation.
    /// * [`SequenceExhausted`](ErrorKind::SequenceExhausted) if the directory has almost no
    ///   sequence numbers left.
    /// * [`Forked`](ErrorKind::Forked) in a forked child process.
    /// * [`LockTimeout`](ErrorKind::LockTimeout) if the number of waiters has reached
    ///   [`max_waiters`](crate::LockOptions::max_waiters).
    pub async fn acquire(&self) -> Result<Lease> {
        self.acquire_as(&Owner::new(), Timeout::Forever).await
    }

    /// Acquires the lock like [`acquire`](Self::acquire), but within at most `time`. This includes
    /// connecting, queueing and waiting.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout) after `time`, and the errors of
    /// [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: Duration) -> Result<Lease> {
        self.acquire_as(&Owner::new(), time).await
    }

    /// Acquires the lock like [`acquire_within`](Self::acquire_within), but with a deadline instead
    /// of a duration.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The same as for [`acquire_within`](Self::acquire_within).
    pub async fn acquire_until(&self, moment: std::time::Instant) -> Result<Lease> {
        self.acquire_as(&Owner::new(), moment).await
    }

    /// Acquires the lock if it is free, without queueing. Returns `None` if it is taken.
    ///
    /// The call first reads the queue. If the lock is taken, it sends no other request.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if no server replies within the connect
    /// timeout, and the errors of [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_as(&Owner::new(), Timeout::Try).await)
    }

    /// Acquires the lock like [`try_acquire`](Self::try_acquire), but with `time` instead of the
    /// client's connect timeout.
    ///
    /// A server must reply within `time`. The call does not wait for a lock that is taken.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if no server replies within `time`, and
    /// the errors of [`acquire`](Self::acquire).
    pub async fn try_acquire_within(&self, time: Duration) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_as(&Owner::new(), Timeout::TryWithin(time)).await)
    }

    /// Acquires the lock for `owner`. If the owner already holds the lock, it re-enters
    /// immediately.
    ///
    /// With [`Timeout::Try`], the call fails with [`LockTimeout`](ErrorKind::LockTimeout) if the
    /// lock is taken.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The same as for [`acquire_within`](Self::acquire_within).
    pub async fn acquire_as(&self, owner: &Owner, timeout: impl Into<Timeout>) -> Result<Lease> {
        self.acquire_for((owner.id(), owner), timeout.into()).await
    }

    /// Acquires the lock like [`acquire_as`](Self::acquire_as), but messages and other contenders
    /// show `caller` as the owner.
    pub(crate) async fn acquire_for(
        &self,
        (owner, caller): (OwnerId, &Owner),
        timeout: Timeout,
    ) -> Result<Lease> {
        // Awaiting only in the slow case keeps the future small, so it is cheap to move.
        let pending = match self.request(owner, caller, timeout)? {
            Acquiring::Granted(lease) => return Ok(lease),
            Acquiring::Pending(pending) => pending,
        };
        pending.await
    }

    /// Requests the lock. Returns a lease if the owner re-enters or reuses a node that the client
    /// has kept. Otherwise, returns the pending acquire.
    ///
    /// Messages and other contenders show `caller`, which can differ from the owner.
    pub(crate) fn request(&self, owner: OwnerId, caller: &Owner, timeout: Timeout) -> Result<Acquiring> {
        Ok(match self.enter(owner, self.0.kind, self.0.settings.intent(timeout))? {
            EnterOutcome::Reentered(lease) => Acquiring::Granted(lease),
            EnterOutcome::Queues(intent) => {
                // Read the clock only here, because a re-entry does not need it.
                let wait = WaitTimer::begin();
                if let Some(lease) = self.take_again(owner, caller, &intent, wait)? {
                    return Ok(Acquiring::Granted(lease));
                }
                Acquiring::Pending(self.queue_up((owner, caller), self.0.kind, intent, timeout, wait)?)
            }
        })
    }

    /// Requests the lock for a new owner, as a contender of this kind. The caller has waited since
    /// `wait.since`.
    pub(crate) fn request_as(
        &self,
        caller: &Owner,
        kind: Kind,
        timeout: Timeout,
        wait: WaitTimer,
    ) -> Result<PendingAcquire> {
        self.queue_up((OwnerId::new(), caller), kind, timeout.intent(), timeout, wait)
    }

    /// Re-enters the lock if `owner` holds it. Otherwise returns `None`.
    pub(crate) fn reenter(&self, owner: OwnerId) -> Result<Option<Lease>> {
        // The intent does not matter, because only an owner that joins the queue uses it.
        Ok(match self.enter(owner, self.0.kind, Timeout::Forever.intent())? {
            EnterOutcome::Reentered(lease) => Some(lease),
            EnterOutcome::Queues(_) => None,
        })
    }

    /// Re-enters if the owner holds the lock. Otherwise, returns the intent, and the owner must
    /// join the queue.
    ///
    /// The decision depends on the owner's holds at the time of this call, not at the time when the
    /// driver receives the request. For example, a writer that requests the read lock and then
    /// releases the write lock keeps the lock as a reader.
    fn enter(&self, owner: OwnerId, kind: Kind, intent: Intent) -> Result<EnterOutcome> {
        if !self.0.settings.reentrant {
            return Ok(EnterOutcome::Queues(intent));
        }
        self.resolved(|resolved| resolved.holds.enter(owner, kind, intent))
    }

    /// Begins a hold on a kept node, if there is one.
    fn take_again(
        &self,
        owner: OwnerId,
        caller: &Owner,
        intent: &Intent,
        wait: WaitTimer,
    ) -> Result<Option<Lease>> {
        let Inner { kind, settings, .. } = &*self.0;
        if settings.linger.is_zero() || matches!(intent, Intent::Downgrade { .. }) {
            return Ok(None);
        }
        let owner = if settings.reentrant { owner } else { OwnerId::new() };
        let claim = AcquireRequest { owner, ..settings.request(caller.clone(), *kind, wait) };
        self.resolved(|resolved| Ok(resolved.holds.take_again(&claim, settings.naming, Access::AnyThread)))
    }

    /// Returns the same lock without the option `linger`, so that its nodes are not kept after a
    /// release.
    pub(crate) fn without_linger(&self) -> Self {
        let Inner { source, place, kind, settings, .. } = &*self.0;
        if settings.linger.is_zero() {
            return self.clone();
        }
        let (source, place, kind) = (source.clone(), place.clone(), *kind);
        let settings = LockSettings { linger: Duration::ZERO, ..settings.clone() };
        let (first, last) = (PerProcess::new(), PerProcess::new());
        Self(Arc::new(Inner { source, place, kind, settings, first, last }))
    }

    fn queue_up(
        &self,
        (owner, caller): (OwnerId, &Owner),
        kind: Kind,
        intent: Intent,
        timeout: Timeout,
        wait: WaitTimer,
    ) -> Result<PendingAcquire> {
        let resolved = self.resolve()?;
        let client = &resolved.client;
        let owner = if self.0.settings.reentrant { owner } else { OwnerId::new() };
        let (reply, outcome) = oneshot::channel();
        let join = client.next_join();
        client.send(Command::Join(AcquireAttempt {
            join,
            holds: Arc::clone(&resolved.holds),
            claim: AcquireRequest { owner, ..self.0.settings.request(caller.clone(), kind, wait) },
            intent,
            asked: wait.since,
            naming: self.0.settings.naming,
            data: self.node_data(client.options(), caller).into(),
            deadline: Deadline::after(timeout),
            reply: Some(reply),
        }))?;
        let leave = LeaveOnDrop { resolved, join: Some(join) };
        Ok(PendingAcquire { outcome, leave })
    }

    fn node_data(&self, options: &ClientOptions, owner: &Owner) -> Vec<u8> {
        let LockSettings { label, stated_permits, .. } = &self.0.settings;
        let holders = self.0.settings.node_holders(self.0.kind, owner);
        match (self.0.kind, label) {
            // For an election, the node's data is only the candidate's id, because Curator displays
            // the whole data as the id.
            (Kind::Lead, Some(id)) => id.as_bytes().into(),
            (Kind::Lead, None) => ContenderInfo::candidate_id(options).into(),
            _ => ContenderInfo::node_data(options, label.as_deref(), *stated_permits, holders),
        }
    }

    pub(crate) fn label<'a>(&'a self, options: &'a ClientOptions) -> Option<&'a str> {
        self.0.settings.label.as_deref().or(options.label.as_deref())
    }

    /// Returns the key of this lock in the common order of locks.
    pub(crate) fn order(&self) -> LockOrder {
        LockOrder {
            path: self.0.place.absolute_path().to_owned(),
            ensemble: self.0.source.hosts().ensemble(),
            reads: self.0.kind == Kind::Read,
        }
    }

    /// Returns the path from the root of the ensemble.
    pub(crate) fn absolute_path(&self) -> &str {
        self.0.place.absolute_path()
    }

    /// Returns `true` if both are handles of the same lock object.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    pub(crate) fn max_waiters(&self) -> Option<u32> {
        self.0.settings.max_waiters
    }

    #[cfg(test)]
    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.0.settings.max_hold
    }

    pub(crate) fn source(&self) -> &ClientSource {
        &self.0.source
    }

    pub(crate) fn reentrant(&self) -> bool {
        self.0.settings.reentrant
    }

    /// Returns `true` if `owner` holds the lock. Sends no request.
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked) in a forked child process.
    pub fn owned_by(&self, owner: &Owner) -> Result<bool> {
        Ok(self.resolve()?.holds.owned_by(owner.id(), self.0.kind))
    }

    /// Returns the contenders for the lock, in queue order. Returns at most the first 100,000.
    ///
    /// This takes three round trips for up to 1,000 contenders, and two for each further 1,000.
    ///
    /// Cancel safe: dropping the future has no side effect.
    ///
    /// # Errors
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if no reply arrives within the connect
    /// timeout, [`AuthFailed`](ErrorKind::AuthFailed), [`ClientClosed`](ErrorKind::ClientClosed),
    /// or [`Forked`](ErrorKind::Forked).
    pub async fn contenders(&self) -> Result<Vec<Contender>> {
        let contenders = self.ask(|place, reply| Query::Contenders { place, reply }).await?;
        self.with_paths(contenders)
    }

    /// Replaces the contenders' node names with full paths.
    pub(crate) fn with_paths<C: FromIterator<Contender>>(
        &self,
        contenders: impl IntoIterator<Item = Contender>,
    ) -> Result<C> {
        let resolved = self.resolve()?;
        let directory = resolved.holds.place.directory();
        Ok(contenders.into_iter().map(|contender| contender.within(directory)).collect())
    }

    /// Returns `true` if any contender holds the lock or waits for it.
    ///
    /// This takes one round trip. The answer can be out of date when it arrives.
    ///
    /// Cancel safe: dropping the future has no side effect.
    ///
    /// # Errors
    /// The same as for [`contenders`](Self::contenders).
    pub async fn locked(&self) -> Result<bool> {
        Ok(self.count().await? > 0)
    }

    /// Returns the number of contenders. Takes one round trip.
    pub(crate) async fn count(&self) -> Result<usize> {
        self.ask(|place, reply| Query::Count { place, reply }).await
    }

    /// Sends a query about the lock's directory. Repeats the query if the connection is lost before
    /// the reply arrives.
    pub(crate) async fn ask<T>(&self, inquiry: impl Fn(LockPath, Reply<T>) -> Query) -> Result<T> {
        let resolved = self.resolve()?;
        let ask = |reply| inquiry(self.0.place.clone(), reply);
        resolved.client.ask_again(self.path(), ask).await
    }

    /// Returns the client, and its holds in the lock's directory.
    pub(crate) fn resolve(&self) -> Result<Arc<Resolved>> {
        self.resolved(|resolved| Ok(Arc::clone(resolved)))
    }

    /// Calls `body` with the client and its holds. Unlike [`resolve`](Self::resolve), this function
    /// clones no `Arc` for the caller, so that a re-entry is fast.
    fn resolved<T>(&self, body: impl FnOnce(&Arc<Resolved>) -> Result<T>) -> Result<T> {
        let first = self.0.first.get_or_try_init(|| self.look_up())?;
        if !matches!(self.0.source, ClientSource::Shared(_)) || first.client.mailbox().usable() {
            return body(first);
        }
        let resolved = {
            let mut last =
                self.0.last.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
            match &*last {
                Some(resolved) if resolved.client.mailbox().usable() => Arc::clone(resolved),
                _ => Arc::clone(last.insert(self.look_up()?)),
            }
        };
        body(&resolved)
    }

    fn look_up(&self) -> Result<Arc<Resolved>> {
        let client = match &self.0.source {
            ClientSource::Client(client) => client.clone(),
            ClientSource::Shared(options) => Client::shared(options),
            ClientSource::EachProcess(client) => client.here().clone(),
        };
        let holds = client.holds(&self.0.place, !self.0.settings.linger.is_zero())?;
        Ok(Arc::new(Resolved { client, holds }))
    }
}

/// Converts the `LockTimeout` of a failed try to `None`.
pub(crate) fn busy_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(error) if error.kind() == ErrorKind::LockTimeout => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) enum Acquiring {
    Granted(Lease),
    Pending(PendingAcquire),
}

/// An acquire that waits for the driver's reply. Dropping it makes the contender leave the queue.
pub(crate) struct PendingAcquire {
    outcome: oneshot::Receiver<Result<Lease>>,
    leave: LeaveOnDrop,
}

impl Future for PendingAcquire {
    type Output = Result<Lease>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Lease>> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(context));
        self.leave.join = None;
        Poll::Ready(outcome.unwrap_or_else(|_| Err(Error::client_closed())))
    }
}

/// Leaves the queue when the waiting acquire is dropped.
pub(crate) struct LeaveOnDrop {
    resolved: Arc<Resolved>,
    join: Option<JoinId>,
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        if let Some(join) = self.join {
            let path = Arc::clone(self.resolved.holds.place.full());
            self.resolved.client.mailbox().send(Command::Leave { path, join }).ok();
        }
    }
}
