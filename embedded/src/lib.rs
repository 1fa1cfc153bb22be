//! ZooKeeper's client protocol, served from memory by one process: **for development and tests only**.
//!
//! [`TestServer`] runs on a thread of its own, for tests in any program; [`Server`] on the caller's tokio runtime. Ordinary
//! ZooKeeper clients use them as they would use Apache ZooKeeper 3.9. A test can expire a client's session, cut its
//! connection, let the server fall silent or answer late, and look at its nodes. Nothing is kept on disk, and there is no ensemble: what a test shows here says nothing about followers that lag, elections or
//! partitions, so it is never evidence of safety on its own. Production is Apache ZooKeeper.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = zklock_embedded::Server::start("127.0.0.1:0").await?;
//! let client = zklock::Client::connect(&server.hosts()).await?;
//! let lease = zklock::Mutex::new(&client, "/locks/report")?.acquire().await?;
//! server.expire(lease.session_id()).await;
//! lease.lost().await;
//! server.stop().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(example())?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layers
//! [`Machine`] is the server without I/O, clock and randomness: [`Inbound`] messages and [`Time`] go in, [`Output`]s
//! come out in the order in which they have to be sent. The same inputs give the same outputs. [`Decoder`] cuts a
//! connection's bytes into messages; [`Server`] puts sockets around both.
//!
//! # What is different from Apache ZooKeeper
//! No TLS, SASL, quotas, reconfiguration, snapshots or admin server; the schemes of an ACL are `world`, `digest`, `ip`
//! and `auth`. Children, ephemeral nodes, identities and the watchers of one event come in a fixed order, where the real
//! server has none. A session's nodes are deleted in order of their paths. TTL nodes are on by default
//! ([`Settings::ttl_nodes`]). The first zxid follows from the clock, so that zxids, and fencing tokens with them, grow
//! over restarts.

mod access;
mod code;
mod connection_task;
mod connections;
mod digest;
mod ephemerals;
mod four_letter_words;
mod frames;
mod host;
mod hosted;
mod jute;
mod net;
mod node;
mod path;
mod reads;
mod replies;
mod requests;
mod sessions;
mod settings;
mod state_machine;
mod tree;
mod watches;
mod writes;

pub use connections::ConnectionId;
pub use frames::{Decoder, Inbound, Malformed};
pub use hosted::TestServer;
pub use net::Server;
pub use replies::{Message, Output};
pub use settings::{Settings, Time};
pub use state_machine::Machine;

/// The page's examples for Rust are tested with those of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
mod page {}
