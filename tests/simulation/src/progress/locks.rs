//! The kinds of locks in a progress case, and the requests for them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use zklock::{
    AnyLock, Election, Error, Lease, Lock, LockOptions, MultiLock, Mutex, Naming, Owner, ReadWriteLock,
    Semaphore, Timeout,
};

use super::stage::Stage;

const LOCK: &str = "/progress";
/// The path of another lock. A multi-lock acquires it before [`LOCK`], because it acquires its
/// members in the order of their paths.
const FIRST: &str = "/a-first";

/// The requested lock and its blocker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Mutex,
    Kazoo,
    WriteBehindRead,
    ReadBehindWrite,
    Permit,
    Leader,
    /// A multi-lock with two members, of which the second is taken.
    Several,
}

pub const KINDS: [Kind; 7] = [
    Kind::Mutex,
    Kind::Kazoo,
    Kind::WriteBehindRead,
    Kind::ReadBehindWrite,
    Kind::Permit,
    Kind::Leader,
    Kind::Several,
];

/// A request for a lock.
#[derive(Clone, Debug)]
pub struct Request {
    pub kind: Kind,
    /// True for the blocker's request, false for the waiter's.
    pub blocks: bool,
    pub client: usize,
    pub owner: Owner,
    pub timeout: Timeout,
    pub limit: Option<Duration>,
}

type Taking = Pin<Box<dyn Future<Output = Result<Vec<Lease>, Error>>>>;

impl Request {
    /// Creates a request without a timeout.
    pub fn new(kind: Kind, blocks: bool, client: usize) -> Self {
        Self { kind, blocks, client, owner: Owner::new(), timeout: Timeout::Forever, limit: None }
    }

    fn options(&self) -> LockOptions {
        let options = LockOptions::default();
        let options = if self.kind == Kind::Kazoo { options.naming(Naming::Kazoo) } else { options };
        match self.limit {
            Some(limit) => options.max_hold(limit),
            None => options,
        }
    }

    fn half(&self, stage: &Stage, write: bool) -> Result<Lock, Error> {
        let lock = ReadWriteLock::with_options(stage.client(self.client), LOCK, self.options())?;
        Ok(if write { lock.write_lock } else { lock.read_lock })
    }

    fn mutex(&self, stage: &Stage, path: &str) -> Result<Lock, Error> {
        Mutex::with_options(stage.client(self.client), path, self.options()).map(Lock::from)
    }

    /// Sends the request.
    pub fn take(self, stage: &Stage) -> Taking {
        match self.asked(stage) {
            Ok(taking) => taking,
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    fn asked(self, stage: &Stage) -> Result<Taking, Error> {
        let (owner, timeout) = (self.owner.clone(), self.timeout);
        let lock = match self.kind {
            Kind::Mutex | Kind::Kazoo => self.mutex(stage, LOCK)?,
            Kind::WriteBehindRead => self.half(stage, !self.blocks)?,
            Kind::ReadBehindWrite => self.half(stage, self.blocks)?,
            Kind::Several if self.blocks => self.mutex(stage, LOCK)?,
            Kind::Several => {
                let locks = [self.mutex(stage, FIRST)?, self.mutex(stage, LOCK)?].map(AnyLock::from);
                let several = MultiLock::new(locks)?;
                return Ok(Box::pin(async move {
                    Ok(several.acquire_as(&owner, timeout).await?.into_iter().collect())
                }));
            }
            Kind::Permit => {
                let permits = Semaphore::with_options(stage.client(self.client), LOCK, 1, self.options())?;
                return Ok(Box::pin(async move {
                    Ok(permits.acquire_many(1, timeout).await?.into_iter().collect())
                }));
            }
            Kind::Leader => {
                let election = Election::new(stage.client(self.client), LOCK)?;
                return Ok(Box::pin(async move { Ok(vec![election.campaign_with(timeout).await?.into()]) }));
            }
        };
        Ok(Box::pin(async move { Ok(vec![lock.acquire_as(&owner, timeout).await?]) }))
    }

    /// Sends the same request for the read lock, by the same owner.
    pub fn downgrade(self, stage: &Stage) -> Taking {
        match self.half(stage, false) {
            Ok(lock) => Box::pin(async move { Ok(vec![lock.acquire_as(&self.owner, self.timeout).await?]) }),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }
}

impl Kind {
    /// Returns the directory of the lock's queue.
    pub fn directory(self) -> &'static str {
        match self {
            // A waiter for a permit holds the semaphore's mutex and waits in the directory of
            // permits.
            Self::Permit => "/progress/leases",
            _ => LOCK,
        }
    }
}
