//! The stage: how many take part, and how quick everything is.

use crate::chance::Chance;

/// Who takes part, and the times that matter, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub servers: usize,
    pub clients: usize,
    /// The session time-out that clients ask for.
    pub timeout: u64,
    /// The servers' tick: a quarter of it at most.
    pub tick: u64,
    /// The latency of most packets is up to this.
    pub latency: u64,
    /// For how long contenders begin anew, and faults befall them.
    pub duration: u64,
}

impl Setting {
    /// That of a seed. Every second has three servers.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::of(seed, "setting", 0);
        let tick = chance.pick(&[250, 500, 1000]);
        let timeout = tick * chance.pick(&[4, 4, 6, 10]);
        Self {
            servers: if seed.is_multiple_of(2) { 1 } else { 3 },
            clients: chance.index(4) + 2,
            timeout,
            tick,
            latency: chance.pick(&[2, 5, 20, 60]),
            duration: timeout * chance.number(6..=10),
        }
    }
}
