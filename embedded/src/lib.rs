//! An in-memory server for ZooKeeper's client protocol, in one process: **for development and tests
//! only**.
//!
//! [`TestServer`] runs on its own thread, for tests in any program. [`Server`] runs on the caller's
//! tokio runtime. Ordinary ZooKeeper clients can use both like Apache ZooKeeper 3.9. A test can
//! expire a client's session, close its connection, stop or delay the server's replies, and read
//! its nodes.
//!
//! Nothing is stored on disk, and there is no ensemble. A test against this server therefore says
//! nothing about lagging followers, elections or partitions, and is not sufficient evidence of
//! safety. Use Apache ZooKeeper in production.
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
//! [`Machine`] is the server without I/O, clock and randomness. It takes [`Inbound`] messages and
//! the [`Time`], and returns [`Output`]s in the order in which they must be sent. The same inputs
//! give the same outputs. [`Decoder`] splits a connection's bytes into messages. [`Server`] adds
//! the sockets.
//!
//! # Differences from Apache ZooKeeper
//! - There is no TLS, SASL, quota, reconfiguration, snapshot or admin server.
//! - ACLs support the schemes `world`, `digest`, `ip` and `auth`.
//! - Children, ephemeral nodes, identities and the watchers of one event have a fixed order. In the
//!   real server their order is undefined.
//! - When a session ends, its nodes are deleted in path order.
//! - TTL nodes are enabled by default ([`Settings::ttl_nodes`]).
//! - The first zxid is derived from the clock, so zxids and fencing tokens keep growing after a
//!   restart.

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
mod net;
mod node;
mod path;
mod reads;
mod records;
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

/// Tests the Rust examples of the testing page together with the examples of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
mod page {}
