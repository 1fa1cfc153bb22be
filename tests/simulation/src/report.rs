//! Prints the output of a run: its progress, failures with the commands that replay them, and a
//! summary line.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use crate::features::Covered;
use crate::measured::Measured;
use crate::plan::Plan;
use crate::world::Outcome;

/// Seconds between two lines of progress.
const PAUSE: u64 = 10;

/// The totals of a run so far.
#[derive(Debug)]
pub struct Report {
    began: Instant,
    told: u64,
    all: u64,
    seeds: u64,
    grants: u64,
    slots: u64,
    violations: usize,
    /// Number of violations of each kind.
    kinds: BTreeMap<String, usize>,
    covered: Covered,
    /// For each promise, the number of measurements, and the largest measurement in percent of the
    /// promised maximum.
    measured: BTreeMap<String, (usize, u64)>,
}

/// Number of leading characters that are compared to find violations of the same kind.
const KIND: usize = 160;

/// Returns the kind of a violation: its text without the numbers that differ between seeds.
fn kind(violation: &str) -> String {
    let said = violation.split_once(" ms: ").map_or(violation, |(_, said)| said);
    let words = said.split_inclusive([' ', '/', '-', '.', ',']);
    let without = words.map(|word| if word.contains(|c: char| c.is_ascii_digit()) { "… " } else { word });
    without.flat_map(str::chars).take(KIND).collect()
}

impl Report {
    /// Starts the report of a run with this many seeds.
    pub fn new(all: u64) -> Self {
        Self {
            began: Instant::now(),
            told: 0,
            all,
            seeds: 0,
            grants: 0,
            slots: 0,
            violations: 0,
            kinds: BTreeMap::new(),
            covered: Covered::default(),
            measured: BTreeMap::new(),
        }
    }

    /// Counts the violations of a seed. Returns `true` if one of them is of a new kind.
    pub fn is_new_kind(&mut self, outcome: &Outcome) -> bool {
        let mut news = false;
        for violation in &outcome.violations {
            let count = self.kinds.entry(kind(violation)).or_default();
            news |= *count == 0;
            *count += 1;
        }
        news
    }

    /// Adds the outcome of a seed.
    pub fn done(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.grants += outcome.grants;
        self.slots += outcome.slots;
        self.violations += outcome.violations.len();
        self.covered.add(&outcome.covered);
        for Measured { promise, took, bound } in &outcome.measured {
            let (times, most) = self.measured.entry(promise.clone()).or_default();
            *times += 1;
            *most = (*most).max(took * 100 / bound.max(&1));
        }
        let seconds = self.began.elapsed().as_secs();
        if seconds >= self.told + PAUSE {
            self.told = seconds;
            say(&format!("{} of {} seeds, {} grants, {seconds} s", self.seeds, self.all, self.grants));
        }
    }

    /// Prints the summary. Returns `true` if there is no violation and there were at least `least`
    /// grants.
    pub fn end(&self, least: u64) -> bool {
        for (promise, (times, most)) in &self.measured {
            say(&format!("{promise}: {times} times, at most {most} % of the bound"));
        }
        for line in self.covered.lines() {
            say(&line);
        }
        for (kind, times) in &self.kinds {
            say(&format!("{times} times: {kind}"));
        }
        if self.slots > 0 {
            say(&format!("{} slots recorded", self.slots));
        }
        say(&format!("{:.1} s", self.began.elapsed().as_secs_f64()));
        if self.grants < least {
            say(&format!("less happened than {least} grants, so this shows less than it should"));
        }
        say(&format!("{} seeds, {} grants, {} violations", self.seeds, self.grants, self.violations));
        let impossible = self.covered.impossible();
        if let Some(pair) = impossible {
            say(&format!("a pair was met that is said to be impossible: {pair:?}"));
        }
        self.violations == 0 && self.grants >= least && impossible.is_none()
    }
}

/// Reports a failed seed, with its plan after shrinking.
pub fn failed(plan: &Plan, outcome: &Outcome) {
    say(&format!("{} {} fails:", plan.family().0, plan.seed));
    for violation in &outcome.violations {
        say(&format!("  {violation}"));
    }
    say(&format!("  replay: make sim REPLAY='{plan}'"));
}

/// Prints a line. Ignores errors, because they only mean that no process reads the output.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}
