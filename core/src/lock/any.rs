//! A lock of any kind.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;
use crate::client::source::ClientSource;
use crate::config::hosts::Hosts;
use crate::config::lock_path::LockOrder;
use crate::config::timeout::{Deadline, Timeout};
use crate::driver::mailbox::Query;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lease::owner::{Owner, OwnerId};
use crate::lock::Lock;
use crate::lock::mutex::Mutex;
use crate::lock::semaphore::Semaphore;
use crate::queue::Kind;
use crate::queue::contender::Contender;

/// A lock of any kind that gives one lease: a mutex, a half of a read/write lock, or a permit of a semaphore. Clones
/// are the same lock.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{AnyLock, Mutex, Owner, Timeout, Semaphore};
///
/// let locks: [AnyLock; 2] = [
///     Mutex::new(client, "/locks/report")?.into(),
///     Semaphore::new(client, "/locks/upstream", 5)?.into(),
/// ];
/// for lock in &locks {
///     let lease = lock.acquire_as(&Owner::new(), Timeout::Forever).await?;
///     println!("{} through {}", lock.path(), lease.node());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyLock {
    /// A mutex, or a half of a read/write lock.
    Lock(Arc<Lock>),
    /// A permit of a semaphore.
    Semaphore(Arc<Semaphore>),
}

impl From<Lock> for AnyLock {
    fn from(lock: Lock) -> Self {
        Self::Lock(Arc::new(lock))
    }
}

impl From<Arc<Lock>> for AnyLock {
    fn from(lock: Arc<Lock>) -> Self {
        Self::Lock(lock)
    }
}

impl From<&Lock> for AnyLock {
    fn from(lock: &Lock) -> Self {
        lock.clone().into()
    }
}

impl From<Mutex> for AnyLock {
    fn from(mutex: Mutex) -> Self {
        Lock::from(mutex).into()
    }
}

impl From<&Mutex> for AnyLock {
    fn from(mutex: &Mutex) -> Self {
        Lock::from(mutex).into()
    }
}

impl From<Arc<Mutex>> for AnyLock {
    fn from(mutex: Arc<Mutex>) -> Self {
        Lock::from(&*mutex).into()
    }
}

impl From<&Arc<Mutex>> for AnyLock {
    fn from(mutex: &Arc<Mutex>) -> Self {
        Lock::from(&**mutex).into()
    }
}

impl From<&Semaphore> for AnyLock {
    fn from(semaphore: &Semaphore) -> Self {
        semaphore.clone().into()
    }
}

impl From<Semaphore> for AnyLock {
    fn from(semaphore: Semaphore) -> Self {
        Self::Semaphore(Arc::new(semaphore))
    }
}

impl From<Arc<Semaphore>> for AnyLock {
    fn from(semaphore: Arc<Semaphore>) -> Self {
        Self::Semaphore(semaphore)
    }
}

