//! Looks at nodes, for those that show many locks: one request each, whatever there is to see.

use std::sync::Arc;

use crate::client::Client;
use crate::driver::mailbox::Query;
use crate::driver::mailbox::replies::{Listing, NodeContent};
use crate::error::Result;
use crate::queue::contender::ContenderInfo;

/// Lists the node at `path`, an absolute path below the client's chroot; `None` if there is no node. One request.
///
/// Cancel safe: nothing is left behind.
///
/// # Errors
/// As [`Client::get`].
pub async fn list(client: &Client, path: &str) -> Result<Option<Listing>> {
    let node = client.full(path)?;
    client.ask_again(path, |reply| Query::List { node: Arc::clone(&node), reply }).await
}

/// Reads the node at `path`; `None` if there is no node. One request.
///
/// Cancel safe: nothing is left behind.
///
/// # Errors
/// As [`Client::get`].
pub async fn look(client: &Client, path: &str) -> Result<Option<NodeContent>> {
    let node = client.full(path)?;
    client.ask_again(path, |reply| Query::Look { node: Arc::clone(&node), reply }).await
}

/// A contender of zklock's, in the words of its own data.
#[must_use]
pub fn about(data: &[u8]) -> Option<ContenderInfo> {
    ContenderInfo::parse(&serde_json::from_slice(data).ok()?)
}

/// The names of the children of the node at `path`, an absolute path below the client's chroot; none if there is no
/// node. One round trip.
///
/// Cancel safe: nothing is left behind.
///
/// # Errors
/// As [`Client::get`].
pub async fn children(client: &Client, path: &str) -> Result<Vec<String>> {
    let node = client.full(path)?;
    client.ask_again(path, |reply| Query::Children { node: Arc::clone(&node), reply }).await
}
