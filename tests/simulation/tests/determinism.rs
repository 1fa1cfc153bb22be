//! A seed always produces the same history, even in another process, on another thread, together
//! with other seeds, or in another build.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The simulation program of this build.
const THIS: &str = env!("CARGO_BIN_EXE_simulation");

fn digests(simulation: &Path, seeds: usize, jobs: &str) -> Vec<String> {
    digests_with(simulation, seeds, jobs, &[])
}

fn digests_with(simulation: &Path, seeds: usize, jobs: &str, others: &[&str]) -> Vec<String> {
    let simulation = Command::new(simulation)
        .args(["--digests", "--seeds", &seeds.to_string(), "--jobs", jobs])
        .args(others)
        .output()
        .expect("the simulation runs");
    let output = String::from_utf8(simulation.stdout).expect("text");
    assert!(simulation.status.success(), "{output}");
    let is_digest = |line: &&str| line.starts_with("--");
    let mut digests: Vec<_> = output.lines().filter(is_digest).map(str::to_owned).collect();
    digests.sort();
    // A run adds a tenth as many seeds with outages.
    assert_eq!(digests.len(), seeds + seeds / 10);
    digests
}

/// Builds the simulation in the other profile and returns the program: the optimized one if this
/// test is not optimized, and vice versa.
fn the_other_build() -> PathBuf {
    let this = Path::new(THIS);
    let builds = this.parent().and_then(Path::parent).expect("a directory for each build");
    let optimized = this.parent().is_some_and(|build| build.ends_with("release"));
    let (profile, directory) = if optimized { ("dev", "debug") } else { ("release", "release") };
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--manifest-path", manifest, "--profile", profile])
        .arg("--target-dir")
        .arg(builds)
        .status();
    assert!(built.expect("cargo runs").success());
    builds.join(directory).join(this.file_name().expect("a name"))
}

#[test]
fn a_seed_is_one_history() {
    let alone = digests(Path::new(THIS), 40, "1");
    assert_eq!(alone, digests(Path::new(THIS), 40, "3"));
    let histories = alone.iter().filter_map(|line| line.split(' ').next_back());
    let different: BTreeSet<_> = histories.collect();
    assert_eq!(different.len(), alone.len(), "another seed is another history");
}

/// Half of the seeds have one server, and the others have three.
#[test]
fn a_seed_is_one_history_with_and_without_optimizations() {
    assert_eq!(digests(Path::new(THIS), 12, "2"), digests(&the_other_build(), 12, "2"));
}

/// A seed has the same history with and without recording for other checkers. The recording reads
/// the state of leases, which can end a lease whose time has passed.
#[test]
fn a_seed_is_one_history_whether_or_not_others_judge_it() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("histories.jsonl");
    let recorded = digests_with(Path::new(THIS), 40, "2", &["--histories", &file.to_string_lossy()]);
    assert_eq!(recorded, digests(Path::new(THIS), 40, "2"));
    let text = std::fs::read_to_string(file).expect("histories");
    assert_eq!(text.lines().filter(|line| line.starts_with("{\"history\":")).count(), 40);
}
