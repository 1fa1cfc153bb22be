//! What programs read and write beside their locks: enough to condition a transaction on a version, and to set the
//! number of a semaphore's permits. Nothing more of a ZooKeeper client than that.

use std::sync::Arc;

use crate::client::Client;
use crate::config::lock_path::check_path;
use crate::driver::mailbox::Query;
use crate::driver::mailbox::node_watch::VersionedData;
use crate::error::Result;

/// The data of a node, as [`Client::get`] reads it.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let lease = zklock::Mutex::new(client, "/locks/report")?.acquire().await?;
/// let Some(state) = client.get("/report/state").await? else { return Ok(()) };
/// let next = [&*state.data, b"."].concat();
/// // Written only if the lock is still held, and nobody else wrote since.
/// lease.transaction().set_data("/report/state", &next, Some(state.version)).commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeData {
    /// The data.
    pub data: Vec<u8>,
    /// How often the data was set, for the version that a [`Transaction`](crate::Transaction) expects.
    pub version: i32,
}

impl Client {
    /// The data of the node at `path`, an absolute path below the client's chroot, and its version; `None` if there is
    /// no node. One round trip. The server may lag behind others: condition what depends on the answer on its version,
    /// in a [`Transaction`](crate::Transaction).
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, or data larger than the client reads;
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) if the node may not be read;
    /// [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if there is no answer within the connect time-out; and
    /// those of [`ready`](Self::ready).
    pub async fn get(&self, path: &str) -> Result<Option<NodeData>> {
        let node = self.full(path)?;
        let ask = |reply| Query::Number { node: Arc::clone(&node), watch: false, reply };
        let found = self.ask_again(path, ask).await?;
        Ok(found.map(|VersionedData { data, version, .. }| NodeData { data, version }))
    }

    /// Sets the number in the node at `path`, which [`Permits::SharedCount`](crate::Permits::SharedCount) and Curator's
    /// `SharedCount` read; creates the node, and its parents, if there is none. Semaphores that wait learn of it. A
    /// smaller number takes no permit away from those that hold one.
    ///
    /// Not cancel safe: the number may have been set.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path or a count of more than 2,147,483,647;
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) if the node may not be written;
    /// [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if there is no answer: then the number may or may not
    /// have been set; and those of [`ready`](Self::ready).
    pub async fn set_shared_count(&self, path: &str, count: u32) -> Result<()> {
        let node = self.full(path)?;
        let data = VersionedData::encode(count)?.to_vec();
        self.ask(|reply| Query::Put { node, data, reply }).await
    }

    /// A node's path from the ensemble's root.
    pub(crate) fn full(&self, path: &str) -> Result<Arc<str>> {
        check_path("path", path)?;
        Ok(format!("{}{path}", self.address().chroot).into())
    }

    /// The same for a path that may be `/`, which is the chroot.
    pub(crate) fn full_or_root(&self, path: &str) -> Result<Arc<str>> {
        if path != "/" {
            return self.full(path);
        }
        let chroot = self.address().chroot.as_str();
        Ok(if chroot.is_empty() { "/" } else { chroot }.into())
    }
}
