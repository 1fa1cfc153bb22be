//! The read/write lock.

use crate::client::source::ClientSource;
use crate::error::Result;
use crate::lock::Lock;
use crate::lock::options::LockOptions;
use crate::queue::Kind;

/// A fair read/write lock, taken in the layout of Curator's `InterProcessReadWriteLock`.
///
/// A run of readers at the head of the queue holds together; a writer holds alone; a reader that comes after a
/// waiting writer waits behind it. Each half is reentrant. An owner of the write lock may take the read lock too, and
/// keeps it when it releases the write lock, with no one in between; it keeps the writer's fencing token. An owner of
/// only the read lock is refused the write lock with [`UpgradeRefused`](crate::ErrorKind::UpgradeRefused): it
/// would wait for itself.
///
/// Fencing tokens of readers that hold together are not comparable.
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
    /// Held together with other readers.
    pub read_lock: Lock,
    /// Held alone.
    pub write_lock: Lock,
}

impl ReadWriteLock {
    /// A lock at `path`, an absolute path below the client's chroot. Missing directories are created when needed.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path.
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>) -> Result<Self> {
        Self::with_options(client, path, LockOptions::default())
    }

    /// A lock at `path` with options.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, a label that is too long, or
    /// `reentrant(false)`.
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
