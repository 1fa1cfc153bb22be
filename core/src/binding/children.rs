//! What lies below a path, for those that show all locks there.

use std::sync::Arc;

use crate::client::Client;
use crate::error::Result;
use crate::mailbox::Inquiry;

/// The names of the children of the node at `path`, an absolute path below the client's chroot; none if there is no
/// node. One round trip.
///
/// Cancel safe: nothing is left behind.
///
/// # Errors
/// As [`Client::get`].
pub async fn children(client: &Client, path: &str) -> Result<Vec<String>> {
    let node = client.full(path)?;
    client.ask_again(path, |reply| Inquiry::Children { node: Arc::clone(&node), reply }).await
}
