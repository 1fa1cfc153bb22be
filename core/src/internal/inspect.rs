//! Looks at nodes, for those that show many locks: one request each, whatever there is to see.

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

/// Lists the node at `path`, an absolute path below the client's chroot, or `/`; `None` if there is no node. One request.
///
/// Cancel safe: nothing is left behind.
///
/// # Errors
/// As [`Client::get`].
pub async fn list(client: &Client, path: &str) -> Result<Option<Listing>> {
    let node = client.full_or_root(path)?;
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

/// The first contender for a lock; `None` if it is free. Three requests, however many there are.
///
/// Cancel safe: nothing is left behind.
///
/// # Errors
/// As [`Lock::contenders`].
pub async fn first_contender(lock: &Lock) -> Result<Option<Contender>> {
    let First { contender, .. } =
        lock.ask(|place, reply| Query::First { place, watch: false, reply }).await?;
    lock.with_paths::<Vec<_>>(contender).map(|mut found| found.pop())
}

/// Resolves a server, given as `HOST:PORT`. On a runtime of the caller's, whose end may have to wait for the resolver.
///
/// # Errors
/// The errors of the resolver; `TimedOut` if there is no answer within `limit`.
pub async fn resolve(server: &str, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = split(server)?;
    let resolved = timeout(limit, zklock_transport::resolve(host, port)).await;
    resolved.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The host and the port of `HOST:PORT`.
fn split(server: &str) -> io::Result<(&str, u16)> {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, ""));
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no port"))?;
    Ok((host, port))
}

/// Asks a server, given as `HOST:PORT` and by its addresses, with one of ZooKeeper's four-letter words; encrypted if the
/// client's connections are. The answer is empty if the server closes the connection without one. On a runtime of the
/// caller's, with I/O.
///
/// Cancel safe: the connection is closed.
///
/// # Errors
/// The errors of the connection; `TimedOut` if there is no answer within `limit`.
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

/// The reason why a client's session is not proven, as far as it is known: the server that does not answer, or the result of
/// the last attempt at each.
#[must_use]
pub fn why_unproven(client: &Client) -> String {
    match client.health().server {
        Some(server) => format!("{server}: no answer"),
        None => client.mailbox().status.servers(&client.address().servers).to_string(),
    }
}

/// How long ago the last proof of a lease's session was sent, also after that session has ended; `None` before the first.
#[must_use]
pub fn last_proof(lease: &Lease) -> Option<Duration> {
    lease.term().proof_age()
}

/// How much is left of the term of a lease's session, with the lock's `grace` in it, also after the lease was lost. A node
/// that is kept for its grace goes no later than at the end of the term in which the lease was lost; later heartbeats make
/// this longer, and the grace not.
#[must_use]
pub fn term_left(lease: &Lease) -> Duration {
    lease.term().remaining()
}

/// A contender of zklock's, in the words of its own data.
#[must_use]
pub fn about(data: &[u8]) -> Option<ContenderInfo> {
    ContenderInfo::parse(&serde_json::from_slice(data).ok()?)
}

/// A contender at a node's full path, with the transaction that created it and its data: for tests that show queues.
/// `None` if the node's name is not one of a contender.
#[must_use]
pub fn contender(position: usize, node: &str, czxid: i64, data: &[u8]) -> Option<Contender> {
    let (directory, name) = node.rsplit_once('/')?;
    let snapshot = NodeSnapshot { owner: 1, czxid, data: data.into(), data_length: data.len() };
    Some(Contender::seen(position, &NodeName::parse(name)?, &snapshot).within(directory))
}
