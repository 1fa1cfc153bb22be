//! What a run says: progress, failures with the command that replays them, and one line at the end.

use std::io::Write;
use std::time::Instant;

use crate::plan::Plan;
use crate::world::Outcome;

/// Seconds between two lines of progress.
const PAUSE: u64 = 10;

/// What is known of a run so far.
#[derive(Debug)]
pub struct Report {
    began: Instant,
    told: u64,
    all: u64,
    seeds: u64,
    grants: u64,
    violations: usize,
}

impl Report {
    /// Of a run of so many seeds that begins now.
    pub fn new(all: u64) -> Self {
        Self { began: Instant::now(), told: 0, all, seeds: 0, grants: 0, violations: 0 }
    }

    /// A seed is done.
    pub fn done(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.grants += outcome.grants;
        self.violations += outcome.violations.len();
        let seconds = self.began.elapsed().as_secs();
        if seconds >= self.told + PAUSE {
            self.told = seconds;
            say(&format!("{} of {} seeds, {} grants, {seconds} s", self.seeds, self.all, self.grants));
        }
    }

    /// The last lines; whether all is well: no violation, and as many grants as there have to be.
    pub fn end(&self, least: u64) -> bool {
        say(&format!("{:.1} s", self.began.elapsed().as_secs_f64()));
        if self.grants < least {
            say(&format!("less happened than {least} grants, so this shows less than it should"));
        }
        say(&format!("{} seeds, {} grants, {} violations", self.seeds, self.grants, self.violations));
        self.violations == 0 && self.grants >= least
    }
}

/// A seed has failed, and so does this plan, which is the smallest that was found.
pub fn failed(plan: &Plan, outcome: &Outcome) {
    let kind = if plan.outage.is_some() { "outage" } else { "seed" };
    say(&format!("{kind} {} fails:", plan.seed));
    for violation in &outcome.violations {
        say(&format!("  {violation}"));
    }
    say(&format!("  replay: make sim REPLAY='{plan}'"));
}

/// A line for whoever watches. If nobody does any more, there is nobody to tell.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}
