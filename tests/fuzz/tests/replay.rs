//! Replays the committed corpus without a fuzzer, and checks that no input breaks a promise.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Timeout of an input. Normal inputs take less than a millisecond.
const LONGEST: Duration = Duration::from_mins(1);

/// Minimum number of inputs of each target.
const LEAST: usize = 8;

fn replay(target: &str) {
    let (_, check) = fuzz::TARGETS.into_iter().find(|(name, _)| *name == target).expect("a target");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut inputs: Vec<_> =
        corpus.read_dir().expect("a corpus").map(|entry| entry.expect("an input").path()).collect();
    inputs.sort();
    assert!(inputs.len() >= LEAST, "{} inputs in {}", inputs.len(), corpus.display());
    for path in inputs {
        let input = std::fs::read(&path).expect("an input");
        let (done, ended) = channel();
        let replays = thread::spawn(move || {
            check(&input);
            done.send(()).ok();
        });
        let outcome = ended.recv_timeout(LONGEST);
        assert_ne!(outcome, Err(RecvTimeoutError::Timeout), "{} hangs", path.display());
        assert!(replays.join().is_ok(), "{} breaks a promise", path.display());
    }
}

#[test]
fn frames() {
    replay("frames");
}

#[test]
fn names() {
    replay("names");
}

#[test]
fn node_data() {
    replay("node_data");
}

#[test]
fn hosts() {
    replay("hosts");
}
