//! Tests the time bounds in docs/safety.md: how soon locks are granted, losses are reported and
//! calls return.

use std::process::Command;

/// Number of seeds. Within 180 seeds, each call is tested once with each state of the servers.
const SEEDS: &str = "900";

#[test]
fn what_has_to_happen_soon_happens_within_its_bound() {
    let done = Command::new(env!("CARGO_BIN_EXE_simulation"))
        .args(["--progress", "--as-they-are", "--seeds", SEEDS, "--grants", "1500"])
        .output()
        .expect("the simulation runs");
    let output = String::from_utf8(done.stdout).expect("text");
    assert!(done.status.success(), "{output}");
    assert!(output.ends_with(" 0 violations\n"), "{output}");
    for promise in
        ["granted, LongWait", "told of a loss, SessionEnded, by the end of a scope", "nothing left, Released"]
    {
        assert!(output.contains(promise), "{promise} was not measured: {output}");
    }
}
