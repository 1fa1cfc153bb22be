//! Tests outages of one, three and five servers: the client reconnects in time. It keeps its lease
//! if the remaining term was long enough.

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
