//! Checks code that must run once per time slot (the slot's body): compares the servers' records of
//! slots with the bodies that ran.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::Oracle;
use crate::locks::{MUTEXES, SLOT_RECORDS, Written};

/// The slots of all mutexes.
#[derive(Debug, Default)]
pub struct Slots {
    /// Number of slots that were recorded.
    pub recorded: u64,
    places: [Place; SLOT_RECORDS.len()],
    /// The slots that must be recorded when the run ends, as pairs of the mutex's index and the
    /// slot number.
    tried: BTreeSet<(usize, u64)>,
}

/// The slots of one mutex.
#[derive(Debug, Default)]
struct Place {
    /// The last recorded slot, and the token of its holder.
    last: Option<(u64, i64)>,
    /// The token of each slot's holder.
    tokens: BTreeMap<u64, i64>,
}

/// Returns the number in a field of a record.
fn field(text: &str, name: &str) -> Option<i64> {
    let (_, rest) = text.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()?.parse().ok()
}

impl Slots {
    /// Returns the last recorded slot of a mutex.
    pub fn last(&self, place: usize) -> Option<u64> {
        self.places[place].last.map(|(slot, _)| slot)
    }

    /// Returns the token of the lease under which a slot was recorded.
    pub fn token(&self, place: usize, slot: u64) -> Option<i64> {
        self.places[place].tokens.get(&slot).copied()
    }

    /// Returns the last slot that the holder with this token has recorded, if it is later than
    /// `after`.
    pub fn last_of(&self, place: usize, token: i64, after: Option<u64>) -> Option<u64> {
        let mut slots = self.places[place].tokens.iter().rev();
        let (slot, _) = slots.find(|(_, holder)| **holder == token)?;
        Some(*slot).filter(|slot| after.is_none_or(|after| *slot > after))
    }

    /// Records that a slot must be recorded at the end of the run.
    pub fn is_tried(&mut self, place: usize, slot: u64) {
        self.tried.insert((place, slot));
    }
}

impl Oracle {
    /// Checks a new record. Its slot must be later than the last recorded one. Its token must not
    /// be smaller.
    pub fn recorded(&mut self, Written { place, version, data }: &Written) {
        let (path, text) = (MUTEXES[*place], String::from_utf8_lossy(data).into_owned());
        let slot = field(&text, "slot").and_then(|slot| u64::try_from(slot).ok());
        let (Some(slot), Some(token)) = (slot, field(&text, "token")) else {
            return self.violation(format!("{path} has an invalid record: {text}"));
        };
        self.history.note(&format!("slot {slot} of {path} is recorded, token {token}, version {version}"));
        self.slots.recorded += 1;
        let known = &mut self.slots.places[*place];
        known.tokens.entry(slot).or_insert(token);
        let Some((last, before)) = known.last.replace((slot, token)) else { return };
        if slot == last {
            self.violation(format!(
                "slot {slot} of {path} is recorded twice, with tokens {before} and {token}"
            ));
        } else if slot < last {
            self.violation(format!("the record of {path} goes back from slot {last} to {slot}"));
        } else if token < before {
            self.violation(format!("slot {slot} of {path} is recorded with token {token} after {before}"));
        }
    }

    /// Checks the start of a slot's body. `before` is the last slot that was already recorded when
    /// the contender requested the lock.
    pub fn body_begins(&mut self, contender: usize, place: usize, slot: u64, before: Option<u64>) {
        let path = MUTEXES[place];
        self.history.note(&format!("contender {contender} runs slot {slot} of {path}"));
        if before.is_some_and(|before| before >= slot) {
            self.violation(format!(
                "contender {contender} runs slot {slot} of {path}, which was recorded before"
            ));
        }
    }

    pub fn expect_recorded_first(&mut self, contender: usize, place: usize, slot: u64, token: i64) {
        if self.slots.token(place, slot) != Some(token) {
            self.violation(format!("contender {contender} runs slot {slot}, which is not recorded yet"));
        }
    }

    pub fn expect_recorded(&mut self, contender: usize, place: usize, slot: u64, token: Option<i64>) {
        let recorded = self.slots.token(place, slot);
        if token.is_none() || recorded != token {
            self.violation(format!(
                "contender {contender}: slot {slot} has run under token {token:?}, and is recorded under {recorded:?}"
            ));
        }
    }

    /// Checks that a skipped slot is recorded and its body has not run. `token` is `None` if the
    /// body has not begun.
    pub fn expect_skipped(&mut self, contender: usize, place: usize, slot: u64, token: Option<i64>) {
        let recorded = self.slots.token(place, slot);
        if recorded.is_none() || token.is_some() {
            self.violation(format!(
                "contender {contender}: slot {slot} is skipped, and is recorded under {recorded:?}"
            ));
        }
    }

    /// Checks that the slot of a failed body is not recorded with the lease's token. Must not be
    /// called if the record can still be written later.
    pub fn expect_unrecorded(&mut self, contender: usize, place: usize, slot: u64, token: Option<i64>) {
        let recorded = self.slots.token(place, slot);
        if recorded.is_some() && recorded == token {
            self.violation(format!(
                "contender {contender}: slot {slot} is recorded although its body failed"
            ));
        }
    }

    /// Checks that each slot for which [`Self::is_tried`] was called is recorded. Must be called
    /// after all contenders have ended.
    pub fn judge_tried_slots(&mut self) {
        for (place, slot) in std::mem::take(&mut self.slots.tried) {
            if self.slots.token(place, slot).is_none() {
                self.violation(format!("slot {slot} of {} is not recorded in the end", MUTEXES[place]));
            }
        }
    }
}
