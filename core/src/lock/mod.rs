//! What mutexes and the halves of read/write locks have in common.

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
use crate::lease::hold::{AcquireRequest, HoldTable};
use crate::lease::owner::{Owner, OwnerId};
use crate::lease::{EnterOutcome, Lease};
use crate::lock::options::LockSettings;
use crate::metrics::recorder::WaitTimer;
use crate::queue::contender::{Contender, ContenderInfo};
use crate::queue::{Access, Intent, JoinId, Kind};
use crate::runtime::fork::PerProcess;

/// Something that can be acquired: a [`Mutex`](crate::Mutex), or a half of a [`ReadWriteLock`](crate::ReadWriteLock).
///
/// Clones are the same lock. Waiters are served in the order in which the server queued them. An [`Owner`] that holds the lock may
/// acquire it again, through this or any other lock object of the same client and path.
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

/// What the handles of a lock share.
#[derive(Debug)]
struct Inner {
    source: ClientSource,
    place: LockPath,
    kind: Kind,
    settings: LockSettings,
    /// The process's first client, and its holds: for good, except of a shared client.
    first: PerProcess<Arc<Resolved>>,
    /// The last of those that followed a shared client which was closed.
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

    /// A part of a lock at `path`, with its nodes in a directory there (`/name`, or nothing).
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

    /// The same lock on the client that it has now, which it keeps when that is closed.
    pub(crate) fn on_one_client(&self) -> Result<Self> {
        let Inner { place, kind, settings, .. } = &*self.0;
        let source = ClientSource::Client(self.resolve()?.client.clone());
        let (first, last) = (PerProcess::new(), PerProcess::new());
        let (place, kind, settings) = (place.clone(), *kind, settings.clone());
        Ok(Self(Arc::new(Inner { source, place, kind, settings, first, last })))
    }

