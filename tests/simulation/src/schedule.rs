//! A schedule of events. Its unit of time is one millisecond. Events within the same millisecond
//! keep the order in which they were planned.

use std::collections::BTreeMap;

/// Planned events.
#[derive(Debug)]
pub struct Schedule<T> {
    planned: BTreeMap<(u64, u64), T>,
    next: u64,
}

impl<T> Schedule<T> {
    /// Creates an empty schedule.
    pub fn new() -> Self {
        Self { planned: BTreeMap::new(), next: 0 }
    }

    /// Plans an event for this time, in milliseconds since the simulation began.
    pub fn plan(&mut self, at: u64, what: T) {
        self.planned.insert((at, self.next), what);
        self.next += 1;
    }

    /// Removes and returns the next event that is due.
    pub fn due(&mut self, now: u64) -> Option<T> {
        let first = self.planned.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Option<u64> {
        self.planned.first_key_value().map(|((at, _), _)| *at)
    }
}
