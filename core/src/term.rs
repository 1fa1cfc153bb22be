//! Until when a session is certain to exist without hearing from the server again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Moment;

/// The term of one session. It ends half a session time-out after the last proof of the session, which is a committed
/// write: counted from the moment before the write was sent, and only once it is acknowledged.
///
/// Why a write, and why half: a server that is cut from its leader keeps answering reads, pings and syncs for a session
/// that the leader has ended, and the leader learns with a delay of half a tick or more that a session is alive.
/// What is committed was seen by the leader at some time after it was sent.
#[derive(Debug, Default)]
pub(crate) struct Term {
    length: Duration,
    /// When the last proof was sent; zero before the first.
    proof: AtomicU64,
    /// The session's connection.
    connection: AtomicU64,
    /// The connection that brought the last proof; none has the number `u64::MAX`.
    proven: AtomicU64,
}

impl Term {
    /// The term of a session with this time-out and on this connection, which does not run yet.
    pub(crate) fn new(session_timeout: Duration, connection: u64) -> Self {
        Self {
            length: session_timeout / 2,
            proof: AtomicU64::new(0),
            connection: AtomicU64::new(connection),
            proven: AtomicU64::new(u64::MAX),
        }
    }

    /// The session goes on on another connection.
    pub(crate) fn moved(&self, connection: u64) {
        self.connection.store(connection, Ordering::Release);
    }

    /// A write that was sent at a given moment, for this connection, is acknowledged.
    ///
    /// If it is not the session's connection any more, that proves nothing: the client crate sends what it had not sent
    /// yet on the next connection, and whose session that is no one has looked at when this was asked.
    pub(crate) fn prove(&self, sent: Moment, connection: u64) {
        if self.connection.load(Ordering::Acquire) == connection {
            self.proof.fetch_max(sent.0, Ordering::Release);
            self.proven.store(connection, Ordering::Release);
        }
    }

    /// Whether a proof was sent at this moment or later.
    pub(crate) fn is_proven_since(&self, moment: Moment) -> bool {
        self.proof.load(Ordering::Acquire) >= moment.0
    }

    /// How much of the term is left.
    pub(crate) fn remaining(&self) -> Duration {
        self.left_at(Moment::now())
    }

    fn left_at(&self, now: Moment) -> Duration {
        match self.proof.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            proof => self.length.saturating_sub(now.since(Moment(proof))),
        }
    }

    pub(crate) fn runs(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How often to prove the session while it matters: two proofs may be missed before the term ends.
    pub(crate) fn interval(&self) -> Duration {
        self.length / 3
    }

    /// The session time-out, as the server granted it.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.length * 2
    }

    /// Until when the next proof is due.
    pub(crate) fn due_in(&self) -> Duration {
        self.remaining().saturating_sub(self.interval() * 2)
    }

    /// For how long proofs may be asked for in vain. The client crate gives a session up after as long without a
    /// connection.
    pub(crate) fn patience(&self) -> Duration {
        self.length * 2 * 7 / 5
    }

    /// Whether the last proof came on this connection.
    pub(crate) fn is_proven_on(&self, connection: u64) -> bool {
        self.proven.load(Ordering::Acquire) == connection
    }

    /// Whether proofs come as they should on this connection: at most one of them is late.
    pub(crate) fn is_fresh(&self, connection: u64) -> bool {
        self.is_proven_on(connection) && self.remaining() > self.interval()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(6);

    fn proven(sent: u64) -> Term {
        let term = Term::new(TIMEOUT, 1);
        term.prove(Moment(sent), 1);
        term
    }

    #[test]
    fn a_term_does_not_run_without_a_proof() {
        assert!(!Term::new(TIMEOUT, 1).runs());
    }

    #[test]
    fn a_term_is_half_the_time_out_from_the_sending() {
        let term = proven(1_000_000_000);
        assert_eq!(term.left_at(Moment(1_000_000_000)), Duration::from_secs(3));
        assert_eq!(term.left_at(Moment(3_999_999_999)), Duration::from_nanos(1));
        assert_eq!(term.left_at(Moment(4_000_000_000)), Duration::ZERO);
    }

    #[test]
    fn an_older_proof_that_comes_late_does_not_shorten_a_term() {
        let term = proven(2_000_000_000);
        term.prove(Moment(1_000_000_000), 1);
        assert_eq!(term.left_at(Moment(2_000_000_000)), Duration::from_secs(3));
    }

    #[test]
    fn proofs_of_another_connection_are_not_fresh() {
        let term = Term::new(TIMEOUT, 1);
        assert!(!term.is_proven_on(1));
        term.prove(Moment::now(), 1);
        assert!(term.is_fresh(1) && term.is_proven_on(1));
        assert!(!term.is_fresh(2) && !term.is_proven_on(2));
    }

    #[test]
    fn a_proof_for_a_connection_that_is_lost_is_none() {
        let term = proven(1_000_000_000);
        term.moved(2);
        term.prove(Moment(2_000_000_000), 1);
        assert_eq!(term.left_at(Moment(2_000_000_000)), Duration::from_secs(2));
        assert!(!term.is_proven_on(2) && !term.is_proven_since(Moment(2_000_000_000)));
    }
}
