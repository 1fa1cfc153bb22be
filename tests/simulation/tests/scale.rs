//! Requests per client of many clients on one server, and how soon all are back after an outage. The program judges the
//! latter, and that no lease is lost.

use std::collections::BTreeMap;
use std::process::Command;

const CLIENTS: u64 = 500;

/// A phase is six session time-outs long.
const TIMEOUTS: u64 = 6;

type Figures = BTreeMap<String, u64>;

fn phases() -> BTreeMap<String, Figures> {
    let done = Command::new(env!("CARGO_BIN_EXE_simulation"))
        .args(["--scale", &CLIENTS.to_string()])
        .output()
        .expect("the simulation runs");
    let output = String::from_utf8(done.stdout).expect("text");
    assert!(done.status.success(), "{output}");
    let phase = |line: &str| {
        let at = line.find(" clients=").unwrap_or(line.len());
        let figures = line[at..].split_whitespace().filter_map(|word| {
            let (name, figure) = word.split_once('=')?;
            Some((name.to_owned(), figure.parse().ok()?))
        });
        (line[..at].to_owned(), figures.collect())
    };
    output.lines().map(phase).collect()
}

#[test]
fn what_clients_ask_does_not_depend_on_how_many_they_are() {
    let phases = phases();
    let count = |phase: &str, figure: &str| phases[phase][figure];
    // Idle: pings alone, one after three twentieths of the session time-out.
    assert_eq!(count("idle", "writes") + count("idle", "reads"), 0);
    assert!(count("idle", "pings") <= CLIENTS * TIMEOUTS * 7);
    // Holders: a write each sixth of the session time-out.
    let beats = CLIENTS * TIMEOUTS * 6;
    let writes = count("hold", "writes");
    assert!((beats * 19 / 20..=beats * 21 / 20).contains(&writes), "{writes} writes instead of {beats}");
    // Of ten in a queue at most three prove their sessions: the holder and the next two.
    assert!(count("wait", "writes") <= beats * 3 / 10 * 21 / 20, "{:?}", phases["wait"]);
    // All come back with one handshake each, and not in the same moment.
    for outage in ["outage of holders", "outage of waiters"] {
        assert_eq!(count(outage, "handshakes"), CLIENTS, "{:?}", phases[outage]);
        assert!(count(outage, "most_handshakes_in_100_ms") <= CLIENTS / 3, "{:?}", phases[outage]);
    }
    // A free lock is two writes, its release a third; the first lock of a path makes its directories.
    assert!(count("release", "writes") <= CLIENTS * 2, "{:?}", phases["release"]);
}
