//! Writes down who was certain to hold what, for judges that are not part of the simulation: tests/porcupine/README.md
//! has the format.
//!
//! A hold is certain from its grant to the last moment at which its lease was seen to say so: at the grants of others
//! in the same place, when the session ends, and when its contender lets go. Stamps are nanoseconds, and no two are the
//! same: what happens within a millisecond has an order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::judge::{Granted, Mode};
use crate::clock;
use crate::locks::READ_WRITE;

/// A number for each thing that happens.
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

    /// A contender asks for something.
    pub fn asks(&mut self, contender: usize) {
        let now = self.stamp();
        self.asked.insert(contender, now);
    }

    /// A contender was granted a lock, and is certain of it. Returns the number of the hold: the same one for each level.
    /// `None` for one that was handed on: the other judges know one hold for each node, and judge the first.
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
        // The question was for the first of several holds, if the contender goes on to read what it writes.
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

    /// These holds are certain now.
    pub fn certain(&mut self, holds: impl IntoIterator<Item = usize>) {
        let now = self.stamp();
        for hold in holds {
            self.holds[hold].seen = now;
        }
    }

    /// From now on these holds cannot be certain any more.
    pub fn over(&mut self, holds: impl IntoIterator<Item = usize>) {
        let now = self.stamp();
        for hold in holds {
            self.holds[hold].over.get_or_insert(now);
        }
    }

    /// The simulation's own judge refuses what has just been written down.
    pub fn breach(&mut self, what: &str) {
        self.breaches.push(what.to_owned());
    }

    /// The history under a name; nothing if nobody held anything. `restarts`: whether numbers of nodes begin anew.
    pub fn history(&self, name: &str, restarts: bool) -> String {
        let mut lines = String::new();
        if self.holds.is_empty() {
            return lines;
        }
        let places: BTreeSet<_> = self.holds.iter().map(|hold| hold.place).filter(|_| restarts).collect();
        let places: Vec<_> = places.into_iter().collect();
        let breaches = &self.breaches;
        // Names of nodes and sentences of ours have nothing in them that JSON and Rust quote differently.
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
