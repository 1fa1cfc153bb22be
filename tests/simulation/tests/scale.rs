//! Checks the numbers of requests that many clients send to one server. The program itself checks
//! that all clients are connected in time after an outage and that no lease is lost.

use std::collections::BTreeMap;
use std::process::Command;

const CLIENTS: u64 = 500;

/// Duration of a phase, in session timeouts.
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
    // An idle client sends only pings, at intervals of three twentieths of the session timeout.
    assert_eq!(count("idle", "writes") + count("idle", "reads"), 0);
    assert!(count("idle", "pings") <= CLIENTS * TIMEOUTS * 7);
    // A holder sends a write every sixth of the session timeout.
    let beats = CLIENTS * TIMEOUTS * 6;
    let writes = count("hold", "writes");
    assert!((beats * 19 / 20..=beats * 21 / 20).contains(&writes), "{writes} writes instead of {beats}");
    // At most three of the ten clients in a queue send heartbeats: the holder and the next two.
    assert!(count("wait", "writes") <= beats * 3 / 10 * 21 / 20, "{:?}", phases["wait"]);
    // Each client reconnects with one handshake, and the handshakes are spread over time.
    for outage in ["outage of holders", "outage of waiters"] {
        assert_eq!(count(outage, "handshakes"), CLIENTS, "{:?}", phases[outage]);
        assert!(count(outage, "most_handshakes_in_100_ms") <= CLIENTS / 3, "{:?}", phases[outage]);
    }
    // A release needs one write, which deletes the node. The limit also permits one other write of
    // each client.
    assert!(count("release", "writes") <= CLIENTS * 2, "{:?}", phases["release"]);
}
