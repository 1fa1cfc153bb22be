//! Latencies of single operations, as histograms. A worker measures them only if its task asks for
//! them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde_json::{Value, json};

use crate::{Gate, Task};

/// Longest latency in microseconds that a histogram can contain.
const LONGEST: u64 = 60_000_000;

/// A sleep that ends later than this was delayed by more than the precision of the timers.
const TIMER: Duration = Duration::from_millis(2);

/// Start of a turn while no turn is in progress: no operation can begin later.
const NEVER: u64 = u64::MAX;

/// The latencies of a turn. Times are in nanoseconds since `epoch`.
pub(crate) struct Latencies {
    epoch: Instant,
    exclusive: bool,
    /// Time between two scheduled starts, or zero.
    period: Duration,
    /// Time between the schedules of two contenders.
    offset: Duration,
    /// Number of stopwatches.
    stopwatches: AtomicU32,
    /// Start of the current turn, or `NEVER`. Only operations that begin later are recorded.
    turn: AtomicU64,
    /// Time of the newest call of a release.
    released: AtomicU64,
    /// Histograms of acquires, releases and hand-offs.
    recorded: Mutex<[Histogram<u64>; 3]>,
}

impl Latencies {
    pub(crate) fn new(task: &Task) -> Self {
        Self {
            epoch: Instant::now(),
            exclusive: task.exclusive(),
            period: task.period(),
            offset: task.period() / u32::try_from(task.contenders()).expect("few contenders"),
            stopwatches: AtomicU32::new(0),
            turn: AtomicU64::new(NEVER),
            released: AtomicU64::new(0),
            recorded: Mutex::new(histograms()),
        }
    }

    pub(crate) fn exclusive(&self) -> bool {
        self.exclusive
    }

    /// Begins a turn.
    pub(crate) fn begin(&self) {
        self.turn.store(self.now(), Ordering::Release);
    }

    /// Ends the turn and returns its histograms.
    pub(crate) fn take(&self) -> Value {
        self.turn.store(NEVER, Ordering::Release);
        let taken = std::mem::replace(&mut *self.recorded.lock().expect("no panic"), histograms());
        let [acquire, release, handoff] = taken.each_ref().map(text);
        json!({ "acquire": acquire, "release": release, "handoff": handoff })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).expect("less than 500 years")
    }

    /// Records the time since `began`, if the operation began in the current turn.
    fn record(&self, which: usize, began: u64, now: u64) {
        if began >= self.turn.load(Ordering::Acquire) {
            let micros = now.saturating_sub(began) / 1_000;
            self.recorded.lock().expect("no panic")[which].saturating_record(micros.max(1));
        }
    }
}

fn histograms() -> [Histogram<u64>; 3] {
    std::array::from_fn(|_| Histogram::new_with_bounds(1, LONGEST, 3).expect("valid bounds"))
}

/// Returns a histogram in the format that all libraries for such histograms can read.
fn text(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("a buffer that grows");
    STANDARD.encode(&bytes)
}

/// Measures the operations of one contender. It does nothing unless the task asks for latencies.
pub struct Stopwatch {
    gate: Arc<Gate>,
    /// Number of the contender.
    number: u32,
    began: u64,
    /// Turn and time of the previous scheduled start.
    scheduled: (u64, u64),
}

impl Stopwatch {
    /// Returns the stopwatch of a contender.
    #[must_use]
    pub fn new(gate: &Arc<Gate>) -> Self {
        let number = gate.latencies.as_ref().map(|all| all.stopwatches.fetch_add(1, Ordering::Relaxed));
        Self { gate: gate.clone(), number: number.unwrap_or_default(), began: 0, scheduled: (NEVER, 0) }
    }

    /// Call this before an acquire. With a period, it returns at the scheduled time. If the previous
    /// pair ended after that time, the acquire counts from the scheduled time, so that a stall counts
    /// for every pair that it delays.
    pub async fn start(&mut self) {
        let Some(latencies) = &self.gate.latencies else { return };
        self.began = latencies.now();
        let turn = latencies.turn.load(Ordering::Acquire);
        if latencies.period.is_zero() || turn == NEVER {
            return;
        }
        // The schedule of a turn starts with the first pair of the turn. The contenders start one
        // after the other, so that their requests do not arrive all at once.
        let (previous, pause) = if self.scheduled.0 == turn {
            (self.scheduled.1, latencies.period)
        } else {
            (self.began, latencies.offset * self.number)
        };
        let next = previous + u64::try_from(pause.as_nanos()).expect("a short time");
        self.scheduled = (turn, next);
        let idle = self.began < next;
        if idle {
            tokio::time::sleep(Duration::from_nanos(next - self.began)).await;
        }
        let now = latencies.now();
        let on_time = idle && Duration::from_nanos(now - next) < TIMER;
        self.began = if on_time { now } else { next };
    }

    /// Call this after an acquire.
    pub fn acquired(&self) {
        let Some(latencies) = &self.gate.latencies else { return };
        let now = latencies.now();
        latencies.record(0, self.began, now);
        if latencies.exclusive {
            latencies.record(2, latencies.released.load(Ordering::Acquire), now);
        }
    }

    /// Call this before a release.
    pub fn releasing(&mut self) {
        let Some(latencies) = &self.gate.latencies else { return };
        self.began = latencies.now();
        latencies.released.store(self.began, Ordering::Release);
    }

    /// Call this after a release.
    pub fn released(&self) {
        let Some(latencies) = &self.gate.latencies else { return };
        latencies.record(1, self.began, latencies.now());
    }
}
