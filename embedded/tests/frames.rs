//! Whatever a client sends: no panic, and only its own connection is closed.

use proptest::collection::vec;
use proptest::prelude::*;
use zklock_embedded::{ConnectionId, Decoder, Machine, Output, Settings, Time};

const BAD: ConnectionId = ConnectionId(1);
const GOOD: ConnectionId = ConnectionId(2);
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

/// Records that begin well: a path, then anything.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let path = prop_oneof![Just("/"), Just("/a"), Just("/a/b"), Just(""), Just("x")];
    (any::<bool>(), path, vec(any::<u8>(), 0..60)).prop_map(|(with_path, path, rest)| {
        if with_path { [frame(path.as_bytes()), rest].concat() } else { rest }
    })
}

/// Feeds bytes in pieces until they are no more of the protocol; tells whether the connection is still of use.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_connections_nonsense_is_its_own(
        requests in vec((-12_i32..110, record()), 0..8),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        junk in vec(any::<u8>(), 0..50),
        size in 1_usize..300,
    ) {
        let mut machine = Machine::new(Settings::default(), NOW);
        for id in [BAD, GOOD] {
            machine.connect(id, [127, 0, 0, 1].into());
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
