//! The read/write lock.

use crate::error::Result;
use crate::lock::{ClientSource, Lock, Manner};
use crate::queue::{Kind, Naming};

/// How a [`ReadWriteLock`] behaves.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{ReadWriteLock, ReadWriteLockOptions};
///
/// let mut options = ReadWriteLockOptions::default();
/// options.label = Some("importer".into());
/// let catalogue = ReadWriteLock::with_options(client, "/locks/catalogue", options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReadWriteLockOptions {
    /// A name for this contender, shown to operators in the data of its nodes.
    pub label: Option<String>,
    /// How the nodes are named, which decides which other clients understand them.
    pub naming: Naming,
}

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
#[derive(Debug)]
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
    pub fn new(client: impl Into<ClientSource>, path: &str) -> Result<Self> {
        Self::with_options(client, path, ReadWriteLockOptions::default())
    }

    /// A lock at `path` with options.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path.
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: &str,
        options: ReadWriteLockOptions,
    ) -> Result<Self> {
        let source = client.into();
        let ReadWriteLockOptions { label, naming } = options;
        let manner = Manner { reentrant: true, label, naming, max_hold: None, stated_permits: None };
        let read_lock = Lock::new(source.clone(), path, Kind::Read, manner.clone())?;
        Ok(Self { read_lock, write_lock: Lock::new(source, path, Kind::Write, manner)? })
    }
}
