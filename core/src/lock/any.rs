//! The type [`AnyLock`]: a lock of any kind.

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

/// A lock of any kind: a mutex, one half of a read/write lock, or a semaphore. An acquire returns
/// one lease.
///
/// For a semaphore, the lease is one permit. A clone refers to the same lock.
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
    /// A mutex, or one half of a read/write lock.
    Lock(Arc<Lock>),
    /// One permit of a semaphore.
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
    /// Returns the lock path, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Lock(lock) => lock.path(),
            Self::Semaphore(semaphore) => semaphore.path(),
        }
    }

    /// Returns `true` if both refer to the same lock object: one is a clone of the other, or both
    /// were created from the same object.
    #[must_use]
    pub fn same_lock(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lock(one), Self::Lock(other)) => one.is_same(other),
            (Self::Semaphore(one), Self::Semaphore(other)) => one.leases().is_same(other.leases()),
            _ => false,
        }
    }

    /// Acquires the lock for `owner`. A permit of a semaphore has no owner.
    ///
    /// Cancel safe: if the future is dropped, the contender leaves the queue. If the lock is
    /// granted at the same moment, it is released.
    ///
    /// # Errors
    /// Same as [`Lock::acquire_as`] and [`Semaphore::acquire_with`].
    pub async fn acquire_as(&self, owner: &Owner, timeout: impl Into<Timeout>) -> Result<Lease> {
        self.acquire_for((owner.id(), owner), timeout.into()).await
    }

    /// Like [`acquire_as`](Self::acquire_as), but messages and other contenders show `caller` as
    /// the owner.
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

    /// Returns `true` if `owner` holds the lock. Always `false` for a semaphore, because permits
    /// have no owner.
    ///
    /// Sends no request.
    ///
    /// # Errors
    /// [`Forked`](crate::ErrorKind::Forked) in a forked child process.
    pub fn owned_by(&self, owner: &Owner) -> Result<bool> {
        match self {
            Self::Lock(lock) => lock.owned_by(owner),
            Self::Semaphore(semaphore) => semaphore.check_process().map(|()| false),
        }
    }

    /// Returns `true` if the lease belongs to this lock or to the other half of its read/write
    /// lock. Always `false` for a semaphore, because a permit cannot be re-entered.
    pub(crate) fn owns_lease(&self, lease: &Lease) -> Result<bool> {
        match self {
            Self::Lock(lock) => Ok(lease.is_of(&lock.resolve()?.holds)),
            Self::Semaphore(_) => Ok(false),
        }
    }

    /// Returns the contenders (see [`Lock::contenders`] and [`Semaphore::contenders`]).
    ///
    /// Cancel safe: dropping the future has no side effect.
    ///
    /// # Errors
    /// Same as [`Lock::contenders`].
    pub async fn contenders(&self) -> Result<Vec<Contender>> {
        match self {
            Self::Lock(lock) => lock.contenders().await,
            Self::Semaphore(semaphore) => semaphore.contenders().await,
        }
    }

    /// Returns `true` if the lock is taken (see [`Lock::locked`] and [`Semaphore::locked`]).
    ///
    /// Cancel safe: dropping the future has no side effect.
    ///
    /// # Errors
    /// Same as [`Lock::locked`] and [`Semaphore::locked`].
    pub async fn locked(&self) -> Result<bool> {
        match self {
            Self::Lock(lock) => lock.locked().await,
            Self::Semaphore(semaphore) => semaphore.locked().await,
        }
    }

    /// Returns the key of this lock in the common order of locks.
    pub(crate) fn order(&self) -> LockOrder {
        self.directory().order()
    }

    /// Returns the path from the root of the ensemble.
    pub(crate) fn absolute_path(&self) -> &str {
        self.directory().absolute_path()
    }

    /// Returns the hosts, as given to the lock's client.
    pub(crate) fn hosts(&self) -> &Hosts {
        self.source().hosts()
    }

    pub(crate) fn source(&self) -> &ClientSource {
        self.directory().source()
    }

    /// Returns `true` if this lock's client and the client of `lease` use the same ensemble. To
    /// find out, this lock's client looks for the node of `lease`.
    pub(crate) async fn sees(&self, lease: &Lease, deadline: Deadline) -> Result<bool> {
        let node: Arc<str> = lease.full_node().into();
        let ask = || {
            let node = Arc::clone(&node);
            self.directory().ask(move |_, reply| Query::Exists { node: Arc::clone(&node), reply })
        };
        let client = self.client()?;
        deadline.ask_until_answered(self.path(), || client.was_connected(), ask).await
    }

    /// Returns the lock's client in this process.
    pub(crate) fn client(&self) -> Result<Client> {
        Ok(self.directory().resolve()?.client.clone())
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.directory().source().options().connect_timeout
    }

    /// Adds an explanation to the error of an acquire with several steps, which began at `since`.
    pub(crate) fn explain(&self, error: Error, since: Instant, timeout: Timeout) -> Error {
        match self.directory().resolve() {
            Ok(resolved) => resolved.client.explain(error, since, timeout),
            Err(_) => error,
        }
    }

    /// Returns `true` if both were created on the same client.
    pub(crate) fn same_client(&self, other: &Self) -> bool {
        self.directory().source().is_same(other.directory().source())
    }

    /// Returns the lock whose directory contains the holders' nodes.
    fn directory(&self) -> &Lock {
        match self {
            Self::Lock(lock) => lock,
            Self::Semaphore(semaphore) => semaphore.leases(),
        }
    }

    /// Returns the name of the lock's kind. All locks with the same path must be of the same kind.
    pub(crate) fn family(&self) -> &'static str {
        match self {
            Self::Lock(lock) if lock.kind() == Kind::Exclusive => "mutex",
            Self::Lock(_) => "read/write lock",
            Self::Semaphore(_) => "semaphore",
        }
    }

    pub(crate) fn reentrant(&self) -> bool {
        match self {
            Self::Lock(lock) => lock.reentrant(),
            Self::Semaphore(_) => false,
        }
    }
}
