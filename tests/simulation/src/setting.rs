//! The stage: how many take part, and how quick everything is.

use crate::chance::Chance;

/// Who takes part, and the times that matter, in milliseconds.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a condition of its own, and they come in any combination"
)]
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
    /// How many bytes of paths a client may watch, if they are fewer than in real life.
    pub watch_room: Option<usize>,
    /// Whether some clients see everything below `/locks`.
    pub chroots: bool,
    /// How often the server removes the directories of locks that nobody contends for, if it does.
    pub reaps: Option<u64>,
    /// Whether servers know container nodes.
    pub containers: bool,
    /// Whether contenders often begin at the same time.
    pub rushes: bool,
    /// Whether there is a visitor, whose clients are its own.
    pub visited: bool,
    /// Whether there is a guest in its place.
    pub hosts: bool,
    /// The client whose nodes only those may use that know a password, as all clients do then.
    pub private: Option<usize>,
}

impl Setting {
    /// Plain servers and clients, for runs whose faults have a plan of their own.
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

    /// That of a seed. Every second has three servers.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::of(seed, "setting", 0);
        let tick = chance.pick(&[250, 500, 1000]);
        let timeout = tick * chance.pick(&[4, 4, 6, 10]);
        let clients = chance.index(4) + 2;
        // A slow packet takes twenty times as long, and must not end a session.
        let latency = chance.pick(&[2, 5, 20, 60]).min(timeout / 50);
        let periods = chance.number(6..=10);
        // Drawn from a sequence of its own: what was drawn before stays the same.
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

    /// Below which path a client sees everything.
    pub fn chroot(&self, client: usize) -> &'static str {
        if self.chroots && client < self.clients && client % 2 == 1 { "/locks" } else { "" }
    }
}
