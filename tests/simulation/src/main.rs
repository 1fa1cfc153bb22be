//! Runs zklock, its client crate and its servers on one thread in simulated time. The seed
//! determines everything that happens: see README.md.
//!
//! The modules, from the bottom up:
//!
//! - `clock`, `chance` and `gate` replace time, randomness and scheduling for the code under test;
//!   `network` provides its sockets.
//! - `ensemble` models the servers.
//! - `setting`, `fault` and `plan` turn a seed into a plan.
//! - `workload` contains the actions of contenders (users of the library), and `oracle` checks the
//!   results.
//! - `world` runs everything.
//! - `shrink` and `report` present the results.

mod chance;
mod clients;
mod clock;
mod connection_trace;
mod critical_request;
mod ensemble;
mod fault;
mod fault_events;
mod features;
mod frame;
mod gate;
mod histories;
mod history;
mod locks;
mod measured;
mod names;
mod network;
mod oracle;
mod outage;
mod plan;
mod progress;
mod report;
mod rounds;
mod scale;
mod schedule;
mod setting;
mod shrink;
mod sweep;
mod witness;
mod workload;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::plan::Plan;
use crate::report::{Report, say};
use crate::world::{Outcome, Records, simulate};

const USAGE: &str = "\
simulation [--from M] [--seeds N] [--jobs J] [--digests] [--first] [--as-they-are] [--grants G] [--find TEXT]
           [--histories FILE]
    runs N seeds from M on, and a tenth as many with outages instead of all other faults, on J threads
    --digests      prints a digest of each history
    --first        stops at the first failing seed, and shows it without shrinking it
    --as-they-are  shows failing seeds without shrinking them, which is faster
    --grants       fails if fewer than G locks were granted
    --find         treats a history line with this text as a violation
    --histories    writes all holds to a file, for other checkers (tests/porcupine)
simulation --seed S [--without-faults A,B,…] [--without-contenders A,B,…] [--find TEXT]
           [--histories FILE]
    runs one seed, without the given faults and contenders, and prints its history
simulation --outages …
    the same with outages only: a client holds a lock or waits for one, and must be connected
    in time
simulation --together …
    the same with contenders that combine two or three features on purpose; prints
    the number of combinations that occurred
simulation --once …
    the same with contenders that run bodies once per slot
simulation --scale N
    runs N clients on one server that idle, hold, wait and reconnect together, and counts their requests (docs/scale.md)
simulation --progress …
    the same with one measured case in each seed, compared with its bound";

/// Number of other seeds for each seed with an outage.
const OUTAGES: u64 = 10;

/// The command line options.
#[derive(Debug, Default)]
struct Options {
    seed: Option<u64>,
    without_faults: Vec<usize>,
    without_contenders: Vec<usize>,
    from: u64,
    seeds: u64,
    jobs: usize,
    digests: bool,
    first: bool,
    grants: u64,
    find: Option<String>,
    as_they_are: bool,
    histories: Option<PathBuf>,
    faults: Faults,
    scale: Option<usize>,
}

