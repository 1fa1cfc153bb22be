//! The read/write lock.

use crate::client::source::ClientSource;
use crate::error::Result;
use crate::lock::Lock;
use crate::lock::options::LockOptions;
use crate::queue::Kind;

/// A fair read/write lock, compatible with Curator's `InterProcessReadWriteLock`.
///
/// Consecutive readers at the head of the queue hold the lock together. A writer holds it alone. A
/// reader that arrives after a waiting writer waits behind it.
///
/// Each half is reentrant. An owner of the write lock can also acquire the read lock, and then has
/// the same fencing token for both. If the owner then releases the write lock, it still holds the
/// read lock, and no other writer gets the lock in between. If an owner that holds only the read
/// lock requests the write lock, the request fails with
/// [`UpgradeRefused`](crate::ErrorKind::UpgradeRefused), because the owner would wait for itself.
///
/// Fencing tokens of readers that hold the lock together are not comparable.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let catalogue = zklock::ReadWriteLock::new(client, "/locks/catalogue")?;
/// {
///     let _reading = catalogue.read_lock.acquire().await?;
///     println!("others may read too");
/// }
/// let writing = catalogue.write_lock.acquire().await?;
/// writing.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    /// The read lock. Several readers can hold it at the same time.
    pub read_lock: Lock,
    /// The write lock. It excludes all other holders.
    pub write_lock: Lock,
}

impl ReadWriteLock {
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
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, a label that is too
    /// long, or `reentrant(false)`.
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: impl AsRef<str>,
        options: LockOptions,
    ) -> Result<Self> {
        let (source, path) = (client.into(), path.as_ref());
        let settings = options.of_read_write_lock()?;
        let read_lock = Lock::new(source.clone(), path, Kind::Read, settings.clone())?;
        Ok(Self { read_lock, write_lock: Lock::new(source, path, Kind::Write, settings)? })
    }
}
