//! Once per slot: what the servers have recorded, compared with the bodies that run.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::Oracle;
use crate::locks::{MUTEXES, SLOT_RECORDS, Written};

/// The slots of all mutexes.
#[derive(Debug, Default)]
pub struct Slots {
    /// How many were recorded.
    pub recorded: u64,
    places: [Place; SLOT_RECORDS.len()],
    /// The slots that have to be recorded in the end, each with its mutex.
    tried: BTreeSet<(usize, u64)>,
}

/// The slots of one mutex.
#[derive(Debug, Default)]
struct Place {
    /// The last slot that was recorded, and the token of its holder.
    last: Option<(u64, i64)>,
    /// The token of each slot's holder.
    tokens: BTreeMap<u64, i64>,
}

/// The number in the text after a field's name.
fn field(text: &str, name: &str) -> Option<i64> {
    let (_, rest) = text.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()?.parse().ok()
}

impl Slots {
    /// The last slot of a mutex that was recorded.
    pub fn last(&self, place: usize) -> Option<u64> {
        self.places[place].last.map(|(slot, _)| slot)
    }

    /// The token of the lease under which a slot was recorded.
    pub fn token(&self, place: usize, slot: u64) -> Option<i64> {
        self.places[place].tokens.get(&slot).copied()
    }

    /// A slot has to be recorded in the end.
    pub fn is_tried(&mut self, place: usize, slot: u64) {
        self.tried.insert((place, slot));
    }
}

impl Oracle {
    /// The servers have a new record: of a later slot than the last one, by a later holder or the same one.
    pub fn recorded(&mut self, Written { place, version, data }: &Written) {
        let (path, text) = (MUTEXES[*place], String::from_utf8_lossy(data).into_owned());
        let slot = field(&text, "slot").and_then(|slot| u64::try_from(slot).ok());
        let (Some(slot), Some(token)) = (slot, field(&text, "token")) else {
            return self.violation(format!("{path} has a record that is none: {text}"));
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

    /// The body of a slot begins. `before`: the last slot that was recorded before its contender asked for the lock.
    pub fn body_begins(&mut self, contender: usize, place: usize, slot: u64, before: Option<u64>) {
        let path = MUTEXES[place];
        self.history.note(&format!("contender {contender} runs slot {slot} of {path}"));
        if before.is_some_and(|before| before >= slot) {
            self.violation(format!(
                "contender {contender} runs slot {slot} of {path}, which was recorded before"
            ));
        }
    }

    /// Nobody contends any more: each slot that was tried in calm is recorded.
    pub fn judge_tried_slots(&mut self) {
        for (place, slot) in std::mem::take(&mut self.slots.tried) {
            if self.slots.token(place, slot).is_none() {
                self.violation(format!("slot {slot} of {} is not recorded in the end", MUTEXES[place]));
            }
        }
    }
}