/// The kind of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Faults {
    /// All faults, followed by outages in a tenth as many seeds.
    #[default]
    All,
    /// One outage in each seed.
    Outages,
    /// At most three faults in each seed, and contenders that combine features (see `features`).
    Together,
    /// All faults, and contenders that run code once per time slot.
    Once,
    /// One measured case of progress in each seed.
    Progress,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self { seeds: 100, jobs, ..Self::default() };
        while let Some(arg) = args.next() {
            if arg == "--digests" {
                options.digests = true;
                continue;
            }
            if arg == "--as-they-are" {
                options.as_they_are = true;
                continue;
            }
            if arg == "--outages" {
                options.faults = Faults::Outages;
                continue;
            }
            if arg == "--together" {
                options.faults = Faults::Together;
                continue;
            }
            if arg == "--once" {
                options.faults = Faults::Once;
                continue;
            }
            if arg == "--progress" {
                options.faults = Faults::Progress;
                continue;
            }
            if arg == "--first" {
                options.first = true;
                continue;
            }
            let value = args.next()?;
            let numbers = || value.split(',').map(|number| number.parse().ok()).collect::<Option<Vec<_>>>();
            match arg.as_str() {
                "--seed" => options.seed = Some(value.parse().ok()?),
                "--without-faults" => options.without_faults = numbers()?,
                "--without-contenders" => options.without_contenders = numbers()?,
                "--from" => options.from = value.parse().ok()?,
                "--seeds" => options.seeds = value.parse().ok()?,
                "--grants" => options.grants = value.parse().ok()?,
                // The text must not need quoting in a shell or in make.
                "--find" => {
                    options.find =
                        Some(Some(value).filter(|text| !text.contains(['"', '\'', '`', '$', '\\']))?);
                }
                "--scale" => options.scale = Some(value.parse().ok().filter(|clients| *clients > 0)?),
                "--histories" => options.histories = Some(value.into()),
                "--jobs" => options.jobs = value.parse().ok().filter(|jobs| *jobs > 0)?,
                _ => return None,
            }
        }
        Some(options)
    }

    fn plan(&self, seed: u64, faults: Faults) -> Plan {
        let plan = match faults {
            Faults::All => Plan::of(seed),
            Faults::Together => Plan::of(seed).together(),
            Faults::Once => Plan::of(seed).once(),
            Faults::Outages => Plan::of_outage(seed),
            Faults::Progress => Plan::of_progress(seed),
        };
        plan.seeking(self.find.clone())
    }

    fn simulate(&self, plan: &Plan, lines: bool) -> Outcome {
        let outcome = simulate(plan, Records { lines, holds: self.histories.is_some() });
        if let Some(file) = &self.histories {
            histories::append(file, &outcome.holds).expect("histories can be written");
        }
        outcome
    }

    /// Returns the seeds of a run, with the kind of each.
    fn plans(&self) -> Vec<(u64, Faults)> {
        let seeds = |count: u64, faults| (self.from..self.from + count).map(move |seed| (seed, faults));
        let outages = if self.faults == Faults::All { self.seeds / OUTAGES } else { 0 };
        seeds(self.seeds, self.faults).chain(seeds(outages, Faults::Outages)).collect()
    }
}

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        say(USAGE);
        return ExitCode::from(2);
    };
    // Do not print expected panics: those that the plan causes, and those of the client crate when
    // it gives up a session that has watches. If a contender panics, the run reports it separately.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload_as_str().unwrap_or_default();
        if !(words.starts_with("as planned") || words.ends_with("Canceled")) {
            hook(panic);
        }
    }));
    if let Some(clients) = options.scale {
        let (_, wrong) = scale::run(clients);
        for wrong in &wrong {
            say(wrong);
        }
        return if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some(file) = &options.histories {
        histories::begin(file).expect("a file for histories");
    }
    let well = match options.seed {
        Some(seed) => {
            let plan = options
                .plan(seed, options.faults)
                .without(&options.without_faults, &options.without_contenders);
            replay(&plan, &options)
        }
        None => run(&options),
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one plan and prints its history.
fn replay(plan: &Plan, options: &Options) -> bool {
    let outcome = options.simulate(plan, true);
    say(&format!("{plan}: {:?}", plan.setting));
    for line in &outcome.lines {
        say(line);
    }
    let mut report = Report::new(1);
    report.done(&outcome);
    report.end(0)
}

/// Runs many seeds on several threads.
fn run(options: &Options) -> bool {
    let plans = options.plans();
    let next = AtomicUsize::new(0);
    let end = AtomicUsize::new(plans.len());
    let report = Mutex::new(Report::new(plans.len() as u64));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= end.load(Ordering::Relaxed) {
                        break;
                    }
                    let (seed, faults) = plans[index];
                    if !one(&options.plan(seed, faults), options, &report) && options.first {
                        end.store(0, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    report.lock().expect("no panic while reporting").end(options.grants)
}

/// Runs one seed. Returns `true` if it has no violation.
fn one(plan: &Plan, options: &Options, report: &Mutex<Report>) -> bool {
    let outcome = options.simulate(plan, false);
    if options.digests {
        say(&format!("{plan}: {:016x}", outcome.digest));
    }
    // Continue after a violation and show the first seed of each kind, so that one kind of
    // violation does not hide another.
    if report.lock().expect("no panic while reporting").is_new_kind(&outcome) {
        if options.first || options.as_they_are {
            report::failed(plan, &outcome);
        } else {
            let smallest = shrink::shrink(plan);
            report::failed(&smallest, &simulate(&smallest, Records::default()));
        }
    }
    report.lock().expect("no panic while reporting").done(&outcome);
    outcome.violations.is_empty()
}
