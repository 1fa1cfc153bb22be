//! The mutex: a fair, reentrant, exclusive lock.

use std::ops::Deref;

use crate::client::source::ClientSource;
use crate::error::Result;
use crate::lock::Lock;
use crate::lock::options::LockOptions;
use crate::queue::Kind;

/// A fair, reentrant, exclusive lock, compatible with Curator's `InterProcessMutex`.
///
/// Lock objects with the same client and path, and clones of a lock object, all refer to the same
/// lock. Creating a lock object sends no request.
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
#[derive(Clone, Debug)]
pub struct Mutex(Lock);

impl Mutex {
    /// Creates a lock at `path`, an absolute path relative to the client's chroot.
    ///
    /// Missing directories are created when they are needed.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path.
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>) -> Result<Self> {
        Self::with_options(client, path, LockOptions::default())
    }

    /// Creates a lock at `path` with options.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, or a label that is too
    /// long.
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: impl AsRef<str>,
        options: LockOptions,
    ) -> Result<Self> {
        Lock::new(client.into(), path.as_ref(), Kind::Exclusive, options.of_mutex()).map(Self)
    }
}

impl From<Mutex> for Lock {
    fn from(mutex: Mutex) -> Self {
        mutex.0
    }
}

impl From<&Mutex> for Lock {
    fn from(mutex: &Mutex) -> Self {
        mutex.0.clone()
    }
}

impl Deref for Mutex {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.0
    }
}
