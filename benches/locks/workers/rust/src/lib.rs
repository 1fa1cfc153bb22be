//! Common parts of the Rust workers: the task, the gate, and the line protocol. `benches/README.md`
//! describes them.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Notify;

mod latencies;

use latencies::Latencies;
pub use latencies::Stopwatch;

/// Number of operations between two checks of the gate, for operations that send no request.
pub const BATCH: u64 = 100;

/// Time limit for the operation that is in progress at the end of a turn.
const SETTLED: Duration = Duration::from_secs(10);

/// A worker's task.
#[derive(Clone)]
pub struct Task(Value);

impl Task {
    /// Reads the task from the first argument, in JSON.
    #[must_use]
    pub fn from_arguments() -> Self {
        let argument = std::env::args().nth(1).expect("a task");
        Task(serde_json::from_str(&argument).expect("a task in JSON"))
    }

    /// Returns a text field.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().expect(field)
    }

    /// Returns a number field.
    #[must_use]
    pub fn number(&self, field: &str) -> usize {
        usize::try_from(self.0[field].as_u64().expect(field)).expect(field)
    }

    /// Returns the server of a client. If latencies are measured, the clients are distributed over the
    /// servers in a fixed order, because the distance to the leader changes latencies.
    #[must_use]
    pub fn hosts(&self, client: usize) -> &str {
        let hosts = self.text("hosts");
        if !self.latencies() {
            return hosts;
        }
        let each: Vec<&str> = hosts.split(',').collect();
        each[client % each.len()]
    }

    fn latencies(&self) -> bool {
        self.0["latencies"] == true
    }

    /// Returns the time between the scheduled starts of two pairs, or zero if each pair starts when
    /// the previous one is complete.
    fn period(&self) -> Duration {
        Duration::from_secs_f64(self.0["period"].as_f64().unwrap_or(0.0))
    }

    /// Returns `true` if one contender at a time holds the lock.
    fn exclusive(&self) -> bool {
        self.text("kind") == "mutex" && self.0["each"] != true
    }

    /// Returns the number of contenders of all clients together.
    #[must_use]
    pub fn contenders(&self) -> usize {
        self.number("clients") * self.number("contenders")
    }

    /// Returns the path of a contender's lock.
    #[must_use]
    pub fn path(&self, contender: usize) -> String {
        let path = self.text("path");
        if self.0["each"] == true { format!("{path}/{contender}") } else { path.to_owned() }
    }

    /// Returns `true` if a contender acquires the write lock in this turn, and `false` if it
    /// acquires the read lock.
    #[must_use]
    pub fn writes(&self, contender: usize, turn: usize) -> bool {
        let reads = self.0["reads"].as_f64().expect("a percentage");
        if reads >= 100.0 {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
        let step = (100.0 / (100.0 - reads)).round() as usize;
        (contender + turn) % step == step - 1
    }

    /// Returns how long a node is kept.
    #[must_use]
    pub fn linger(&self) -> Duration {
        Duration::from_secs_f64(self.0["linger"].as_f64().expect("seconds"))
    }
}

/// A gate that stops contenders between two measurements. While it is closed, the holder keeps its
/// lock, so the other contenders are idle too.
#[derive(Default)]
pub struct Gate {
    open: AtomicBool,
    opened: Notify,
    count: AtomicU64,
    /// Number of contenders that wait for the gate.
    parked: AtomicUsize,
    /// The latencies, if the task asks for them.
    latencies: Option<Latencies>,
}

impl Gate {
    /// Returns a closed gate.
    #[must_use]
    pub fn new(task: &Task) -> Arc<Self> {
        Arc::new(Self { latencies: task.latencies().then(|| Latencies::new(task)), ..Self::default() })
    }

    /// Returns when the gate is open.
    pub async fn pass(&self) {
        while !self.open.load(Ordering::Acquire) {
            let opened = self.opened.notified();
            if self.open.load(Ordering::Acquire) {
                return;
            }
            self.parked.fetch_add(1, Ordering::Relaxed);
            opened.await;
            self.parked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts pairs of acquire and release.
    pub fn done(&self, pairs: u64) {
        self.count.fetch_add(pairs, Ordering::Relaxed);
    }

    /// Waits until the operation that was in progress at the end of a turn is complete: its holder
    /// waits for the gate. Without this, a turn would usually lose its longest latency.
    fn settle(&self) {
        let began = Instant::now();
        while self.parked.load(Ordering::Relaxed) == 0 && began.elapsed() < SETTLED {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Reports that the worker is ready, and follows the driver's commands until `stop`.
///
/// # Panics
/// Panics if the driver is gone.
#[expect(clippy::print_stdout, reason = "the lines to the driver")]
pub fn serve(gate: &Arc<Gate>, version: &str) {
    println!("{}", serde_json::json!({ "ready": version }));
    for line in io::stdin().lock().lines() {
        let line = line.expect("a line");
        let Some(seconds) = line.strip_prefix("count ") else { break };
        let time = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
        let (before, began) = (gate.count.load(Ordering::Relaxed), Instant::now());
        if let Some(latencies) = &gate.latencies {
            latencies.begin();
        }
        gate.open.store(true, Ordering::Release);
        gate.opened.notify_waiters();
        thread::sleep(time);
        gate.open.store(false, Ordering::Release);
        let count = gate.count.load(Ordering::Relaxed) - before;
        let seconds = began.elapsed().as_secs_f64();
        let mut told = serde_json::json!({ "count": count, "seconds": seconds });
        if let Some(latencies) = &gate.latencies {
            if latencies.exclusive() {
                gate.settle();
            }
            told["latencies"] = latencies.take();
        }
        println!("{told}");
        io::stdout().flush().expect("a driver that reads");
    }
}
