//! The setting of a simulation: the numbers of servers and clients, and durations such as the
//! session timeout.

use crate::chance::Chance;

/// The numbers of servers and clients, and durations in milliseconds.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a condition of its own, and they come in any combination"
)]
pub struct Setting {
    pub servers: usize,
    pub clients: usize,
    /// The session timeout that clients request.
    pub timeout: u64,
    /// The servers' tick, at most a quarter of the session timeout.
    pub tick: u64,
    /// Maximum latency of most packets.
    pub latency: u64,
    /// Time during which contenders begin attempts and faults happen.
    pub duration: u64,
    /// Maximum total size of the paths that a client watches, in bytes, or `None` for the library's
    /// default.
    pub watch_room: Option<usize>,
    /// True if some clients have the chroot `/locks`.
    pub chroots: bool,
    /// Interval at which the server removes unused lock directories, or `None` if it never does.
    pub reaps: Option<u64>,
    /// True if servers support container nodes.
    pub containers: bool,
    /// True if contenders often begin at the same time.
    pub rushes: bool,
    /// True if there is a visitor, which has its own clients.
    pub visited: bool,
    /// True if there is a guest instead of a visitor.
    pub hosts: bool,
    /// The client that creates private nodes, if any. Other clients need the password to use these
    /// nodes. All clients know it.
    pub private: Option<usize>,
}

impl Setting {
    /// Creates a setting without optional features, for runs that do not choose their faults at
    /// random.
    pub fn plain(servers: usize, clients: usize, timeout: u64, latency: u64) -> Self {
        Self {
            servers,
            clients,
            timeout,
            tick: timeout / 10,
            latency,
            duration: 0,
            watch_room: None,
            chroots: false,
            reaps: None,
            containers: true,
            rushes: false,
            visited: false,
            hosts: false,
            private: None,
        }
    }

    /// Draws the setting of a seed. Every second seed has three servers.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::of(seed, "setting", 0);
        let tick = chance.pick(&[250, 500, 1000]);
        let timeout = tick * chance.pick(&[4, 4, 6, 10]);
        let clients = chance.index(4) + 2;
        // The slowest packets take twenty times this latency. Even they must not make a session
        // expire.
        let latency = chance.pick(&[2, 5, 20, 60]).min(timeout / 50);
        let periods = chance.number(6..=10);
        // Use separate sequences of random numbers here. The numbers that were drawn above must not
        // change.
        let mut rare = Chance::of(seed, "rare setting", 0);
        let watch_room = rare.percent(20).then(|| rare.index(220));
        let visited = Chance::of(seed, "visitor", 0).percent(15);
        Self {
            watch_room,
            servers: if seed.is_multiple_of(2) { 1 } else { 3 },
            clients,
            timeout,
            tick,
            latency,
            duration: timeout * periods,
            chroots: chance.percent(40),
            reaps: chance.percent(40).then(|| chance.number(5 * latency..=50 * latency)),
            containers: chance.percent(85),
            rushes: chance.percent(40),
            visited,
            private: None,
            hosts: !visited && Chance::of(seed, "guest", 0).percent(20),
        }
    }

    /// Returns the chroot of a client.
    pub fn chroot(&self, client: usize) -> &'static str {
        if self.chroots && client < self.clients && client % 2 == 1 { "/locks" } else { "" }
    }
}
