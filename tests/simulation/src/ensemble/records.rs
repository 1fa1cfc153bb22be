//! Records every change of a slot record, in the order in which servers apply decided changes.

use super::{Ensemble, frame, time};
use crate::locks::{SLOT_RECORDS, Written};

/// The changes of slot records so far.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Number of decided changes examined so far.
    applied: usize,
    versions: [Option<i32>; SLOT_RECORDS.len()],
    written: Vec<Written>,
}

impl Ensemble {
    /// Starts recording each change of a slot record.
    pub fn watch_records(&mut self) {
        self.records = Some(Records::default());
    }

    /// Returns the changes since the last call.
    pub fn take_written(&mut self) -> Vec<Written> {
        self.records.as_mut().map(|records| std::mem::take(&mut records.written)).unwrap_or_default()
    }

    /// Records new versions of slot records. All servers apply the same changes, so only the server
    /// that applies them first records them.
    pub(super) fn record_changes(&mut self, server: usize) {
        let one = &mut self.servers[server];
        let Some(records) = self.records.as_mut().filter(|records| records.applied < one.applied) else {
            return;
        };
        records.applied = one.applied;
        for (place, path) in SLOT_RECORDS.into_iter().enumerate() {
            let reply = one.tell(&frame::data(path), time());
            let version = frame::version(&reply);
            if let Some(version) = version.filter(|_| version != records.versions[place]) {
                let data = frame::content(&reply).unwrap_or_default();
                records.written.push(Written { place, version, data });
            }
            records.versions[place] = version;
        }
    }
}
