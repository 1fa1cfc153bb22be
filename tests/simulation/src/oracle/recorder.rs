//! Records the holds that are certain, for checkers outside the simulation.
//! tests/porcupine/README.md describes the format.
//!
//! A hold is certain from its grant to the last time at which its lease reported that it was held.
//! The recorder asks the lease whenever the same lock is granted again, when the session ends, and
//! when the contender releases the lock. Timestamps are unique numbers of nanoseconds, so events
//! within one millisecond keep their order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::judge::{Granted, Mode};
use crate::clock;
use crate::locks::READ_WRITE;

/// A unique time for each event.
pub type Stamp = u64;

/// One hold.
#[derive(Debug)]
struct RecordedHold {
    place: &'static str,
    mode: Mode,
    contender: usize,
    node: String,
    session: i64,
    token: i64,
    asked: Option<Stamp>,
    granted: Stamp,
    seen: Stamp,
    over: Option<Stamp>,
}

/// The holds of one simulation.
#[derive(Debug, Default)]
pub struct Recorder {
    holds: Vec<RecordedHold>,
    asked: BTreeMap<usize, Stamp>,
    breaches: Vec<String>,
    last: Stamp,
}

impl Recorder {
    fn stamp(&mut self) -> Stamp {
        self.last = (clock::now() * 1_000_000).max(self.last + 1);
        self.last
    }

    /// Records that a contender asks for a lock.
    pub fn asks(&mut self, contender: usize) {
        let now = self.stamp();
        self.asked.insert(contender, now);
    }

    /// Records a grant and returns the index of the hold. If a contender enters its lock again,
    /// returns the index of the existing hold.
    ///
    /// Returns `None` if the grant is a hand-off. The other checkers expect one hold for each node,
    /// so only the first hold on a node is recorded.
    pub fn granted(&mut self, granted: &Granted) -> Option<usize> {
        let Granted { contender, place, mode, lease, node, .. } = granted;
        if lease.handoffs() > 0 {
            return None;
        }
        let of_contender = |hold: &RecordedHold| hold.contender == *contender && hold.place == *place;
        let level = self
            .holds
            .iter()
            .rposition(|hold| of_contender(hold) && hold.node == *node && hold.mode == *mode);
        let now = self.stamp();
        if let Some(known) = level {
            self.holds[known].seen = now;
            return Some(known);
        }
        // A writer that also acquires the read lock has two holds. Record the time of the request
        // only for the write hold.
        let asked = self.asked.get(contender).copied();
        let goes_on = self.holds.iter().any(|hold| of_contender(hold) && asked < Some(hold.granted));
        self.holds.push(RecordedHold {
            place,
            mode: *mode,
            contender: *contender,
            node: node.clone(),
            session: lease.session_id(),
            token: lease.fencing_token(),
            asked: asked.filter(|_| !goes_on || matches!(mode, Mode::Permit(_))),
            granted: now,
            seen: now,
            over: None,
        });
        Some(self.holds.len() - 1)
    }

    /// Records that these holds are certain now.
    pub fn certain(&mut self, holds: impl IntoIterator<Item = usize>) {
        let now = self.stamp();
        for hold in holds {
            self.holds[hold].seen = now;
        }
    }

    /// Records that these holds cannot be certain from now on.
    pub fn over(&mut self, holds: impl IntoIterator<Item = usize>) {
        let now = self.stamp();
        for hold in holds {
            self.holds[hold].over.get_or_insert(now);
        }
    }

    pub fn breach(&mut self, what: &str) {
        self.breaches.push(what.to_owned());
    }

    /// Returns the recorded history with this name, or an empty text if there was no hold.
    /// `restarts` tells the checkers that sequence numbers can start at zero again.
    pub fn history(&self, name: &str, restarts: bool) -> String {
        let mut lines = String::new();
        if self.holds.is_empty() {
            return lines;
        }
        let places: BTreeSet<_> = self.holds.iter().map(|hold| hold.place).filter(|_| restarts).collect();
        let places: Vec<_> = places.into_iter().collect();
        let breaches = &self.breaches;
        // Rust and JSON quote these names and texts in the same way, so Rust's format is valid
        // JSON.
        writeln!(lines, r#"{{"history":{name:?},"restarts":{places:?},"breaches":{breaches:?}}}"#).ok();
        for hold in &self.holds {
            hold.write(&mut lines);
        }
        lines
    }
}

impl RecordedHold {
    fn write(&self, lines: &mut String) {
        let Self { place, contender, session, token, granted, seen, .. } = self;
        let kind = match self.mode {
            Mode::Shared => "read",
            Mode::Exclusive if self.place == READ_WRITE => "write",
            Mode::Exclusive => "mutex",
            Mode::Permit(_) => "permit",
        };
        let node = self.node.rsplit_once('/').map_or(&*self.node, |(_, node)| node);
        write!(lines, r#"{{"path":"{place}","kind":"{kind}","worker":"simulation","owner":"{contender}""#)
            .ok();
        write!(lines, r#","node":"{node}","session":{session},"token":{token}"#).ok();
        if let Mode::Permit(most) = self.mode {
            write!(lines, r#","permits":{most}"#).ok();
        }
        if let Some(asked) = self.asked {
            write!(lines, r#","asked":{asked}"#).ok();
        }
        if let Some(over) = self.over {
            write!(lines, r#","over":{over}"#).ok();
        }
        writeln!(lines, r#","granted":{granted},"ended":{seen}}}"#).ok();
    }
}
