//! When nothing befalls anybody, what has to happen soon can be told from what only may.

use crate::clock;
use crate::setting::Setting;

/// Where directories go as soon as they are there, who makes them anew pauses, from the second time on: so long, of those
/// pauses that are likely to come in one wait.
const LONGEST_REST: u64 = 1000;

/// Since when nothing has befallen anybody.
#[derive(Clone, Copy, Debug)]
pub struct Calm {
    /// Faults that go on.
    active: usize,
    /// Since when everything has settled after the last one.
    since: u64,
    /// For how long clients may feel a fault that is over: they connect again, by and by.
    settling: u64,
    /// How long a few round trips take at most.
    soon: u64,
    /// How long entering a queue takes at most.
    entry: u64,
    /// For how long a connection may be silent before its client leaves it.
    wait_limit: u64,
    /// Whether latencies are so low that a connection is not given up because of them, and whoever has to know is told by
    /// a watch.
    steady: bool,
}

impl Calm {
    pub fn new(setting: &Setting) -> Self {
        // With several servers a request that changes something passes three times between them.
        let hops = if setting.servers == 1 { 2 } else { 5 };
        let soon = 50 * hops * setting.latency + 30;
        Self {
            active: 0,
            since: 1000 + 2 * soon,
            settling: 2 * setting.timeout + 2000,
            soon,
            wait_limit: setting.timeout * 2 / 5,
            entry: soon + if setting.reaps.is_some() { LONGEST_REST } else { 0 },
            steady: 100 * setting.latency <= setting.timeout && setting.watch_room.is_none(),
        }
    }

    pub fn fault(&mut self, begins: bool) {
        self.active = if begins { self.active + 1 } else { self.active.saturating_sub(1) };
        self.since = clock::now() + self.settling;
    }

    /// Whether no fault goes on.
    pub fn is_over(&self) -> bool {
        self.active == 0
    }

    /// Whether nothing has befallen anybody since then.
    pub fn reigns_since(&self, time: u64) -> bool {
        self.steady && self.active == 0 && self.since <= time
    }

    /// Whether a client may be away now that left a silent connection: several slow packets in a row fall on one request.
    pub fn may_be_away(&self, (left, silent): (u64, u64)) -> bool {
        silent >= self.wait_limit && clock::now() <= left + self.soon
    }

    /// Whether a client may still be without a session that gave one up then: it closes the old one, and begins another.
    pub fn may_begin_anew(&self, gave_up: u64) -> bool {
        clock::now() <= gave_up + 2 * self.soon
    }

    /// How long a few round trips take at most, while it reigns.
    pub fn soon(&self) -> u64 {
        self.soon
    }

    /// How long entering a queue takes at most, while it reigns.
    pub fn entry(&self) -> u64 {
        self.entry
    }
}
