//! The locks of all kinds, as the suite sees them.

use zklock::{
    ClientSource, Error, Lease, Lock, LockOptions, Mutex, Owner, Patience, ReadWriteLock, Semaphore,
};

use crate::command::Kind;

/// Something that can be acquired.
pub(crate) enum Lockable {
    Lock(Lock),
    Semaphore(Box<Semaphore>),
}

impl Lockable {
    pub(crate) fn new(
        source: ClientSource,
        path: &str,
        kind: Kind,
        permits: Option<u32>,
        options: LockOptions,
    ) -> Result<Self, Error> {
        Ok(match kind {
            Kind::Mutex => Self::Lock(Mutex::with_options(source, path, options)?.into()),
            Kind::Read => Self::Lock(ReadWriteLock::with_options(source, path, options)?.read_lock),
            Kind::Write => Self::Lock(ReadWriteLock::with_options(source, path, options)?.write_lock),
            Kind::Semaphore => Self::Semaphore(Box::new(Semaphore::with_options(
                source,
                path,
                permits.unwrap_or(1),
                options,
            )?)),
        })
    }

    pub(crate) async fn acquire(
        &self,
        owner: Owner,
        patience: Patience,
        count: u32,
    ) -> Result<Vec<Lease>, Error> {
        match self {
            Self::Lock(lock) => Ok(vec![lock.acquire_as(owner, patience).await?]),
            Self::Semaphore(semaphore) => semaphore.acquire_many(count, patience).await,
        }
    }

    /// `None` where nobody owns.
    pub(crate) fn owned_by(&self, owner: Owner) -> Result<Option<bool>, Error> {
        match self {
            Self::Lock(lock) => lock.owned_by(owner).map(Some),
            Self::Semaphore(_) => Ok(None),
        }
    }
}
