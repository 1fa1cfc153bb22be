//! Records a client's statistics. Each count is one atomic addition, so recording never waits for a
//! reader.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::loss_reason::LossReason;
use crate::metrics::{Histogram, RequestKind, Stats, Transport};

const BOUNDS: [Duration; 22] = bounds();

const fn bounds() -> [Duration; 22] {
    let mut bounds = [Duration::ZERO; 22];
    let (mut at, mut micros) = (0, 100);
    while at < bounds.len() {
        bounds[at] = Duration::from_micros(micros);
        // The step from 2 to 5 is the only one that does not double.
        micros = if at % 3 == 1 { micros / 2 * 5 } else { micros * 2 };
        at += 1;
    }
    bounds
}

/// Measures how long a caller has waited so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitTimer {
    pub(crate) since: Instant,
    /// `true` if the caller waited for another contender.
    pub(crate) contended: bool,
    /// `true` if the acquired lock counts as a hold.
    pub(crate) counts: bool,
}

impl WaitTimer {
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now(), contended: false, counts: true }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    contended: AtomicU64,
    handoffs: AtomicU64,
    retakes: AtomicU64,
    busy: AtomicU64,
    timeouts: AtomicU64,
    losses: [AtomicU64; LossReason::COUNTED.len()],
    sessions: AtomicU64,
    reconnections: AtomicU64,
    wait: Distribution,
    hold: Distribution,
    requests: [AtomicU64; RequestKind::ALL.len()],
}

impl Recorder {
    pub(crate) fn acquired(&self, waited: Duration, contended: bool) {
        self.wait.record(waited);
        if contended {
            count(&self.contended);
        }
    }

    /// Counts a hold that began with a hand-off to its owner.
    pub(crate) fn handoff(&self) {
        count(&self.handoffs);
    }

    /// Counts a hold that began on a kept node.
    pub(crate) fn retake(&self) {
        count(&self.retakes);
    }

    pub(crate) fn ended(&self, held: Duration) {
        self.hold.record(held);
    }

    /// Counts a lost hold if the reason is counted.
    pub(crate) fn lost(&self, reason: LossReason) {
        if let Some(at) = LossReason::COUNTED.iter().position(|counted| *counted == reason) {
            count(&self.losses[at]);
        }
    }

    pub(crate) fn session_began(&self) {
        count(&self.sessions);
    }

    pub(crate) fn reconnected(&self) {
        count(&self.reconnections);
    }

    /// Counts a try that found the lock taken.
    pub(crate) fn busy(&self) {
        count(&self.busy);
    }

    pub(crate) fn timed_out(&self) {
        count(&self.timeouts);
    }

    pub(crate) fn requested(&self, request: RequestKind) {
        count(&self.requests[request as usize]);
    }

    pub(crate) fn snapshot(&self, transport: Option<Transport>) -> Stats {
        let requests = RequestKind::ALL.iter().map(|kind| (*kind, read(&self.requests[*kind as usize])));
        // Read each part before the total that contains it, so that a snapshot never shows a part
        // larger than its total.
        let losses: BTreeMap<_, _> =
            LossReason::COUNTED.into_iter().zip(self.losses.iter().map(read)).collect();
        let (hold, contended) = (self.hold.snapshot(), read(&self.contended));
        let (handoffs, retakes) = (read(&self.handoffs), read(&self.retakes));
        let wait = self.wait.snapshot();
        Stats {
            transport,
            acquisitions: wait.count,
            contended,
            handoffs,
            retakes,
            busy: read(&self.busy),
            timeouts: read(&self.timeouts),
            losses: losses.values().sum(),
            losses_by_reason: losses,
            sessions: read(&self.sessions),
            reconnections: read(&self.reconnections),
            wait,
            hold,
            requests: requests.collect(),
        }
    }
}

#[derive(Debug, Default)]
struct Distribution {
    /// One counter for each bound, and one for values above the last bound. Each counter counts
    /// only the values between two bounds, so the counters are not cumulative.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_nanos: AtomicU64,
    max_nanos: AtomicU64,
}

impl Distribution {
    fn record(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.max_nanos.fetch_max(nanos, Ordering::Relaxed);
        count(&self.buckets[BOUNDS.partition_point(|bound| *bound < time)]);
    }

    fn snapshot(&self) -> Histogram {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(BOUNDS.len());
        for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
            count += read(bucket);
            buckets.push((*bound, count));
        }
        Histogram {
            // The sum of the bucket counts that were just read, so that the total agrees with the
            // buckets.
            count: count + read(&self.buckets[BOUNDS.len()]),
            sum: Duration::from_nanos(read(&self.sum_nanos)),
            max: Duration::from_nanos(read(&self.max_nanos)),
            buckets,
        }
    }
}

/// Adds one, with release ordering, so that a reader that sees this count also sees all counts that
/// were added before it.
fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Release);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_1_2_and_5_of_every_power_of_ten() {
        let micros = BOUNDS.map(|bound| bound.as_micros());
        assert_eq!(micros[..5], [100, 200, 500, 1_000, 2_000]);
        assert_eq!(micros[19..], [200_000_000, 500_000_000, 1_000_000_000]);
    }

    #[test]
    fn a_bucket_counts_what_took_no_longer() {
        let recorder = Recorder::default();
        for micros in [0, 100, 101, 1_000_000_000, 1_000_000_001] {
            recorder.acquired(Duration::from_micros(micros), micros == 101);
        }
        let Stats { acquisitions, contended, wait, hold, .. } = recorder.snapshot(None);
        assert_eq!((acquisitions, contended, wait.count, hold.count), (5, 1, 5, 0));
        let counts: Vec<_> = wait.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!((counts[0], counts[1], counts[20], counts[21]), (2, 3, 3, 4));
        assert_eq!(wait.max, Duration::from_micros(1_000_000_001));
        assert_eq!(wait.sum, Duration::from_micros(2_000_000_202));
    }

    #[test]
    fn every_request_has_a_name_and_a_place_of_its_own() {
        let recorder = Recorder::default();
        for (index, request) in RequestKind::ALL.iter().enumerate() {
            assert_eq!(*request as usize, index);
            recorder.requested(*request);
        }
        let requests = recorder.snapshot(None).requests;
        assert!(requests.values().all(|count| *count == 1));
        let names: std::collections::BTreeSet<_> = requests.keys().map(|request| request.as_str()).collect();
        assert_eq!(names.len(), RequestKind::ALL.len());
    }
}
