//! Faults of clients, servers and the network between them.

use zklock::simulation::Part;

use crate::chance::Chance;
use crate::critical_request::CriticalRequest;
use crate::locks::SLOT_RECORDS;
use crate::network::Direction;
use crate::setting::Setting;

/// A fault with its start and its duration, in milliseconds.
#[derive(Clone, Debug)]
pub struct Fault {
    pub what: FaultKind,
    pub at: u64,
    pub lasts: u64,
}

/// The kind of a fault, and its target.
#[derive(Clone, Debug)]
pub enum FaultKind {
    /// A client's connections are cut.
    Cut { client: usize },
    /// Packets between a client and one server or all servers are delayed, in one or both
    /// directions.
    Silence { client: usize, server: Option<usize>, directions: Vec<Direction> },
    /// A client's process is stopped.
    Stop { client: usize },
    /// A server's process ends and is started again.
    Crash { server: usize },
    /// A server's process is stopped.
    Freeze { server: usize },
    /// A server is cut off from the other servers.
    Isolate { server: usize },
    /// The current leader is cut off from the other servers.
    Depose,
    /// A server's messages to other servers take longer.
    Lag { server: usize, by: u64 },
    /// A server restores no sessions.
    Forget { server: usize },
    /// A server refuses requests.
    Throttle { server: usize, percent: u64 },
    /// The connections of a client that holds a lock become deaf: the server replies only to pings
    /// on them.
    Deafen { part: usize },
    /// For the duration of one session timeout, each request of this kind makes its connection
    /// deaf: from that request on, the server replies only to pings.
    DeafenAt { request: CriticalRequest },
    /// A server drops watch events.
    Mute { server: usize },
    /// A client's connections are cut, and the servers give it a new session instead of its old
    /// one. If `stop` is true, the client is also stopped until shortly before the fault ends.
    Replace { client: usize, stop: bool },
    /// Packets from or to a client are delayed. The client is one that holds a lock when the fault
    /// begins.
    Corner { part: usize, directions: Vec<Direction> },
    /// The machine that all clients run on is suspended.
    Suspend,
    /// A part of a client panics.
    Break { client: usize, part: Part },
    /// An operator ends a client's session.
    Kill { client: usize },
    /// An operator deletes a contender's node. `part` selects the node by its position in the
    /// queue: 0 is the first node, and 50 is the one in the middle.
    Delete { place: usize, part: u64 },
    /// The server removes a lock's directory, if it is empty.
    Reap { place: usize },
    /// A server executes a client's next create late.
    Late { client: usize },
    /// A server executes a client's next write of a slot record late.
    LateRecord { client: usize },
    /// The connection on which the next write of a slot record arrives is cut.
    CutAtRecord,
    /// A foreign contender (a *stranger*) joins the queue with a node whose data no client can
    /// read.
    Intrude { place: usize },
    /// An operator deletes several nodes of one queue at the same time: see
    /// [`Sweep`](crate::sweep::Sweep).
    Sweep,
}

impl Fault {
    pub fn on_slots(mut self) -> Self {
        if let FaultKind::Delete { place, .. } | FaultKind::Reap { place } | FaultKind::Intrude { place } =
            &mut self.what
        {
            *place %= SLOT_RECORDS.len();
        }
        self
    }

    /// Returns random faults that affect writes of slot records.
    pub fn of_records(seed: u64, setting: &Setting) -> impl Iterator<Item = Self> {
        let mut chance = Chance::of(seed, "records", 0);
        let count = chance.index(5);
        let faults: Vec<_> = (0..count).map(|_| Self::of_record(&mut chance, setting)).collect();
        faults.into_iter()
    }

    fn of_record(chance: &mut Chance, setting: &Setting) -> Self {
        let what = match chance.index(4) {
            0 => FaultKind::DeafenAt { request: CriticalRequest::Record },
            1 | 2 if setting.servers > 1 => FaultKind::LateRecord { client: chance.index(setting.clients) },
            _ => FaultKind::CutAtRecord,
        };
        let at = chance.number(setting.tick..=setting.duration);
        Self { what, at, lasts: 4 * setting.timeout }
    }

    /// Draws the additional faults that only some seeds have.
    pub fn rare(seed: u64, setting: &Setting) -> impl Iterator<Item = Self> {
        Self::critical_request(seed, setting).into_iter().chain(Self::stranger(seed, setting))
    }

