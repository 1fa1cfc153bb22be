//! The fair, reentrant, exclusive lock.

use std::sync::{Arc, Mutex as StdMutex};

use tokio::sync::oneshot;

use crate::client::Client;
use crate::driver::{Attempt, Command};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Lease, LockPath};
use crate::options::{ClientOptions, Patience, check_path};
use crate::owner::Owner;
use crate::queue::{JoinId, Naming};

/// Where a lock's client comes from.
#[derive(Clone, Debug)]
pub enum ClientSource {
    /// This client.
    Client(Client),
    /// The process's one client with these options, made when it is first needed.
    Shared(ClientOptions),
}

impl From<&Client> for ClientSource {
    fn from(client: &Client) -> Self {
        Self::Client(client.clone())
    }
}

/// How a lock behaves.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MutexOptions {
    /// A name for this contender, shown to operators in the data of its nodes.
    pub label: Option<String>,
    /// How the nodes are named, which decides who else understands them.
    pub naming: Naming,
}

/// A fair, reentrant, exclusive lock, taken in the layout of Curator's `InterProcessMutex`.
///
/// Waiters are served in the order in which the server queued them. An [`Owner`] that holds the lock may
/// acquire it again, through this or any other lock object of the same client and path. Two lock objects on
/// one client and path are one lock. Making one sends nothing.
///
/// ```no_run
/// # async fn example() -> zklock::Result<()> {
/// let client = zklock::Client::connect("127.0.0.1:2181").await?;
/// let lock = zklock::Mutex::new(&client, "/locks/report")?;
/// let lease = lock.acquire().await?;
/// println!("holding, with token {}", lease.fencing_token());
/// lease.release().await
/// # }
/// ```
#[derive(Debug)]
pub struct Mutex {
    source: ClientSource,
    path: String,
    options: MutexOptions,
    /// The last resolved client's view of the path. A shared client is another one after fork or close.
    resolved: StdMutex<Option<Arc<LockPath>>>,
}

impl std::fmt::Debug for LockPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockPath").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Mutex {
    /// A lock at `path`, an absolute path below the client's chroot. Missing directories are made when needed.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for a malformed path.
    pub fn new(client: impl Into<ClientSource>, path: &str) -> Result<Self> {
        Self::with_options(client, path, MutexOptions::default())
    }

    /// A lock at `path` with options.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for a malformed path.
    pub fn with_options(client: impl Into<ClientSource>, path: &str, options: MutexOptions) -> Result<Self> {
        check_path("path", path)?;
        Ok(Self { source: client.into(), path: path.to_owned(), options, resolved: StdMutex::new(None) })
    }

    /// The lock path, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Acquires the lock as a new owner, waiting as long as it takes.
    ///
    /// Cancel safe: dropping the future leaves the queue; a grant that races it is released.
    ///
    /// # Errors
    /// [`ClientClosed`](ErrorKind::ClientClosed), [`ConnectionFailed`](ErrorKind::ConnectionFailed) if no server
    /// was ever reached, [`AuthFailed`](ErrorKind::AuthFailed), [`SequenceExhausted`](ErrorKind::SequenceExhausted),
    /// [`Forked`](ErrorKind::Forked).
    pub async fn acquire(&self) -> Result<Lease> {
        self.acquire_as(Owner::new(), Patience::Forever).await
    }

    /// Like [`acquire`](Self::acquire), within `time`, which covers connecting, queueing and waiting together.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout), and those of [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: std::time::Duration) -> Result<Lease> {
        self.acquire_as(Owner::new(), Patience::For(time)).await
    }

    /// Acquires the lock if it is free, without queueing. A lock that is seen to be taken costs one read.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if nothing answers within the connect time-out, and those of
    /// [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_as(Owner::new(), Patience::Try).await)
    }

    /// Acquires the lock for `owner`, who re-enters at once if they hold it. With [`Patience::Try`] a lock that
    /// is taken is a [`LockTimeout`](ErrorKind::LockTimeout).
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub async fn acquire_as(&self, owner: Owner, patience: Patience) -> Result<Lease> {
        let lock = self.resolve()?;
        if let Some(lease) = lock.reenter(owner) {
            return Ok(lease);
        }
        let (reply, outcome) = oneshot::channel();
        let join = lock.client.next_join();
        let mut leave = LeaveOnDrop { lock: &lock, join: Some(join) };
        let attempt = Attempt::new(join, Arc::clone(&lock), owner, patience, &self.options, reply);
        lock.client.send(Command::Join(attempt))?;
        let outcome = outcome.await;
        leave.join = None;
        outcome.unwrap_or_else(|_| Err(Error::client_closed()))
    }

    /// Whether `owner` holds the lock. Sends nothing.
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked).
    pub fn owned_by(&self, owner: Owner) -> Result<bool> {
        Ok(self.resolve()?.owned_by(owner))
    }

    fn resolve(&self) -> Result<Arc<LockPath>> {
        // Contended or poisoned, the cache is merely not used.
        if let Some(lock) = self.resolved.try_lock().ok().and_then(|lock| lock.clone())
            && lock.client.usable()
        {
            return Ok(lock);
        }
        let client = match &self.source {
            ClientSource::Client(client) => client.clone(),
            ClientSource::Shared(options) => Client::shared(options)?,
        };
        let lock = client.lock_path(&self.path)?;
        if let Ok(mut resolved) = self.resolved.try_lock() {
            *resolved = Some(Arc::clone(&lock));
        }
        Ok(lock)
    }
}

/// Turns the refusal of a [`Patience::Try`] into `None`.
pub(crate) fn busy_is_none(result: Result<Lease>) -> Result<Option<Lease>> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(error) if error.kind() == ErrorKind::LockTimeout => Ok(None),
        Err(error) => Err(error),
    }
}

/// Leaves the queue when the future that waits in it is dropped.
struct LeaveOnDrop<'a> {
    lock: &'a LockPath,
    join: Option<JoinId>,
}

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(join) = self.join {
            let path = Arc::clone(&self.lock.full_path);
            self.lock.client.send(Command::Leave { path, join }).ok();
        }
    }
}