impl AnyLock {
    /// The lock path, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Lock(lock) => lock.path(),
            Self::Semaphore(semaphore) => semaphore.path(),
        }
    }

    /// Whether two are the same lock object: one is a clone of the other, or both were created from one.
    #[must_use]
    pub fn same_lock(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lock(one), Self::Lock(other)) => one.is_same(other),
            (Self::Semaphore(one), Self::Semaphore(other)) => one.leases().is_same(other.leases()),
            _ => false,
        }
    }

    /// Acquires the lock for `owner`, or a permit, which has no owner.
    ///
    /// Cancel safe: dropping the future leaves the queue; a grant that races it is released.
    ///
    /// # Errors
    /// As [`Lock::acquire_as`] and [`Semaphore::acquire_with`].
    pub async fn acquire_as(&self, owner: &Owner, timeout: impl Into<Timeout>) -> Result<Lease> {
        self.acquire_for((owner.id(), owner), timeout.into()).await
    }

    /// The same, for an owner and the caller that others are told of.
    pub(crate) async fn acquire_for(
        &self,
        (owner, caller): (OwnerId, &Owner),
        timeout: Timeout,
    ) -> Result<Lease> {
        match self {
            Self::Lock(lock) => lock.acquire_for((owner, caller), timeout).await,
            Self::Semaphore(semaphore) => semaphore.acquire_one(caller, timeout).await,
        }
    }

    /// Whether `owner` holds the lock; a permit has no owner. Sends nothing.
    ///
    /// # Errors
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn owned_by(&self, owner: &Owner) -> Result<bool> {
        match self {
            Self::Lock(lock) => lock.owned_by(owner),
            Self::Semaphore(semaphore) => semaphore.check_process().map(|()| false),
        }
    }

    /// Whether a lease is of this lock, or of the other half of its read/write lock. A permit does not allow re-entry.
    pub(crate) fn owns_lease(&self, lease: &Lease) -> Result<bool> {
        match self {
            Self::Lock(lock) => Ok(lease.is_of(&lock.resolve()?.holds)),
            Self::Semaphore(_) => Ok(false),
        }
    }

    /// The contenders (see [`Lock::contenders`] and [`Semaphore::contenders`]).
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// As [`Lock::contenders`].
    pub async fn contenders(&self) -> Result<Vec<Contender>> {
        match self {
            Self::Lock(lock) => lock.contenders().await,
            Self::Semaphore(semaphore) => semaphore.contenders().await,
        }
    }

    /// Whether it is taken (see [`Lock::locked`] and [`Semaphore::locked`]).
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// As [`Lock::locked`] and [`Semaphore::locked`].
    pub async fn locked(&self) -> Result<bool> {
        match self {
            Self::Lock(lock) => lock.locked().await,
            Self::Semaphore(semaphore) => semaphore.locked().await,
        }
    }

    /// Its place in the order that is the same in all programs.
    pub(crate) fn order(&self) -> LockOrder {
        self.directory().order()
    }

    /// The path, from the root of the ensemble.
    pub(crate) fn absolute_path(&self) -> &str {
        self.directory().absolute_path()
    }

    /// The hosts, as given to its client.
    pub(crate) fn hosts(&self) -> &Hosts {
        self.source().hosts()
    }

    pub(crate) fn source(&self) -> &ClientSource {
        self.directory().source()
    }

    /// Whether its client sees the node of a lease that another client was granted: then both are connected to one
    /// ensemble. A node's name is unique.
    pub(crate) async fn sees(&self, lease: &Lease, deadline: Deadline) -> Result<bool> {
        let node: Arc<str> = lease.full_node().into();
        let ask = || {
            let node = Arc::clone(&node);
            self.directory().ask(move |_, reply| Query::Exists { node: Arc::clone(&node), reply })
        };
        let client = self.client()?;
        deadline.ask_until_answered(self.path(), || client.was_connected(), ask).await
    }

    /// Its client in this process.
    pub(crate) fn client(&self) -> Result<Client> {
        Ok(self.directory().resolve()?.client.clone())
    }

    /// For how long its client waits for a server.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.directory().source().options().connect_timeout
    }

    /// The error of an attempt that began then and had several steps, this lock being one of them.
    pub(crate) fn explain(&self, error: Error, since: Instant, timeout: Timeout) -> Error {
        match self.directory().resolve() {
            Ok(resolved) => resolved.client.explain(error, since, timeout),
            Err(_) => error,
        }
    }

    /// Whether two were created on the same client.
    pub(crate) fn same_client(&self, other: &Self) -> bool {
        self.directory().source().is_same(other.directory().source())
    }

    /// The lock directory of the nodes that hold it.
    fn directory(&self) -> &Lock {
        match self {
            Self::Lock(lock) => lock,
            Self::Semaphore(semaphore) => semaphore.leases(),
        }
    }

    /// The kind of lock that it is a part of: all on one path must be of one kind.
    pub(crate) fn family(&self) -> &'static str {
        match self {
            Self::Lock(lock) if lock.kind() == Kind::Exclusive => "mutex",
            Self::Lock(_) => "read/write lock",
            Self::Semaphore(_) => "semaphore",
        }
    }

    /// Whether an owner that holds it may acquire it again.
    pub(crate) fn reentrant(&self) -> bool {
        match self {
            Self::Lock(lock) => lock.reentrant(),
            Self::Semaphore(_) => false,
        }
    }
}
