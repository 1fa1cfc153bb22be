//! Tests that the cost of a request does not depend on the number of unrelated nodes, sessions and
//! watches.
//!
//! These tests count allocations instead of time, because a slow or busy machine does not change
//! them. They do not detect a scan that allocates no memory. For such scans, a unit test in
//! `sessions.rs` counts comparisons.

mod allocations;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use allocations::{Allocations, measure};
use zklock_embedded::{ConnectionId, Decoder, Machine, Output, Settings, Time};

#[global_allocator]
static ALLOCATIONS: Allocations = Allocations;

const NOW: Time = Time { wall: 1_800_000_000_000, elapsed: 0 };
const MANY: u64 = 10_000;
const FEW: u64 = 10;
const ASKING: ConnectionId = ConnectionId(u64::MAX);

/// A machine, and the decoders of its connections.
struct Server {
    machine: Machine,
    decoders: BTreeMap<ConnectionId, Decoder>,
}

impl Server {
    fn with(clients: u64) -> Self {
        let mut server =
            Server { machine: Machine::new(Settings::default(), NOW), decoders: BTreeMap::new() };
        server.open(ASKING);
        server.say(ASKING, 1, &create("/clients", 0));
        server.say(ASKING, 1, &create("/all", 0));
        server.say(ASKING, 1, &create("/one", 0));
        for i in 0..clients {
            let id = ConnectionId(i);
            server.open(id);
            server.say(id, 1, &create(&format!("/clients/{i}"), 1));
            // Each client watches its own node, `/all` and `/clients`. The test triggers no watch
            // on `/all` and `/clients`.
            server.say(id, 3, &[&text(&format!("/clients/{i}"))[..], &[1]].concat());
            server.say(id, 8, &[&text("/all")[..], &[1]].concat());
            server.say(id, 3, &[&text("/clients")[..], &[1]].concat());
        }
        for i in 0..clients {
            // One session owns all these nodes, so that one step of the test ends a session with
            // many nodes.
            server.say(ASKING, 1, &create(&format!("/one/{i}"), 1));
        }
        server
    }

    fn open(&mut self, id: ConnectionId) {
        self.machine.connect(id, SocketAddr::from(([127, 0, 0, 1], 40_000)));
        self.decoders.insert(id, Decoder::new(Settings::default().max_frame));
        let mut record = vec![0; 12];
        record.extend(60_000_i32.to_be_bytes());
        record.extend([0; 8]);
        record.extend(16_i32.to_be_bytes());
        record.extend([0; 16]);
        self.feed(id, &frame(&record));
    }

    fn say(&mut self, id: ConnectionId, number: i32, record: &[u8]) -> usize {
        self.feed(id, &frame(&[&7_i32.to_be_bytes(), &number.to_be_bytes(), record].concat()))
    }

    /// Returns the number of bytes in the replies.
    fn feed(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        let decoder = self.decoders.get_mut(&id).expect("a connection");
        decoder.extend(bytes);
        while let Ok(Some(message)) = decoder.next_message() {
            self.machine.receive(id, message, NOW);
        }
        let outputs = self.machine.take_outputs();
        let sent = |output: Output| match output {
            Output::Send(_, message) => message.frame().len(),
            Output::Close(_) => 0,
        };
        outputs.into_iter().map(sent).sum()
    }

    fn word(&mut self, word: &[u8]) -> usize {
        let id = ConnectionId(u64::MAX - 1);
        self.machine.connect(id, SocketAddr::from(([127, 0, 0, 1], 40_001)));
        self.decoders.insert(id, Decoder::new(Settings::default().max_frame));
        self.feed(id, word)
    }
}

fn frame(record: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(record.len()).expect("a short record").to_be_bytes().to_vec();
    frame.extend(record);
    frame
}

fn text(text: &str) -> Vec<u8> {
    frame(text.as_bytes())
}

fn create(path: &str, flags: i32) -> Vec<u8> {
    let rule = [&31_i32.to_be_bytes()[..], &text("world"), &text("anyone")].concat();
    [&text(path)[..], &(-1_i32).to_be_bytes(), &1_i32.to_be_bytes(), &rule, &flags.to_be_bytes()].concat()
}

fn delete(path: &str) -> Vec<u8> {
    [&text(path)[..], &(-1_i32).to_be_bytes()].concat()
}

type Deed = fn(&mut Server);

#[test]
fn a_request_for_one_object_costs_the_same_with_10_000() {
    let deeds: [(&str, Deed); 11] = [
        ("a tick", |server| server.machine.tick(NOW)),
        ("the next tick", |server| assert!(server.machine.next_tick() > 0)),
        ("a ping", |server| assert!(server.say(ASKING, 11, &[]) > 0)),
        ("a node that comes and goes", |server| {
            server.say(ASKING, 1, &create("/clients/new-", 3));
            server.say(ASKING, 1, &create("/clients/mine", 1));
            server.say(ASKING, 2, &delete("/clients/mine"));
        }),
        ("a watch that tells one", |server| {
            server.say(ASKING, 1, &create("/clients/mine", 1));
            server.say(ASKING, 3, &[&text("/clients/mine")[..], &[1]].concat());
            server.say(ASKING, 2, &delete("/clients/mine"));
        }),
        ("a client that comes and goes", |server| {
            server.open(ConnectionId(MANY));
            server.say(ConnectionId(MANY), 1, &create("/clients/new", 1));
            server.say(ConnectionId(MANY), 3, &[&text("/all")[..], &[1]].concat());
            server.say(ConnectionId(MANY), -11, &[]);
        }),
        ("its own few nodes", |server| assert!(server.say(ConnectionId(0), 103, &text("/")) < 100)),
        ("a few nodes of many", |server| assert!(server.say(ASKING, 103, &text("/one/9999")) > 0)),
        ("ruok", |server| assert_eq!(server.word(b"ruok"), 4)),
        ("mntr", |server| assert!(server.word(b"mntr") > 100)),
        ("wchs", |server| assert!(server.word(b"wchs") > 10)),
    ];
    let mut grows = Vec::new();
    let [mut with_few, mut with_many] = [FEW, MANY].map(Server::with);
    for (name, work) in deeds {
        let [few, many] = [&mut with_few, &mut with_many].map(|server| {
            // Run the work once before the measurement, so that occasional growth of collections
            // does not count.
            work(server);
            measure(|| work(server))
        });
        // Allow some growth: trees become slightly deeper, and occasionally a tree node splits.
        if many.count > few.count + 20 || many.peak > few.peak + 8192 {
            grows.push(format!("{name}: {few:?} with {FEW}, {many:?} with {MANY}"));
        }
    }
    assert!(grows.is_empty(), "{grows:#?}");
}
