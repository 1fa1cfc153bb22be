//! The clock, for scenes in which time passes.
//!
//! In other scenes, a term ends when a step of the scene ends it, and a session ends only after its
//! client's term. The crate's arithmetic must guarantee this order. The scenes with a clock test
//! that arithmetic. They use the real code of the term (`core/src/session/term.rs`) with this
//! clock. The server ends a session that sends no message for the session timeout, regardless of
//! what the client believes. The session timeout is four ticks, and the term is two ticks.
//!
//! In this model, servers report a client's messages to the leader immediately. With late reports,
//! a write would count from a time before it was sent. A separate test next to the code covers all
//! short histories with late reports.

use std::collections::BTreeMap;
use std::time::Duration;

use zklock::ModelTerm;

use super::mutants::Mutant;
use super::server::SessionId;

/// One step of time, in nanoseconds.
const TICK: u64 = 1_000_000_000;

/// Session timeout in ticks.
const TIMEOUT: u64 = 4;

/// The current time, and the time of the last message that the leader received from each session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clock {
    pub(super) now: u64,
    heard: BTreeMap<SessionId, u64>,
    pub(super) mutant: Option<Mutant>,
}

impl Clock {
    pub(super) fn new(mutant: Option<Mutant>, sessions: impl Iterator<Item = SessionId>) -> Self {
        // Start at 1, because a proof at time zero does not count.
        Self { now: 1, heard: sessions.map(|session| (session, 1)).collect(), mutant }
    }

    pub(super) fn hear(&mut self, session: SessionId) {
        self.heard.insert(session, self.now);
    }

    /// Returns `true` if the leader may end the session.
    pub(super) fn may_expire(&self, session: SessionId) -> bool {
        self.heard.get(&session).is_none_or(|heard| self.now - heard >= TIMEOUT)
    }
}

/// A request whose reply proves that the session exists: the time at which it was sent, the
/// connection on which it was sent, and the session's connection when the reply arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proof {
    sent: u64,
    connection: u64,
    current: u64,
}

/// The term of a session. It stores only the inputs of the real term, because the real term can be
/// neither cloned nor compared.
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
        // A later proof on the current connection replaces the earlier ones.
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