    /// The lock path, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.place.path()
    }

    /// The client on which the lock is: for one on [shared](ClientSource::Shared) options the process's one client with
    /// them, which is created now unless there is one. Sends nothing.
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
    /// [`Forked`](ErrorKind::Forked).
    pub fn client(&self) -> Result<Client> {
        Ok(self.resolve()?.client.clone())
    }

    /// Acquires the lock as a new owner, waiting as long as it takes.
    ///
    /// Cancel safe: dropping the future leaves the queue; a grant that races it is released.
    ///
    /// # Errors
    /// [`ClientClosed`](ErrorKind::ClientClosed), [`ConnectionFailed`](ErrorKind::ConnectionFailed) if no server
    /// was ever reached, [`AuthFailed`](ErrorKind::AuthFailed), [`SequenceExhausted`](ErrorKind::SequenceExhausted),
    /// [`Forked`](ErrorKind::Forked); [`LockTimeout`](ErrorKind::LockTimeout) if as many wait as
    /// [`max_waiters`](crate::LockOptions::max_waiters) permits.
    pub async fn acquire(&self) -> Result<Lease> {
        self.acquire_as(&Owner::new(), Timeout::Forever).await
    }

    /// Like [`acquire`](Self::acquire), within `time`, which covers connecting, queueing and waiting together.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout), and those of [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: Duration) -> Result<Lease> {
        self.acquire_as(&Owner::new(), time).await
    }

    /// Like [`acquire_within`](Self::acquire_within), until this moment.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub async fn acquire_until(&self, moment: std::time::Instant) -> Result<Lease> {
        self.acquire_as(&Owner::new(), moment).await
    }

    /// Acquires the lock if it is free, without queueing. A lock that is seen to be taken costs one read.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if nothing answers within the connect time-out, and those of
    /// [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_as(&Owner::new(), Timeout::Try).await)
    }

    /// Like [`try_acquire`](Self::try_acquire), but a server has to answer within `time`, whatever the client's connect
    /// time-out is. It does not wait for a lock that is taken.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if nothing answers within `time`, and those of
    /// [`acquire`](Self::acquire).
    pub async fn try_acquire_within(&self, time: Duration) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_as(&Owner::new(), Timeout::TryWithin(time)).await)
    }

    /// Acquires the lock for `owner`, which re-enters at once if it holds the lock. With [`Timeout::Try`] a lock that
    /// is taken is a [`LockTimeout`](ErrorKind::LockTimeout).
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub async fn acquire_as(&self, owner: &Owner, timeout: impl Into<Timeout>) -> Result<Lease> {
        self.acquire_for((owner.id(), owner), timeout.into()).await
    }

    /// The same, for an owner and the caller that others are told of.
    pub(crate) async fn acquire_for(
        &self,
        (owner, caller): (OwnerId, &Owner),
        timeout: Timeout,
    ) -> Result<Lease> {
        // Only the wait takes room in this future, which is moved to where it is awaited.
        let pending = match self.request(owner, caller, timeout)? {
            Acquiring::Granted(lease) => return Ok(lease),
            Acquiring::Pending(pending) => pending,
        };
        pending.await
    }

    /// Asks for the lock: what an owner that holds it gets at once, or the wait. The caller is the owner, or the one that
    /// others are told of.
    pub(crate) fn request(&self, owner: OwnerId, caller: &Owner, timeout: Timeout) -> Result<Acquiring> {
        Ok(match self.enter(owner, self.0.kind, self.0.settings.intent(timeout))? {
            EnterOutcome::Reentered(lease) => Acquiring::Granted(lease),
            EnterOutcome::Queues(intent) => {
                // A re-entry does not pay for reading the clock.
                let wait = WaitTimer::begin();
                if let Some(lease) = self.take_again(owner, caller, &intent, wait)? {
                    return Ok(Acquiring::Granted(lease));
                }
                Acquiring::Pending(self.queue_up((owner, caller), self.0.kind, intent, timeout, wait)?)
            }
        })
    }

    /// Asks for the lock as a contender of this kind, whose owner holds nothing, for a caller that has waited like that.
    pub(crate) fn request_as(
        &self,
        caller: &Owner,
        kind: Kind,
        timeout: Timeout,
        wait: WaitTimer,
    ) -> Result<PendingAcquire> {
        self.queue_up((OwnerId::new(), caller), kind, timeout.intent(), timeout, wait)
    }

    /// One level more for `owner` if it holds the lock.
    pub(crate) fn reenter(&self, owner: OwnerId) -> Result<Option<Lease>> {
        // The intent matters only to an owner that queues.
        Ok(match self.enter(owner, self.0.kind, Timeout::Forever.intent())? {
            EnterOutcome::Reentered(lease) => Some(lease),
            EnterOutcome::Queues(_) => None,
        })
    }

    /// Decides whether the owner re-enters. Its hold now counts, and not its hold when the driver receives the request: a
    /// writer that asks to read and then releases keeps the lock.
    fn enter(&self, owner: OwnerId, kind: Kind, intent: Intent) -> Result<EnterOutcome> {
        // Without this option every acquire is by another owner, and waits.
        if !self.0.settings.reentrant {
            return Ok(EnterOutcome::Queues(intent));
        }
        self.resolved(|resolved| resolved.holds.enter(owner, kind, intent))
    }

    /// A hold on a node that was kept, if there is one.
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
        self.resolved(|resolved| Ok(resolved.holds.take_again(&claim, settings.naming, Access::Everybody)))
    }

    /// The same lock, whose nodes are not kept.
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

    /// Sends the request to the driver.
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

    /// The data of a new node.
    fn node_data(&self, options: &ClientOptions, owner: &Owner) -> Vec<u8> {
        let LockSettings { label, stated_permits, .. } = &self.0.settings;
        let holders = self.0.settings.node_holders(self.0.kind, owner);
        match (self.0.kind, label) {
            // A candidate's is its id and nothing else: Curator shows it as such.
            (Kind::Lead, Some(id)) => id.as_bytes().into(),
            (Kind::Lead, None) => ContenderInfo::candidate_id(options).into(),
            _ => ContenderInfo::node_data(options, label.as_deref(), *stated_permits, holders),
        }
    }

    /// The name that its contenders give themselves.
    pub(crate) fn label<'a>(&'a self, options: &'a ClientOptions) -> Option<&'a str> {
        self.0.settings.label.as_deref().or(options.label.as_deref())
    }

    /// The place of this lock in the order that is the same in all programs.
    pub(crate) fn order(&self) -> LockOrder {
        LockOrder {
            path: self.0.place.absolute_path().to_owned(),
            ensemble: self.0.source.hosts().ensemble(),
            reads: self.0.kind == Kind::Read,
        }
    }

    /// The path, from the root of the ensemble.
    pub(crate) fn absolute_path(&self) -> &str {
        self.0.place.absolute_path()
    }

    /// Whether two are handles of one lock.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// How many contenders may wait at most, if that is limited.
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

    /// Whether `owner` holds the lock. Sends nothing.
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked).
    pub fn owned_by(&self, owner: &Owner) -> Result<bool> {
        Ok(self.resolve()?.holds.owned_by(owner.id(), self.0.kind))
    }

    /// The contenders for the lock, in queue order: the first hundred thousand. Three round trips for up to a thousand, and
    /// two for each further thousand.
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if there is no answer within the connect time-out,
    /// [`AuthFailed`](ErrorKind::AuthFailed), [`ClientClosed`](ErrorKind::ClientClosed), [`Forked`](ErrorKind::Forked).
    pub async fn contenders(&self) -> Result<Vec<Contender>> {
        let contenders = self.ask(|place, reply| Query::Contenders { place, reply }).await?;
        self.with_paths(contenders)
    }

    /// The contenders with their nodes' full paths.
    pub(crate) fn with_paths<C: FromIterator<Contender>>(
        &self,
        contenders: impl IntoIterator<Item = Contender>,
    ) -> Result<C> {
        let resolved = self.resolve()?;
        let directory = resolved.holds.place.directory();
        Ok(contenders.into_iter().map(|contender| contender.within(directory)).collect())
    }

    /// Whether any contender holds the lock or waits for it. One round trip; the answer may be out of date when it
    /// arrives.
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// As [`contenders`](Self::contenders).
    pub async fn locked(&self) -> Result<bool> {
        Ok(self.count().await? > 0)
    }

    /// The number of contenders. One round trip.
    pub(crate) async fn count(&self) -> Result<usize> {
        self.ask(|place, reply| Query::Count { place, reply }).await
    }

    /// Asks the server something about the lock's directory, again if the connection is lost before it answers.
    pub(crate) async fn ask<T>(&self, inquiry: impl Fn(LockPath, Reply<T>) -> Query) -> Result<T> {
        let resolved = self.resolve()?;
        let ask = |reply| inquiry(self.0.place.clone(), reply);
        resolved.client.ask_again(self.path(), ask).await
    }

    /// The client, and its holds in the lock's directory.
    pub(crate) fn resolve(&self) -> Result<Arc<Resolved>> {
        self.resolved(|resolved| Ok(Arc::clone(resolved)))
    }

    /// The same for `body`: a re-entry has no need of its own handle on it.
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

/// Turns the refusal of a try into `None`.
pub(crate) fn busy_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(error) if error.kind() == ErrorKind::LockTimeout => Ok(None),
        Err(error) => Err(error),
    }
}

/// An acquire that was asked for: granted at once to an owner that holds the lock, or pending.
pub(crate) enum Acquiring {
    Granted(Lease),
    Pending(PendingAcquire),
}

/// An acquire that the driver has not answered yet. Dropping it leaves the queue.
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
