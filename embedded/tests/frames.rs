//! Arbitrary client input never makes the server panic. The server allocates memory only in
//! proportion to the input's length, and closes only the connection of that client.

mod allocations;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use allocations::{Allocations, Asked, measure};
use proptest::collection::vec;
use proptest::prelude::*;
use zklock_embedded::{ConnectionId, Decoder, Machine, Output, Settings, Time};

#[global_allocator]
static ALLOCATIONS: Allocations = Allocations;

/// Maximum number of allocated bytes for each received byte. The worst case is the shortest
/// operation of a transaction, with 14 bytes. The server stores the parsed operation and its reply
/// in lists, and the capacity of a list doubles when the list is full.
const MEMORY_PER_BYTE: usize = 64;
/// Number of bytes that even the shortest request can allocate.
const ALLOWANCE: usize = 16 * 1024;

const BAD: ConnectionId = ConnectionId(1);
const GOOD: ConnectionId = ConnectionId(2);
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000);
const NOW: Time = Time { wall: 1_800_000_000_000, elapsed: 0 };

fn frame(record: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(record.len()).expect("a short record").to_be_bytes().to_vec();
    frame.extend(record);
    frame
}

fn connect() -> Vec<u8> {
    let mut record = vec![0; 24];
    record.extend(16_i32.to_be_bytes());
    record.extend([0; 16]);
    frame(&record)
}

fn request(number: i32, rest: &[u8]) -> Vec<u8> {
    frame(&[&7_i32.to_be_bytes(), &number.to_be_bytes(), rest].concat())
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    let path = prop_oneof![Just("/"), Just("/a"), Just("/a/b"), Just(""), Just("x")];
    (any::<bool>(), path, vec(any::<u8>(), 0..60)).prop_map(|(with_path, path, rest)| {
        if with_path { [frame(path.as_bytes()), rest].concat() } else { rest }
    })
}

/// Passes bytes in pieces to the [`Machine`] until they violate the protocol. Returns whether the
/// connection can still be used.
fn feed(machine: &mut Machine, id: ConnectionId, decoder: &mut Decoder, bytes: &[u8], size: usize) -> bool {
    for piece in bytes.chunks(size) {
        decoder.extend(piece);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => machine.receive(id, message, NOW),
                Ok(None) => break,
                Err(_) => {
                    machine.disconnect(id);
                    return false;
                }
            }
        }
    }
    true
}

/// Generates encoded lists. The count at the beginning of a list can differ greatly from the number
/// of elements that follow. Many elements have the shortest possible encoding.
fn list() -> impl Strategy<Value = Vec<u8>> {
    let count = prop_oneof![-3_i32..20, 1000_i32..100_000, any::<i32>()];
    let head = prop_oneof![Just(0), Just(8), Just(9), Just(13), 0_usize..30];
    (head, count, vec(prop_oneof![Just(0_u8), Just(0), Just(0), any::<u8>()], 0..2000)).prop_map(
        |(head, count, rest)| {
            let mut record = vec![0; head];
            record.extend(count.to_be_bytes());
            record.extend(rest);
            record
        },
    )
}

/// Generates a transaction of reads or writes with many operations.
fn operations() -> impl Strategy<Value = Vec<u8>> {
    (prop_oneof![Just(1_i32), Just(2), Just(4), Just(5), Just(8), Just(13)], 1_usize..500).prop_map(
        |(number, count)| {
            // Each operation consists of its header, the path "/" and enough zeros. The end header
            // follows the last operation.
            let one = [&number.to_be_bytes()[..], &[0; 5], &frame(b"/"), &[0; 16]].concat();
            let one = match number {
                4 | 8 => &one[..15],
                2 | 13 => &one[..18],
                5 => &one[..22],
                _ => &one[..],
            };
            [&one.repeat(count)[..], &[0xff; 4], &[1], &[0xff; 4]].concat()
        },
    )
}

/// Measures how much memory the decoder and the [`Machine`] allocate when a connection sends
/// `bytes`.
fn asked(bytes: &[u8], size: usize) -> Asked {
    let mut machine = Machine::new(Settings::default(), NOW);
    machine.connect(BAD, PEER);
    let mut decoder = Decoder::new(Settings::default().max_frame);
    assert!(feed(&mut machine, BAD, &mut decoder, &connect(), 1000));
    measure(|| {
        feed(&mut machine, BAD, &mut decoder, bytes, size);
        for output in machine.take_outputs() {
            if let Output::Send(_, message) = output {
                assert!(message.frame().len() >= 4);
            }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The server's memory is limited by the number of received bytes, even if a request contains
    /// larger counts and lengths.
    #[test]
    fn memory_follows_from_what_was_received(
        requests in vec(
            prop_oneof![
                (-12_i32..110, record()),
                (prop_oneof![Just(1), Just(7), Just(14), Just(15), Just(101), Just(105)], list()),
                (prop_oneof![Just(14), Just(22)], operations()),
            ],
            1..4,
        ),
        length in prop_oneof![Just(0_i32), 0_i32..2_000_000, any::<i32>()],
        size in prop_oneof![1_usize..300, Just(100_000)],
    ) {
        let mut bytes: Vec<u8> = requests.iter().flat_map(|(number, rest)| request(*number, rest)).collect();
        // Add a frame of which only the length arrives.
        bytes.extend(length.to_be_bytes());
        let asked = asked(&bytes, size);
        prop_assert!(asked.peak <= MEMORY_PER_BYTE * bytes.len() + ALLOWANCE, "{asked:?} for {} bytes", bytes.len());
        prop_assert!(asked.count <= bytes.len() + ALLOWANCE, "{asked:?} for {} bytes", bytes.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn invalid_bytes_close_only_their_own_connection(
        requests in vec((-12_i32..110, record()), 0..8),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        junk in vec(any::<u8>(), 0..50),
        size in 1_usize..300,
    ) {
        let mut machine = Machine::new(Settings::default(), NOW);
        for id in [BAD, GOOD] {
            machine.connect(id, PEER);
        }
        let limit = Settings::default().max_frame;
        let (mut bad, mut good) = (Decoder::new(limit), Decoder::new(limit));
        prop_assert!(feed(&mut machine, GOOD, &mut good, &connect(), 1000));
        let mut bytes = connect();
        for (number, rest) in &requests {
            bytes.extend(request(*number, rest));
        }
        for (at, value) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        bytes.truncate(1 + cut.index(bytes.len()));
        bytes.extend(&junk);
        feed(&mut machine, BAD, &mut bad, &bytes, size);
        let outputs = machine.take_outputs();
        prop_assert!(!outputs.contains(&Output::Close(GOOD)));
        prop_assert!(feed(&mut machine, GOOD, &mut good, &request(11, &[]), 1000));
        let answered = |output: &Output| matches!(output, Output::Send(GOOD, _));
        prop_assert!(machine.take_outputs().iter().any(answered));
    }
}
