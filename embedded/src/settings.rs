//! Inputs that the state machine receives from outside.

use std::hash::{BuildHasher, RandomState};

/// An instant, passed with every input because the state machine reads no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Milliseconds since 1970, for the times in a node's Stat.
    pub wall: i64,
    /// Milliseconds on a clock that never goes back, for timeouts.
    pub elapsed: u64,
}

/// The behavior of a server. The defaults are fast enough for tests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Tick in milliseconds: sessions expire on multiples of it. The default is 100.
    pub tick: u64,
    /// Minimum session timeout in milliseconds. A client that asks for less gets this. The default
    /// is 2 ticks.
    pub min_timeout: u64,
    /// Maximum session timeout in milliseconds. A client that asks for more gets this. The default
    /// is 60,000.
    pub max_timeout: u64,
    /// Maximum length of a frame and of a string, in bytes. The default is 1,048,575, as for
    /// `jute.maxbuffer`.
    pub max_frame: usize,
    /// Interval in milliseconds at which the server removes empty containers and expired TTL nodes.
    /// The default is 60,000.
    pub reap_interval: u64,
    /// `true` if TTL nodes can be created, like `zookeeper.extendedTypesEnabled`. The default is
    /// true, whereas Apache ZooKeeper's default is false.
    pub ttl_nodes: bool,
    /// Time in milliseconds after which the server closes the connection of a client that reads
    /// nothing, because events for this client would pile up. After the server has closed its half
    /// of a connection, the client must close the other half within this time. The default is
    /// 10,000.
    pub slow_peer_timeout: u64,
    /// Seed for the session passwords: a random number, or a fixed one for a simulation. The
    /// default is 0.
    pub seed: u64,
}

impl Settings {
    /// Returns the defaults with a random seed.
    #[must_use]
    pub fn random() -> Self {
        Settings { seed: RandomState::new().hash_one(0), ..Settings::default() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            tick: 100,
            min_timeout: 200,
            max_timeout: 60_000,
            max_frame: 0xf_ffff,
            reap_interval: 60_000,
            ttl_nodes: true,
            slow_peer_timeout: 10_000,
            seed: 0,
        }
    }
}
