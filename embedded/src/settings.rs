//! What is handed to the state machine from outside.

use std::hash::{BuildHasher, RandomState};

/// An instant, handed in with every input: the state machine reads no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Milliseconds since 1970, for the times in a node's Stat.
    pub wall: i64,
    /// Milliseconds on a clock that never goes back, for time-outs.
    pub elapsed: u64,
}

/// How a server behaves; the defaults are quick enough for tests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sessions expire on multiples of it, in milliseconds. The default is 100.
    pub tick: u64,
    /// The shortest session time-out, in milliseconds; a client that asks for less gets it. The default is 2 ticks.
    pub min_timeout: u64,
    /// The longest session time-out, in milliseconds; a client that asks for more gets it. The default is 60,000.
    pub max_timeout: u64,
    /// The longest frame and the longest string, in bytes. The default is 1,048,575, as `jute.maxbuffer`.
    pub max_frame: usize,
    /// How often containers that became empty and TTL nodes that became old are removed, in milliseconds. The default is
    /// 60,000.
    pub reap_interval: u64,
    /// Whether TTL nodes can be created, as `zookeeper.extendedTypesEnabled`. The default is true; Apache ZooKeeper's is
    /// false.
    pub ttl_nodes: bool,
    /// How long a client may take nothing of what it is sent before its connection is closed, in milliseconds: its session
    /// may be gone, and events would pile up for nobody. The same for one that is hung up on, to hang up too. The default
    /// is 10,000.
    pub slow_peer_timeout: u64,
    /// Session passwords follow from it: a random number, or a fixed one for a simulation. The default is 0.
    pub seed: u64,
}

impl Settings {
    /// The defaults, with a random seed.
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
