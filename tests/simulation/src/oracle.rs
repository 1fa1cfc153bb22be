//! The judge of what clients are told: what each lease says of itself, at the instants at which it would be wrong.
//!
//! A lease that is held goes on being held until something ends it, so two can only begin to be held at once when one
//! is granted: each grant is compared with all that say then that they are held. And when a server ends a session whose
//! time is over, no lease of that session may say that it is held, whether or not somebody else is granted the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zklock::{Lease, LeaseState};

use crate::clock;
use crate::history::History;

/// In which way a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
    /// One of so many.
    Permit(usize),
}

/// A lease that a contender has.
#[derive(Debug)]
struct Hold {
    contender: usize,
    place: String,
    mode: Mode,
    lease: Arc<Lease>,
}

/// The fencing tokens of a lock.
#[derive(Debug, Default)]
struct Tokens {
    exclusive: i64,
    any: i64,
}

/// Everything that was judged, and the history of it.
#[derive(Debug, Default)]
pub struct Oracle {
    pub history: History,
    pub violations: Vec<String>,
    pub grants: u64,
    holds: Vec<Hold>,
    tokens: BTreeMap<String, Tokens>,
    /// The nodes and sessions that operators took away: nobody promises that their holders know.
    broken: (BTreeSet<String>, BTreeSet<i64>),
    /// Nodes of waiters that are gone, with another client's right before them until then. By rule 6 no such waiter is
    /// granted the lock without having looked.
    gone: BTreeSet<String>,
}

fn holds(lease: &Lease) -> bool {
    // All three have to say so, in this order: asking may end what is over by the clock.
    let remains = !lease.remaining().is_zero();
    let passes = lease.check().is_ok();
    let held = matches!(lease.state(), LeaseState::Held | LeaseState::Suspended);
    held || passes || remains
}

impl Oracle {
    /// Something is wrong.
    pub fn violation(&mut self, what: impl Into<String>) {
        let what = format!("at {} ms: {}", clock::now(), what.into());
        self.history.note(&format!("VIOLATION {what}"));
        self.violations.push(what);
    }

    /// A contender was granted a lock. `again`: it had another lease of the same lock already.
    pub fn granted(&mut self, contender: usize, place: &str, mode: Mode, lease: &Arc<Lease>) {
        self.grants += 1;
        let (token, node) = (lease.fencing_token(), lease.node());
        self.history.note(&format!(
            "contender {contender} has {node} {mode:?}, token {token}, {:?}",
            lease.remaining()
        ));
        if self.gone.contains(&node) {
            self.violation(format!("{node} is granted, and was gone before"));
        }
        // It may be lost already, if its client was stopped on the way.
        if self.is_certain(lease) {
            self.compare(contender, place, mode, lease);
            self.follow(contender, place, mode, token);
        }
        let hold = Hold { contender, place: place.to_owned(), mode, lease: Arc::clone(lease) };
        self.holds.push(hold);
    }

    fn compare(&mut self, contender: usize, place: &str, mode: Mode, lease: &Lease) {
        let others = self.holds.iter().filter(|hold| {
            hold.place == place && hold.contender != contender && self.is_certain(&hold.lease)
        });
        let (mut found, mut permits) = (Vec::new(), 0);
        for other in others {
            match (mode, other.mode) {
                (Mode::Shared, Mode::Shared) => {}
                (Mode::Permit(_), Mode::Permit(_)) => permits += 1,
                _ => found.push(other.lease.node()),
            }
        }
        let own = |hold: &&Hold| hold.place == place && hold.contender == contender && holds(&hold.lease);
        permits += self.holds.iter().filter(own).count();
        if let Mode::Permit(most) = mode
            && permits + 1 > most
        {
            self.violation(format!("{} of {most} permits of {place} are held", permits + 1));
        }
        for other in found {
            self.violation(format!("{} is granted while {other} is held", lease.node()));
        }
    }

    /// Tokens, and with them the order in which the nodes were created, grow from holder to holder.
    fn follow(&mut self, contender: usize, place: &str, mode: Mode, token: i64) {
        let downgrade = self.holds.iter().any(|hold| {
            hold.contender == contender && hold.place == place && hold.lease.fencing_token() == token
        });
        let tokens = self.tokens.entry(place.to_owned()).or_default();
        let before = match mode {
            Mode::Exclusive => std::mem::replace(&mut tokens.exclusive, token).max(tokens.any),
            Mode::Shared => tokens.exclusive,
            Mode::Permit(_) => return,
        };
        tokens.any = tokens.any.max(token);
        if token <= before && !downgrade {
            self.violation(format!("{place} is granted with token {token} after {before}"));
        }
    }

    /// A contender is about to release a lease, or has been told that it is lost.
    pub fn ends(&mut self, lease: &Arc<Lease>, how: &str) {
        if let Some(place) = self.holds.iter().position(|hold| Arc::ptr_eq(&hold.lease, lease)) {
            let hold = self.holds.swap_remove(place);
            self.history.note(&format!("contender {} {how} {}", hold.contender, hold.lease.node()));
        }
    }

    /// The servers end a session whose time is over.
    pub fn expired(&mut self, session: i64) {
        self.history.note(&format!("session {session:#x} is over"));
        let of_session = |hold: &&Hold| hold.lease.session_id() == session && self.is_certain(&hold.lease);
        let wrong: Vec<_> = self.holds.iter().filter(of_session).map(|hold| hold.lease.node()).collect();
        for node in wrong {
            self.violation(format!("{node} is held when its session is over"));
        }
    }

    /// An operator deletes a node.
    pub fn broken(&mut self, node: String) {
        self.broken.0.insert(node);
    }

    /// A waiter's node is gone, and those right before it are another client's.
    pub fn gone(&mut self, node: String) {
        self.gone.insert(node);
    }

    /// An operator ends a session.
    pub fn killed(&mut self, session: i64) {
        self.broken.1.insert(session);
    }

    /// Whether a lease says that it is held, and it is promised that this is so.
    fn is_certain(&self, lease: &Lease) -> bool {
        let (nodes, sessions) = &self.broken;
        !nodes.contains(&lease.node()) && !sessions.contains(&lease.session_id()) && holds(lease)
    }
}
