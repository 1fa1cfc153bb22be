//! Functions that read and write the application's own nodes. [`Client::get`] returns a node's
//! version, which a later transaction can check. [`Client::set_shared_count`] sets a semaphore's
//! number of permits.

use std::sync::Arc;

use crate::client::Client;
use crate::config::lock_path::check_path;
use crate::driver::mailbox::Query;
use crate::driver::mailbox::node_watch::VersionedData;
use crate::error::Result;

/// A node's data, as [`Client::get`] returns it.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let lease = zklock::Mutex::new(client, "/locks/report")?.acquire().await?;
/// let Some(state) = client.get("/report/state").await? else { return Ok(()) };
/// let next = [&*state.data, b"."].concat();
/// // Written only if the lock is still held and no other program has written since.
/// lease.transaction().set_data("/report/state", &next, Some(state.version)).commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeData {
    /// The data.
    pub data: Vec<u8>,
    /// Version of the data: the number of times it was set. Pass it to a
    /// [`Transaction`](crate::Transaction).
    pub version: i32,
}

impl Client {
    /// Returns the data and version of the node at `path`, or `None` if the node does not exist.
    /// `path` is absolute, below the client's chroot. Takes one round trip. The data can be out of
    /// date, because the server can lag behind the other servers. If a write depends on this data,
    /// check the version in a [`Transaction`](crate::Transaction).
    ///
    /// Cancel safe: a dropped future has no effect.
    ///
    /// # Errors
    /// - [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, or if the data is
    ///   larger than [`max_frame`](crate::ClientOptions::max_frame) permits.
    /// - [`AuthFailed`](crate::ErrorKind::AuthFailed) if the client lacks the right to read the
    ///   node.
    /// - [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if no reply arrives within the
    ///   connect timeout.
    /// - The errors of [`ready`](Self::ready).
    pub async fn get(&self, path: &str) -> Result<Option<NodeData>> {
        let node = self.full(path)?;
        let ask = |reply| Query::ReadData { node: Arc::clone(&node), watch: false, reply };
        let found = self.ask_again(path, ask).await?;
        Ok(found.map(|VersionedData { data, version, .. }| NodeData { data, version }))
    }

    /// Sets the number in the node at `path`. [`Permits::SharedCount`](crate::Permits::SharedCount)
    /// and Curator's `SharedCount` read this number. Creates the node and its parents if they do
    /// not exist. Contenders that wait for permits notice the change. If the new number is smaller,
    /// the current holders keep their permits.
    ///
    /// Not cancel safe: the number might already be set.
    ///
    /// # Errors
    /// - [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path or a count above
    ///   2,147,483,647.
    /// - [`AuthFailed`](crate::ErrorKind::AuthFailed) if the client lacks the right to write the
    ///   node.
    /// - [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if no reply arrives: the number
    ///   might or might not be set.
    /// - The errors of [`ready`](Self::ready).
    pub async fn set_shared_count(&self, path: &str, count: u32) -> Result<()> {
        let node = self.full(path)?;
        let data = VersionedData::encode(count)?.to_vec();
        self.ask(|reply| Query::Put { node, data, reply }).await
    }

    /// Returns a node's path from the ensemble's root.
    pub(crate) fn full(&self, path: &str) -> Result<Arc<str>> {
        check_path("path", path)?;
        Ok(format!("{}{path}", self.address().chroot).into())
    }

    /// Like [`full`](Self::full), but accepts `/`, which stands for the chroot.
    pub(crate) fn full_or_root(&self, path: &str) -> Result<Arc<str>> {
        if path != "/" {
            return self.full(path);
        }
        let chroot = self.address().chroot.as_str();
        Ok(if chroot.is_empty() { "/" } else { chroot }.into())
    }
}
