//! Records how the number of nodes in each queue changes, in the order in which servers apply
//! decided changes.

use super::{Ensemble, frame, time};
use crate::locks::COUNTED;

/// The changes of the numbers so far.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Number of decided changes examined so far.
    applied: usize,
    counts: [usize; COUNTED.len()],
    changes: Vec<(&'static str, usize)>,
}

impl Ensemble {
    /// Starts recording each change of the number of nodes in a queue.
    pub fn count_nodes(&mut self) {
        self.census = Some(Census::default());
    }

    /// Returns the changes since the last call: each directory with its new number of nodes.
    pub fn take_counts(&mut self) -> Vec<(&'static str, usize)> {
        self.census.as_mut().map(|census| std::mem::take(&mut census.changes)).unwrap_or_default()
    }

    /// If this server is the first to apply a decided change, records the new number of nodes of
    /// each queue that it has changed.
    pub(super) fn record_counts(&mut self, server: usize) {
        let one = &mut self.servers[server];
        let Some(census) = self.census.as_mut().filter(|census| census.applied < one.applied) else {
            return;
        };
        census.applied = one.applied;
        for (place, directory) in COUNTED.into_iter().enumerate() {
            let names = frame::names(&one.tell(&frame::children(directory), time()));
            let count = names.map_or(0, |names| names.len());
            if std::mem::replace(&mut census.counts[place], count) != count {
                census.changes.push((directory, count));
            }
        }
    }
}