    fn stranger(seed: u64, setting: &Setting) -> Option<Self> {
        let mut chance = Chance::of(seed, "stranger", 0);
        let what = FaultKind::Intrude { place: chance.index(3) };
        let (at, lasts) =
            (chance.number(setting.tick..=setting.duration), chance.skewed(1..=setting.timeout));
        chance.percent(15).then_some(Self { what, at, lasts })
    }

    /// Returns a random fault that makes a connection deaf at a certain kind of request. For a
    /// deletion, the fault begins near the end of the run, when clients send few other requests.
    fn critical_request(seed: u64, setting: &Setting) -> Option<Self> {
        let mut chance = Chance::of(seed, "fateful request", 0);
        if !chance.percent(20) {
            return None;
        }
        let late = setting.duration - setting.timeout / 2;
        let (request, from) = match chance.index(3) {
            0 => (CriticalRequest::Directory, 0),
            1 => (CriticalRequest::Delete, late),
            _ => (CriticalRequest::AfterDelete, late),
        };
        let at = chance.number(from..=setting.duration);
        Some(Self { what: FaultKind::DeafenAt { request }, at, lasts: 5 * setting.timeout })
    }

    /// Draws the fault with this number of a seed.
    pub fn of(seed: u64, number: usize, setting: &Setting) -> Self {
        let mut chance = Chance::of(seed, "fault", number);
        let client = chance.index(setting.clients);
        let server = chance.index(setting.servers);
        let at = chance.number(setting.tick..=setting.duration);
        let lasts = chance.skewed(1..=2 * setting.timeout);
        let many = setting.servers > 1;
        let what = match chance.index(32) {
            0 | 1 => FaultKind::Cut { client },
            2..=5 => {
                let server = chance.percent(50).then_some(server);
                FaultKind::Silence { client, server, directions: directions(&mut chance) }
            }
            6 | 7 => FaultKind::Stop { client },
            8 | 9 => FaultKind::Crash { server },
            10 | 11 => FaultKind::Freeze { server },
            12 if many => FaultKind::Isolate { server },
            13 if many => FaultKind::Depose,
            14 if many => FaultKind::Lag { server, by: chance.skewed(1..=2 * setting.tick) },
            12..=14 => FaultKind::Silence {
                client,
                server: None,
                directions: vec![Direction::ToServer, Direction::ToClient],
            },
            15 | 16 => FaultKind::Throttle { server, percent: chance.number(1..=60) },
            17 => FaultKind::Throttle { server, percent: 100 },
            18 => FaultKind::Kill { client },
            19..=21 => FaultKind::Delete { place: chance.index(8), part: chance.number(0..=99) },
            22 => FaultKind::Reap { place: chance.index(8) },
            23 => FaultKind::Forget { server },
            24 => FaultKind::Deafen { part: chance.index(100) },
            25 => FaultKind::Mute { server },
            26 | 27 => FaultKind::Replace { client, stop: chance.percent(60) },
            28 | 29 => FaultKind::Corner { part: chance.index(100), directions: directions(&mut chance) },
            30 => FaultKind::Suspend,
            _ => FaultKind::Break {
                client,
                part: if chance.percent(50) { Part::Service } else { Part::Request },
            },
        };
        // Choose a duration close to the limit at which a lease is lost or a session expires.
        let lasts = match what {
            FaultKind::Corner { .. } | FaultKind::Suspend => {
                chance.number(setting.timeout / 3..=setting.timeout * 8 / 5)
            }
            FaultKind::Deafen { .. } => chance.number(5 * setting.timeout / 2..=4 * setting.timeout),
            FaultKind::Replace { .. } => chance.number(1..=setting.timeout / 3),
            _ => lasts,
        };
        let (what, lasts) = match chance.index(20) {
            0 | 1 if many => (FaultKind::Late { client }, 4 * setting.timeout),
            0 | 1 => (FaultKind::Sweep, 4 * setting.timeout),
            2 => (FaultKind::Replace { client, stop: false }, chance.number(setting.tick / 4..=setting.tick)),
            _ => (what, lasts),
        };
        // Limit the pause: if the leader is stopped for longer, the other servers elect a new one.
        let lasts = if many && matches!(what, FaultKind::Freeze { .. }) {
            lasts.min(3 * setting.tick)
        } else {
            lasts
        };
        Self { what, at, lasts }
    }
}

fn directions(chance: &mut Chance) -> Vec<Direction> {
    match chance.index(3) {
        0 => vec![Direction::ToServer],
        1 => vec![Direction::ToClient],
        _ => vec![Direction::ToServer, Direction::ToClient],
    }
}
