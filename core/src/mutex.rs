//! The fair, reentrant, exclusive lock.

use std::ops::Deref;

use crate::error::Result;
use crate::lock::{ClientSource, Lock, Manner};
use crate::queue::{Kind, Naming};

/// How a [`Mutex`] behaves.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{Mutex, MutexOptions, Naming};
///
/// let mut options = MutexOptions::default();
/// options.label = Some("nightly report".into());
/// options.naming = Naming::Kazoo;
/// let lock = Mutex::with_options(client, "/locks/report", options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MutexOptions {
    /// Whether an owner that holds the lock may acquire it again. Default: yes.
    pub reentrant: bool,
    /// A name for this contender, shown to operators in the data of its nodes.
    pub label: Option<String>,
    /// How the nodes are named, which decides which other clients understand them.
    pub naming: Naming,
}

impl Default for MutexOptions {
    fn default() -> Self {
        Self { reentrant: true, label: None, naming: Naming::default() }
    }
}

/// A fair, reentrant, exclusive lock, taken in the layout of Curator's `InterProcessMutex`.
///
/// Two lock objects on one client and path are one lock. Creating one sends nothing.
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
pub struct Mutex(Lock);

impl Mutex {
    /// A lock at `path`, an absolute path below the client's chroot. Missing directories are created when needed.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path.
    pub fn new(client: impl Into<ClientSource>, path: &str) -> Result<Self> {
        Self::with_options(client, path, MutexOptions::default())
    }

    /// A lock at `path` with options.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path.
    pub fn with_options(client: impl Into<ClientSource>, path: &str, options: MutexOptions) -> Result<Self> {
        let MutexOptions { reentrant, label, naming } = options;
        let manner = Manner { reentrant, label, naming, max_hold: None, stated_permits: None };
        Lock::new(client.into(), path, Kind::Exclusive, manner).map(Self)
    }
}

impl From<Mutex> for Lock {
    fn from(mutex: Mutex) -> Self {
        mutex.0
    }
}

impl Deref for Mutex {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.0
    }
}
