//! Reads nodes for tools that display many locks. Each read takes a fixed number of requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::client::Client;
use crate::config::ClientOptions;
use crate::driver::mailbox::Query;
use crate::driver::mailbox::replies::{First, Listing, NodeContent};
use crate::error::Result;
use crate::lease::Lease;
use crate::lock::Lock;
use crate::queue::NodeName;
use crate::queue::contender::{Contender, ContenderInfo, NodeSnapshot};

/// Lists the children of the node at `path`. Returns `None` if the node does not exist. `path` is
/// absolute, relative to the client's chroot. It can be `/`. Sends one request.
///
/// Cancel safe: a dropped future has no effect.
///
/// # Errors
/// Same as [`Client::get`].
pub async fn list(client: &Client, path: &str) -> Result<Option<Listing>> {
    let node = client.full_or_root(path)?;
    client.ask_again(path, |reply| Query::List { node: Arc::clone(&node), reply }).await
}

/// Reads the node at `path`. Returns `None` if the node does not exist. Sends one request.
///
/// Cancel safe: a dropped future has no effect.
///
/// # Errors
/// Same as [`Client::get`].
pub async fn look(client: &Client, path: &str) -> Result<Option<NodeContent>> {
    let node = client.full(path)?;
    client.ask_again(path, |reply| Query::ReadNode { node: Arc::clone(&node), reply }).await
}

/// Returns the first contender of a lock, or `None` if the lock is free. Sends three requests,
/// regardless of the number of contenders.
///
/// Cancel safe: a dropped future has no effect.
///
/// # Errors
/// Same as [`Lock::contenders`].
pub async fn first_contender(lock: &Lock) -> Result<Option<Contender>> {
    let First { contender, .. } =
        lock.ask(|place, reply| Query::First { place, watch: false, reply }).await?;
    lock.with_paths::<Vec<_>>(contender).map(|mut found| found.pop())
}

/// Resolves the name of a server, given as `HOST:PORT`, on the caller's runtime. The shutdown of
/// that runtime might wait for the resolver.
///
/// # Errors
/// The resolver's errors, and `TimedOut` if no result arrives within `limit`.
pub async fn resolve(server: &str, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = split(server)?;
    let resolved = timeout(limit, zklock_transport::resolve(host, port)).await;
    resolved.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Splits `HOST:PORT` into the host and the port.
fn split(server: &str) -> io::Result<(&str, u16)> {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, ""));
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no port"))?;
    Ok((host, port))
}

/// Sends one of ZooKeeper's four-letter words (such as `ruok`) to a server. The server is given as
/// `HOST:PORT`, together with its resolved addresses. Uses TLS if the client's connections do.
/// Returns an empty string if the server closes the connection without a reply. Runs on the
/// caller's runtime, which needs I/O enabled.
///
/// Cancel safe: dropping the future closes the connection.
///
/// # Errors
/// The errors of the connection, and `TimedOut` if no reply arrives within `limit`.
pub async fn four_letter_word(
    options: &ClientOptions,
    server: &str,
    addresses: &[SocketAddr],
    word: &str,
    limit: Duration,
) -> io::Result<String> {
    let (host, _) = split(server)?;
    let encryption = options.tls.as_deref().map(|tls| tls.encryption().clone());
    let asked = zklock_transport::four_letter_word(encryption, host, addresses.to_vec(), word);
    timeout(limit, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns the reason why a client cannot prove that its session is alive: the server that does not
/// reply, or the results of the last connection attempts to all servers.
#[must_use]
pub fn why_unproven(client: &Client) -> String {
    match client.health().server {
        Some(server) => format!("{server}: no answer"),
        None => client.mailbox().status.servers(&client.address().servers).to_string(),
    }
}

/// Returns the time since the client sent the last acknowledged write in the lease's session, or
/// `None` if there is no such write. Also works after the session has ended.
#[must_use]
pub fn last_proof(lease: &Lease) -> Option<Duration> {
    lease.term().proof_age()
}

/// Returns the rest of the term of the lease's session. Does not subtract the lock's `grace`. Also
/// works after the lease was lost.
///
/// After a loss, the lease's node can exist until the grace ends. Later heartbeats extend the term,
/// but not the grace.
#[must_use]
pub fn term_left(lease: &Lease) -> Duration {
    lease.term().remaining()
}

/// Parses the data that a zklock contender stores in its node.
#[must_use]
pub fn about(data: &[u8]) -> Option<ContenderInfo> {
    ContenderInfo::parse(&serde_json::from_slice(data).ok()?)
}

/// Builds a contender for tests that show queues, from the node's full path, the zxid that created
/// the node, and its data. Returns `None` if the node's name is not a contender's name.
#[must_use]
pub fn contender(position: usize, node: &str, czxid: i64, data: &[u8]) -> Option<Contender> {
    let (directory, name) = node.rsplit_once('/')?;
    let snapshot = NodeSnapshot { owner: 1, czxid, data: data.into(), data_length: data.len() };
    Some(Contender::seen(position, &NodeName::parse(name)?, &snapshot).within(directory))
}
