//! After outages of one, three and five servers, the client is connected in time. It keeps every
//! lease that had enough of its term left.

use std::process::Command;

/// Number of outages. None may lose a lease.
const SEEDS: &str = "1000";

#[test]
fn after_an_outage_a_client_is_connected_in_time_and_its_lease_is_kept() {
    let done = Command::new(env!("CARGO_BIN_EXE_simulation"))
        .args(["--outages", "--as-they-are", "--seeds", SEEDS, "--grants", SEEDS])
        .output()
        .expect("the simulation runs");
    let output = String::from_utf8(done.stdout).expect("text");
    assert!(done.status.success(), "{output}");
    let last = output.lines().last().unwrap_or_default();
    assert_eq!(last, format!("{SEEDS} seeds, {SEEDS} grants, 0 violations"));
}
