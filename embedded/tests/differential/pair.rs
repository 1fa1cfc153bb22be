//! Two servers, the real one and the embedded one, which get the same requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::messages::{Line, Record};
use crate::replies::{IdTranslator, Said, Shape};
use crate::side::{Client, LONG, Side};
use crate::steps::{Op, Path, Place, SESSIONS, Step};

/// Maximum difference between the times in two Stats of one step, in milliseconds.
const MAX_TIME_DIFFERENCE: i64 = 10_000;
/// `Unimplemented` and `AuthFailed`: after these errors a server closes the connection.
const CLOSING: [i32; 2] = [-6, -115];
const PING: i32 = -2;
const AUTH: i32 = -4;
/// Maximum time to wait for a session to expire.
const PATIENCE: Duration = Duration::from_secs(20);

/// The replies of the two servers that differ.
#[derive(Debug)]
pub(crate) struct Difference(pub(crate) String);

/// Counts of requests by name, and of outcomes by name and error.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) sequences: usize,
    pub(crate) requests: usize,
    pub(crate) events: BTreeMap<char, usize>,
    pub(crate) outcomes: BTreeMap<(String, i32), usize>,
    pub(crate) lapses: usize,
    pub(crate) refused: usize,
    pub(crate) kicked: usize,
}

/// A request whose reply is not read yet.
struct Sent {
    session: usize,
    name: String,
    shape: Shape,
    xid: i32,
}

pub(crate) struct Pair {
    sides: [Side; 2],
    sent: Vec<Sent>,
    xid: i32,
    sequence: usize,
    differed: bool,
    pub(crate) tally: Tally,
}

impl Pair {
    /// Creates the pair from the addresses of the real server and the embedded one.
    pub(crate) fn new(addresses: [String; 2]) -> Self {
        let sides = addresses.map(|address| {
            let mut side = Side {
                address,
                translator: IdTranslator::default(),
                clients: Vec::new(),
                control: Client::default(),
                ends: BTreeSet::new(),
            };
            side.control.open(&side.address, LONG, true, 0);
            for user in ["ann:pw", "bob:pw"] {
                side.control.ask(100, AUTH, &Record::default().int(0).text("digest").text(user));
            }
            side
        });
        Pair { sides, sent: Vec::new(), xid: 0, sequence: 0, differed: false, tally: Tally::default() }
    }

