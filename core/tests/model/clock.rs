//! Time, in scenes in which it passes.
//!
//! In the other scenes a term ends whenever the scene says so, and a session ends only when its client's term is over:
//! that is what the crate's arithmetic must see to. Here the arithmetic is put to the test: the term is the real one
//! (`core/src/session/term.rs`), by this clock, and the server ends a session that it has not heard of for so long,
//! whatever its client believes. A session's time-out is four ticks long, and its term two.
//!
//! The servers that clients talk to tell the leader at once whom they have heard. That they tell it late, and that a write
//! then counts from before its sending, is tested for all short histories beside the code.

use std::collections::BTreeMap;
use std::time::Duration;

use zklock::ModelTerm;

use super::mutants::Mutant;
use super::server::SessionId;

/// The time that passes at once.
const TICK: u64 = 1_000_000_000;

/// After so many ticks without a sign of a client its session may be ended.
const TIMEOUT: u64 = 4;

/// The time, and when the leader heard of each session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clock {
    pub(super) now: u64,
    heard: BTreeMap<SessionId, u64>,
    pub(super) mutant: Option<Mutant>,
}

impl Clock {
    pub(super) fn new(mutant: Option<Mutant>, sessions: impl Iterator<Item = SessionId>) -> Self {
        // A proof that counts from zero is none.
        Self { now: 1, heard: sessions.map(|session| (session, 1)).collect(), mutant }
    }

    pub(super) fn hear(&mut self, session: SessionId) {
        self.heard.insert(session, self.now);
    }

    /// Whether the leader may end a session.
    pub(super) fn may_expire(&self, session: SessionId) -> bool {
        self.heard.get(&session).is_none_or(|heard| self.now - heard >= TIMEOUT)
    }
}

/// A proof: when it was sent, for which connection, and on which one the session was when it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proof {
    sent: u64,
    connection: u64,
    current: u64,
}

/// The term of a session. What it knows is kept as what it was told, because the real one can be neither cloned nor
/// compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimedTerm {
    pub(super) now: u64,
    pub(super) mutant: Option<Mutant>,
    proofs: Vec<Proof>,
}

impl TimedTerm {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { now: clock.now, mutant: clock.mutant, proofs: Vec::new() }
    }

    pub(super) fn prove(&mut self, sent: u64, connection: u64, current: u64) {
        let sent = if self.mutant == Some(Mutant::TermFromAnswer) { self.now } else { sent };
        // A later one leaves nothing of those before it.
        self.proofs.retain(|proof| proof.sent > sent || connection != current);
        self.proofs.push(Proof { sent, connection, current });
    }

    pub(super) fn end(&mut self) {
        self.proofs.clear();
    }

    fn real(&self, connection: u64) -> ModelTerm {
        let long = if self.mutant == Some(Mutant::LongTerm) { 3 } else { 1 };
        let term = ModelTerm::new(Duration::from_nanos(long * TIMEOUT * TICK), connection);
        for proof in &self.proofs {
            term.moved(proof.current);
            term.prove(proof.sent * TICK, proof.connection);
        }
        term.moved(connection);
        term
    }

    pub(super) fn runs(&self) -> bool {
        if self.mutant == Some(Mutant::ClockIgnored) {
            return !self.proofs.is_empty();
        }
        self.real(0).runs_at(self.now * TICK)
    }

    pub(super) fn is_proven_on(&self, connection: u64) -> bool {
        self.real(connection).is_proven_on(connection)
    }

    pub(super) fn is_fresh_on(&self, connection: u64) -> bool {
        self.real(connection).is_fresh_at(self.now * TICK, connection)
    }
}
