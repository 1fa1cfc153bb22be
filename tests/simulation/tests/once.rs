//! Tests runs with time slots under all simulated faults: a slot is recorded once, and no code runs
//! for a slot that is already recorded.

use std::process::Command;

const SEEDS: &str = "200";
const SLOTS: u64 = 4200;

#[test]
fn a_slot_is_recorded_once() {
    let done = Command::new(env!("CARGO_BIN_EXE_simulation"))
        .args(["--once", "--as-they-are", "--seeds", SEEDS])
        .output()
        .expect("the simulation runs");
    let output = String::from_utf8(done.stdout).expect("text");
    assert!(done.status.success(), "{output}");
    let slots = output.lines().find_map(|line| line.strip_suffix(" slots recorded")?.parse::<u64>().ok());
    assert!(slots.is_some_and(|slots| slots >= SLOTS), "{output}");
}