    /// Sends the same steps to both servers. Returns an error at the first reply that differs.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<(), Difference> {
        self.sequence += 1;
        let directory = format!("/s{}", self.sequence);
        let root = if self.differed { directory.clone() } else { "/".to_owned() };
        let place = Place { directory, root };
        let passed: Vec<i64> = self.sides.iter_mut().map(|side| side.begin(&place.directory)).collect();
        let done = equal(&if self.differed { vec![0, 0] } else { passed })
            .map_err(|what| Difference(format!("transactions since the last sequence began: {what}")))
            .and_then(|()| self.carry_out(steps, &place));
        match done {
            Ok(()) => self.tally.sequences += 1,
            Err(_) => self.differed = true,
        }
        self.sent.clear();
        for side in &mut self.sides {
            side.clean();
        }
        done
    }

    fn carry_out(&mut self, steps: &[Step], place: &Place) -> Result<(), Difference> {
        for (i, step) in steps.iter().enumerate() {
            self.step(step, place).map_err(|Difference(what)| Difference(format!("step {i}: {what}")))?;
        }
        self.finish(place).map_err(|Difference(what)| Difference(format!("at the end: {what}")))
    }

    /// Compares all nodes, before and after the sessions are closed.
    fn finish(&mut self, place: &Place) -> Result<(), Difference> {
        if let Some(last) = self.sent.first() {
            self.receive(last.session)?;
        }
        for session in 0..SESSIONS {
            if self.is_connected(session) {
                self.drain(session)?;
            }
        }
        self.compare_nodes(place)?;
        for session in 0..SESSIONS {
            if self.sides[0].clients[session].id != 0 {
                self.ensure_connected(session)?;
                self.say(session, &Op::CloseSession, place);
                self.receive(session)?;
            }
        }
        self.compare_nodes(place)
    }

    fn step(&mut self, step: &Step, place: &Place) -> Result<(), Difference> {
        match step {
            Step::Say { session, op, wait } => {
                self.ensure_connected(*session)?;
                if op.overtakes() {
                    self.receive(*session)?;
                    self.ensure_connected(*session)?;
                }
                self.say(*session, op, place);
                if *wait { self.receive(*session) } else { Ok(()) }
            }
            Step::Abandon { session } => {
                self.receive(*session)?;
                if self.is_connected(*session) {
                    self.drain(*session)?;
                }
                for side in &mut self.sides {
                    side.clients[*session].line = None;
                }
                Ok(())
            }
            Step::Resume { session, right, knows_read_only } => {
                self.receive(*session)?;
                let was_connected = self.is_connected(*session);
                if was_connected {
                    self.drain(*session)?;
                }
                let old: Vec<Option<Line>> =
                    self.sides.iter_mut().map(|side| side.clients[*session].line.take()).collect();
                let mut proofs = Vec::new();
                if !right {
                    for side in &mut self.sides {
                        let client = &mut side.clients[*session];
                        proofs.push((client.id, client.password.clone()));
                        client.password.iter_mut().for_each(|byte| *byte ^= 1);
                    }
                }
                self.open(*session, LONG, *knows_read_only, 0)?;
                for (side, (id, password)) in self.sides.iter_mut().zip(proofs) {
                    let client = &mut side.clients[*session];
                    if client.line.is_none() {
                        // The session still exists, and a client that knows its id and password can
                        // resume it.
                        (client.id, client.password) = (id, password);
                    }
                }
                if was_connected {
                    self.tally.kicked += 1;
                    let left: Vec<_> =
                        old.into_iter().map(|line| line.and_then(|mut line| line.frame())).collect();
                    equal(&left).map_err(|what| Difference(format!("the old connection: {what}")))?;
                }
                Ok(())
            }
            Step::FromTheFuture { session } => {
                self.receive(*session)?;
                if self.is_connected(*session) {
                    self.drain(*session)?;
                }
                for side in &mut self.sides {
                    side.clients[*session].line = None;
                }
                self.open(*session, LONG, true, 1_000_000)
            }
            Step::LetExpire { session } => self.let_expire(*session, place),
        }
    }

    /// Resumes the session with the shortest timeout and sends nothing, until both servers have
    /// ended it.
    fn let_expire(&mut self, session: usize, place: &Place) -> Result<(), Difference> {
        self.receive(session)?;
        self.ensure_connected(session)?;
        let marker = Op::Create {
            by: 1,
            path: Path::Exactly("/marker"),
            data: None,
            acl: Some(&[(31, "world", "anyone")]),
            flags: 1,
            ttl: -1,
        };
        self.say(session, &marker, place);
        self.receive(session)?;
        self.drain(session)?;
        for side in &mut self.sides {
            side.clients[session].line = None;
        }
        self.open(session, 1, true, 0)?;
        let mut ends = Vec::new();
        for side in &mut self.sides {
            side.clients[session].line = None;
            let deadline = Instant::now() + PATIENCE;
            while side.control.ask(3, 1, &Record::default().text("/marker").byte(0)).error == 0 {
                assert!(Instant::now() < deadline, "a session does not expire");
                std::thread::sleep(Duration::from_millis(2));
            }
            side.ends.insert(side.control.zxid);
            ends.push(side.control.zxid - side.translator.zxid);
        }
        self.tally.lapses += 1;
        equal(&ends).map_err(|what| Difference(format!("the expiry's zxid: {what}")))
    }

    fn is_connected(&self, session: usize) -> bool {
        self.sides.iter().any(|side| side.clients[session].line.is_some())
    }

    /// Connects a session that has no connection. If the session has ended, opens a new one.
    fn ensure_connected(&mut self, session: usize) -> Result<(), Difference> {
        for _ in 0..2 {
            if self.is_connected(session) {
                return Ok(());
            }
            self.open(session, LONG, true, 0)?;
        }
        if self.is_connected(session) {
            Ok(())
        } else {
            Err(Difference("no session is to be had".to_owned()))
        }
    }

    /// Opens a connection for a session. The server may refuse it.
    fn open(&mut self, session: usize, timeout: i32, read_only: bool, ahead: i64) -> Result<(), Difference> {
        let mut said = Vec::new();
        for side in &mut self.sides {
            let seen = if ahead == 0 { side.clients[session].zxid } else { side.control.zxid + ahead };
            let frame = side.clients[session].open(&side.address, timeout, read_only, seen);
            said.push(side.connected(session, frame.as_deref()));
        }
        if !self.is_connected(session) {
            self.tally.refused += 1;
            if ahead == 0 {
                // The session has ended. The next connection asks for a new one.
                for side in &mut self.sides {
                    side.clients[session].id = 0;
                }
            }
        }
        equal(&said).map_err(|what| Difference(format!("connection of client {session}: {what}")))
    }

    fn say(&mut self, session: usize, op: &Op, place: &Place) {
        let (number, shape) = op.kind();
        let xid = match op {
            Op::Ping => PING,
            Op::Auth { .. } => AUTH,
            _ => {
                self.xid += 1;
                self.xid
            }
        };
        for side in &mut self.sides {
            let record = op.record(place, side.clients[session].zxid);
            side.clients[session].send(number, xid, &record);
        }
        let name = format!("{op:?}");
        let name = name.split([' ', '(']).next().unwrap_or_default().to_owned();
        self.sent.push(Sent { session, name, shape, xid });
    }

    /// Reads the replies to all sent requests, and the events before them, and compares them.
    fn receive(&mut self, session: usize) -> Result<(), Difference> {
        for Sent { name, shape, xid, .. } in std::mem::take(&mut self.sent) {
            let mut said = Vec::new();
            for side in &mut self.sides {
                said.push(side.listen(session, shape, name == "CloseSession"));
            }
            let difference = |what| Difference(format!("client {session}, {name} with xid {xid}: {what}"));
            let [real, ours] = &said[..] else { unreachable!("two servers") };
            compare(real, ours).map_err(difference)?;
            let closes = name == "CloseSession"
                || real.last().is_none_or(|reply| reply.is_event || CLOSING.contains(&reply.error));
            self.count(&name, real);
            if closes {
                // The server must send nothing more.
                let rest: Vec<Option<Vec<u8>>> =
                    self.sides.iter_mut().map(|side| side.end(session)).collect();
                equal(&rest).map_err(|what| difference(format!("after the last reply: {what}")))?;
                self.sent.clear();
                return Ok(());
            }
        }
        Ok(())
    }

    fn count(&mut self, name: &str, said: &[Said]) {
        self.tally.requests += 1;
        for said in said {
            if said.is_event {
                let kind = said.text.chars().nth("event ".len()).unwrap_or('?');
                *self.tally.events.entry(kind).or_default() += 1;
            } else {
                *self.tally.outcomes.entry((name.to_owned(), said.error)).or_default() += 1;
            }
        }
    }

    /// Reads and compares the session's pending events.
    fn drain(&mut self, session: usize) -> Result<(), Difference> {
        self.say(session, &Op::Ping, &Place::default());
        self.receive(session)
    }

    fn compare_nodes(&mut self, place: &Place) -> Result<(), Difference> {
        let nodes: Vec<Vec<Said>> = self.sides.iter_mut().map(|side| side.nodes(&place.directory)).collect();
        compare(&nodes[0], &nodes[1]).map_err(|what| Difference(format!("nodes: {what}")))
    }
}

fn compare(real: &[Said], ours: &[Said]) -> Result<(), String> {
    let text = |all: &[Said]| all.iter().map(|said| said.text.clone()).collect::<Vec<_>>().join("\n    ");
    let same = real.len() == ours.len()
        && real.iter().zip(ours).all(|(real, ours)| {
            real.text == ours.text
                && real.times.len() == ours.times.len()
                && real.times.iter().zip(&ours.times).all(|(a, b)| {
                    // Nodes that the server itself created have the time 0.
                    (*a == 0) == (*b == 0) && (a - b).abs() < MAX_TIME_DIFFERENCE
                })
        });
    if same { Ok(()) } else { Err(format!("\n  real\n    {}\n  ours\n    {}", text(real), text(ours))) }
}

fn equal<T: PartialEq + std::fmt::Debug>(said: &[T]) -> Result<(), String> {
    let [real, ours] = said else { unreachable!("two servers") };
    if real == ours { Ok(()) } else { Err(format!("\n  real: {real:?}\n  ours: {ours:?}")) }
}
