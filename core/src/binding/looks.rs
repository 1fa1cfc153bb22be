//! Looks at nodes, for those that show many locks: one request each, whatever there is to see.

use std::sync::Arc;

use crate::client::Client;
use crate::contender::About;
use crate::error::Result;
use crate::looks::{Listing, Sight};
use crate::mailbox::Inquiry;

/// Lists the node at `path`, an absolute path below the client's chroot; `None` if there is no node. One request.
///
/// Cancel safe: nothing is left behind.
///
/// # Errors
/// As [`Client::get`].
pub async fn list(client: &Client, path: &str) -> Result<Option<Listing>> {
    let node = client.full(path)?;
    client.ask_again(path, |reply| Inquiry::List { node: Arc::clone(&node), reply }).await
}

/// Reads the node at `path`; `None` if there is no node. One request.
///
/// Cancel safe: nothing is left behind.
///
/// # Errors
/// As [`Client::get`].
pub async fn look(client: &Client, path: &str) -> Result<Option<Sight>> {
    let node = client.full(path)?;
    client.ask_again(path, |reply| Inquiry::Look { node: Arc::clone(&node), reply }).await
}

/// What a contender's data says of it, if it is one of zklock's.
#[must_use]
pub fn about(data: &[u8]) -> Option<About> {
    About::parse(&serde_json::from_slice(data).ok()?)
}
