//! What is to happen when. Within one millisecond, which is the finest time there is, things happen in the order in which
//! they were planned.

use std::collections::BTreeMap;

/// Things that will happen.
#[derive(Debug)]
pub struct Schedule<T> {
    planned: BTreeMap<(u64, u64), T>,
    next: u64,
}

impl<T> Schedule<T> {
    /// Nothing.
    pub fn new() -> Self {
        Self { planned: BTreeMap::new(), next: 0 }
    }

    /// Plans something, in milliseconds since the beginning.
    pub fn plan(&mut self, at: u64, what: T) {
        self.planned.insert((at, self.next), what);
        self.next += 1;
    }

    /// The next thing that is due.
    pub fn due(&mut self, now: u64) -> Option<T> {
        let first = self.planned.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the next is due.
    pub fn next(&self) -> Option<u64> {
        self.planned.first_key_value().map(|((at, _), _)| *at)
    }
}
