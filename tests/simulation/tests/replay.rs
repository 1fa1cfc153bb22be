//! If a seed fails, the program prints a command that replays a smaller plan. The replay shows the
//! same failure.

use std::process::Command;

/// A text that occurs in the histories of the first seeds. The tests treat it as a violation.
const SOUGHT: &str = "is refused: LOCK_TIMEOUT";

fn simulation(args: &[&str]) -> (bool, Vec<String>) {
    let done =
        Command::new(env!("CARGO_BIN_EXE_simulation")).args(args).output().expect("the simulation runs");
    let output = String::from_utf8(done.stdout).expect("text");
    (done.status.success(), output.lines().map(str::to_owned).collect())
}

/// Splits a command into words, as a shell does.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate();
    let words = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn a_failure_is_made_smaller_and_replays() {
    let (well, lines) = simulation(&["--seeds", "10", "--jobs", "2", "--find", SOUGHT]);
    assert!(!well);
    let replays = lines.iter().enumerate().filter_map(|(at, line)| {
        let command = line.trim().strip_prefix("replay: make sim REPLAY='")?.strip_suffix('\'')?;
        let before = lines[..at].iter().rev();
        let violations: Vec<_> = before.take_while(|line| !line.ends_with("fails:")).collect();
        Some((command, violations))
    });
    let mut without = 0;
    let replays: Vec<_> = replays.collect();
    assert!(!replays.is_empty(), "{lines:?}");
    for (command, violations) in replays {
        without += usize::from(command.contains("--without-"));
        let args = words(command);
        let (well, history) = simulation(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!well, "{command}");
        let found = history.iter().filter(|line| line.contains(SOUGHT) && !line.contains("--find"));
        assert_eq!(found.count(), violations.len(), "{command}");
        for violation in violations {
            let happened = violation.trim().trim_start_matches("found: ");
            assert!(history.iter().any(|line| line.trim_start() == happened), "{command}: {violation}");
        }
    }
    assert!(without > 0, "nothing was left out");
}

#[test]
fn what_shows_too_little_fails() {
    let (well, lines) = simulation(&["--seeds", "2", "--grants", "1000000"]);
    assert!(!well);
    assert!(
        lines.last().is_some_and(|line| line.starts_with("2 seeds, ") && line.ends_with(", 0 violations"))
    );
}
