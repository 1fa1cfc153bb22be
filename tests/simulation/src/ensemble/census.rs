//! How many nodes queues have, as the servers have them: each change, in its order.

use super::{Ensemble, frame, time};
use crate::locks::COUNTED;

/// The changes of the numbers so far.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// How many decisions were looked at.
    applied: usize,
    counts: [usize; COUNTED.len()],
    changes: Vec<(&'static str, usize)>,
}

impl Ensemble {
    /// From now on each change of the number of nodes in a queue is noted.
    pub fn count_nodes(&mut self) {
        self.census = Some(Census::default());
    }

    /// The changes since the last call: the directories, and how many nodes each has.
    pub fn take_counts(&mut self) -> Vec<(&'static str, usize)> {
        self.census.as_mut().map(|census| std::mem::take(&mut census.changes)).unwrap_or_default()
    }

    /// A server has carried out one more decision.
    pub(super) fn count_again(&mut self, server: usize) {
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
