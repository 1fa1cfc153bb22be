//! Determines whether the simulation is *calm*: no fault has any effect. Only then can the oracle
//! require that something happens soon.

use crate::clock;
use crate::setting::Setting;

/// Maximum total of a client's pauses during one wait, in milliseconds. A client pauses before it
/// creates a directory again that was removed more than once.
const LONGEST_REST: u64 = 1000;

/// The current faults, and the time since which none has had an effect.
#[derive(Clone, Copy, Debug)]
pub struct Calm {
    /// Number of active faults.
    active: usize,
    /// Time at which all effects of the last fault were over.
    since: u64,
    /// Time that clients need to recover after a fault, for example to reconnect.
    settling: u64,
    /// Maximum duration of a few round trips.
    soon: u64,
    /// Maximum duration of joining a queue.
    entry: u64,
    /// Time without data after which a client leaves a connection.
    wait_limit: u64,
    /// True if latencies are so low that they never make a client leave a connection, and watches
    /// report every relevant change.
    steady: bool,
}

impl Calm {
    pub fn new(setting: &Setting) -> Self {
        // Number of consecutive messages between a request and its reply. With several servers, a
        // write causes three more messages between the servers.
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

    /// Returns `true` if no fault is active.
    pub fn is_over(&self) -> bool {
        self.active == 0
    }

    /// Returns `true` if no fault has had an effect since that time.
    pub fn lasts_since(&self, time: u64) -> bool {
        self.steady && self.active == 0 && self.since <= time
    }

    /// Returns `true` if a client that left a silent connection might not have reconnected yet.
    /// Even without faults, several slow packets can delay one reply so long that the client
    /// leaves.
    pub fn may_be_away(&self, (left, silent): (u64, u64)) -> bool {
        silent >= self.wait_limit && clock::now() <= left + self.soon
    }

    /// Returns `true` if a client that gave up its session at that time might still be without a
    /// new one. The client closes the old session first.
    pub fn may_lack_session(&self, gave_up: u64) -> bool {
        clock::now() <= gave_up + 2 * self.soon
    }

    pub fn soon(&self) -> u64 {
        self.soon
    }

    pub fn entry(&self) -> u64 {
        self.entry
    }
}
