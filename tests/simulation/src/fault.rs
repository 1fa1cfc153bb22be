//! What befalls clients, servers and the network between them.

use zklock::simulation::Part;

use crate::chance::Chance;
use crate::fateful::Fateful;
use crate::locks::SLOT_RECORDS;
use crate::network::Way;
use crate::setting::Setting;

/// A fault: what, from when, and for how long, in milliseconds.
#[derive(Clone, Debug)]
pub struct Fault {
    pub what: What,
    pub at: u64,
    pub lasts: u64,
}

/// What befalls whom.
#[derive(Clone, Debug)]
pub enum What {
    /// A client's connections are cut.
    Cut { client: usize },
    /// Between a client and a server, or all servers, nothing arrives one way, or both.
    Silence { client: usize, server: Option<usize>, ways: Vec<Way> },
    /// A client's process is stopped.
    Stop { client: usize },
    /// A server's process ends, and is started again.
    Crash { server: usize },
    /// A server's process is stopped.
    Freeze { server: usize },
    /// A server is cut from the others.
    Isolate { server: usize },
    /// The leader of that moment is cut from the others.
    Depose,
    /// A server's words to others take longer.
    Lag { server: usize, by: u64 },
    /// A server restores no sessions.
    Forget { server: usize },
    /// A server turns requests away.
    Throttle { server: usize, percent: u64 },
    /// On the connections of the client that holds a lock at that moment nothing but pings is answered any more.
    Deafen { part: usize },
    /// The same on every connection on which such a request arrives in the next session time-out, from this request on.
    DeafenAt { request: Fateful },
    /// A server tells nobody of watches that fire.
    Mute { server: usize },
    /// A client's connections are cut, and servers that do not know its session any more give it another. Perhaps it is
    /// stopped before that, and goes on afterwards.
    Replace { client: usize, stop: bool },
    /// Nothing arrives from the client that holds a lock at that moment, or at it, or both.
    Corner { part: usize, ways: Vec<Way> },
    /// The machine is suspended on which all clients are.
    Suspend,
    /// A part of a client panics.
    Break { client: usize, part: Part },
    /// An operator ends a client's session.
    Kill { client: usize },
    /// An operator deletes a contender's node, the one that is this part of the way through the queue.
    Delete { place: usize, part: u64 },
    /// The server removes a lock's directory, if it is empty.
    Reap { place: usize },
    /// A client's next create is carried out late.
    Late { client: usize },
    /// A client's next record of a slot is carried out late.
    LateRecord { client: usize },
    /// The connection is cut on which the next record of a slot arrives.
    CutAtRecord,
    /// A stranger queues, of whose node servers tell nobody what is in it.
    Intrude { place: usize },
    /// An operator takes away what stands before two contenders of one client, and the second of them.
    Sweep,
}

impl Fault {
    /// The same on the locks whose slots are recorded.
    pub fn on_slots(mut self) -> Self {
        if let What::Delete { place, .. } | What::Reap { place } | What::Intrude { place } = &mut self.what {
            *place %= SLOT_RECORDS.len();
        }
        self
    }

    /// A fault of records of slots, in runs that have slots.
    pub fn of_records(seed: u64, setting: &Setting) -> impl Iterator<Item = Self> {
        let mut chance = Chance::of(seed, "records", 0);
        let count = chance.index(5);
        let faults: Vec<_> = (0..count).map(|_| Self::of_record(&mut chance, setting)).collect();
        faults.into_iter()
    }

    fn of_record(chance: &mut Chance, setting: &Setting) -> Self {
        let what = match chance.index(4) {
            0 => What::DeafenAt { request: Fateful::Record },
            1 | 2 if setting.servers > 1 => What::LateRecord { client: chance.index(setting.clients) },
            _ => What::CutAtRecord,
        };
        let at = chance.number(setting.tick..=setting.duration);
        Self { what, at, lasts: 4 * setting.timeout }
    }

    /// What some seeds have in addition.
    pub fn rare(seed: u64, setting: &Setting) -> impl Iterator<Item = Self> {
        Self::fateful(seed, setting).into_iter().chain(Self::stranger(seed, setting))
    }

