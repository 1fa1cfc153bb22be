//! The same seed gives the same history, in another process, on another thread, beside other seeds.

use std::process::Command;

/// The number of each seed's history, in the order of the seeds.
fn digests(jobs: &str) -> Vec<String> {
    let simulation = Command::new(env!("CARGO_BIN_EXE_simulation"))
        .args(["--digests", "--seeds", "40", "--jobs", jobs])
        .output()
        .expect("the simulation runs");
    let output = String::from_utf8(simulation.stdout).expect("text");
    assert!(simulation.status.success(), "{output}");
    let mut digests: Vec<_> =
        output.lines().filter(|line| line.starts_with("seed ")).map(str::to_owned).collect();
    digests.sort();
    digests
}

#[test]
fn a_seed_is_one_history() {
    let alone = digests("1");
    assert_eq!(alone.len(), 40);
    assert_eq!(alone, digests("3"));
    let histories = alone.iter().filter_map(|line| line.split(' ').next_back());
    let different: std::collections::BTreeSet<_> = histories.collect();
    assert_eq!(different.len(), 40, "another seed is another history");
}
