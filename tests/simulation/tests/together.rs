//! Every possible pair of features, and most triples, occur together in one attempt without a
//! violation.

use std::process::Command;

const SEEDS: &str = "400";
const PAIRS: usize = 253;
const TRIPLES: usize = 1330;
const SLOTS: u64 = 800;

#[test]
fn every_pair_of_features_is_met_and_nothing_is_violated() {
    let done = Command::new(env!("CARGO_BIN_EXE_simulation"))
        .args(["--together", "--as-they-are", "--seeds", SEEDS])
        .output()
        .expect("the simulation runs");
    let output = String::from_utf8(done.stdout).expect("text");
    assert!(done.status.success(), "{output}");
    assert!(!output.contains("pair not met"), "{output}");
    let met = output.lines().find(|line| line.contains(" pairs of features met, ")).expect("what was met");
    let triples =
        met.rsplit_once("met, ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<usize>().ok());
    assert!(triples.is_some_and(|triples| triples >= TRIPLES), "{met}");
    assert!(met.starts_with(&format!("{PAIRS} of {PAIRS} pairs")), "{met}");
    let slots = output.lines().find_map(|line| line.strip_suffix(" slots recorded")?.parse::<u64>().ok());
    assert!(slots.is_some_and(|slots| slots >= SLOTS), "{output}");
}