    fn stranger(seed: u64, setting: &Setting) -> Option<Self> {
        let mut chance = Chance::of(seed, "stranger", 0);
        let what = What::Intrude { place: chance.index(3) };
        let (at, lasts) =
            (chance.number(setting.tick..=setting.duration), chance.skewed(1..=setting.timeout));
        chance.percent(15).then_some(Self { what, at, lasts })
    }

    /// In the end, when clients do not go on asking for other things, or while directories are made.
    fn fateful(seed: u64, setting: &Setting) -> Option<Self> {
        let mut chance = Chance::of(seed, "fateful request", 0);
        if !chance.percent(20) {
            return None;
        }
        let late = setting.duration - setting.timeout / 2;
        let (request, from) = match chance.index(3) {
            0 => (Fateful::Directory, 0),
            1 => (Fateful::Delete, late),
            _ => (Fateful::BehindDelete, late),
        };
        let at = chance.number(from..=setting.duration);
        Some(Self { what: What::DeafenAt { request }, at, lasts: 5 * setting.timeout })
    }

    /// The fault with this number of a seed.
    pub fn of(seed: u64, number: usize, setting: &Setting) -> Self {
        let mut chance = Chance::of(seed, "fault", number);
        let client = chance.index(setting.clients);
        let server = chance.index(setting.servers);
        let at = chance.number(setting.tick..=setting.duration);
        let lasts = chance.skewed(1..=2 * setting.timeout);
        let many = setting.servers > 1;
        let what = match chance.index(32) {
            0 | 1 => What::Cut { client },
            2..=5 => {
                let server = chance.percent(50).then_some(server);
                What::Silence { client, server, ways: ways(&mut chance) }
            }
            6 | 7 => What::Stop { client },
            8 | 9 => What::Crash { server },
            10 | 11 => What::Freeze { server },
            12 if many => What::Isolate { server },
            13 if many => What::Depose,
            14 if many => What::Lag { server, by: chance.skewed(1..=2 * setting.tick) },
            12..=14 => What::Silence { client, server: None, ways: vec![Way::ToServer, Way::ToClient] },
            15 | 16 => What::Throttle { server, percent: chance.number(1..=60) },
            17 => What::Throttle { server, percent: 100 },
            18 => What::Kill { client },
            19..=21 => What::Delete { place: chance.index(8), part: chance.number(0..=99) },
            22 => What::Reap { place: chance.index(8) },
            23 => What::Forget { server },
            24 => What::Deafen { part: chance.index(100) },
            25 => What::Mute { server },
            26 | 27 => What::Replace { client, stop: chance.percent(60) },
            28 | 29 => What::Corner { part: chance.index(100), ways: ways(&mut chance) },
            30 => What::Suspend,
            _ => What::Break { client, part: if chance.percent(50) { Part::Service } else { Part::Request } },
        };
        // Around the time after which sessions and terms end.
        let lasts = match what {
            What::Corner { .. } | What::Suspend => {
                chance.number(setting.timeout / 3..=setting.timeout * 8 / 5)
            }
            What::Deafen { .. } => chance.number(5 * setting.timeout / 2..=4 * setting.timeout),
            What::Replace { .. } => chance.number(1..=setting.timeout / 3),
            _ => lasts,
        };
        let (what, lasts) = match chance.index(20) {
            0 | 1 if many => (What::Late { client }, 4 * setting.timeout),
            0 | 1 => (What::Sweep, 4 * setting.timeout),
            2 => (What::Replace { client, stop: false }, chance.number(setting.tick / 4..=setting.tick)),
            _ => (what, lasts),
        };
        // Others elect a new leader when theirs is silent for longer.
        let lasts =
            if many && matches!(what, What::Freeze { .. }) { lasts.min(3 * setting.tick) } else { lasts };
        Self { what, at, lasts }
    }
}

fn ways(chance: &mut Chance) -> Vec<Way> {
    match chance.index(3) {
        0 => vec![Way::ToServer],
        1 => vec![Way::ToClient],
        _ => vec![Way::ToServer, Way::ToClient],
    }
}
