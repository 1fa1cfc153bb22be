//! Until when a session is certain to exist without hearing from the server again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use zklock_transport::LastContact;

use crate::runtime::clock::BootInstant;
use crate::runtime::sync::AtomicU64;

/// The term of one session. It ends half a session time-out after the last proof of the session, which is a committed
/// write: counted from the moment before the write was sent, and only once it is acknowledged.
///
/// Why a write, and why half: a server that is cut from its leader keeps answering reads, pings and syncs for a session
/// that the leader has ended, and the leader learns with a delay of half a tick or more that a session is alive.
/// What is committed was seen by the leader at some time after it was sent.
///
/// And why not always from that moment: the leader does not take a write that another server forwards for a sign of
/// life. It counts a session's time from what that server tells it every half tick of the clients that it has heard.
/// After a long pause of the client the first write may be carried out although the leader has heard nothing since before
/// the pause, and ends the session a moment later. So a write counts from no later than [`reach`](Self::reach) after
/// what the leader is certain to have been told of.
#[derive(Debug, Default)]
pub(crate) struct Term {
    length: Duration,
    /// When the session's server heard of the client.
    heard: LastContact,
    /// From when the last proof counts; zero before the first.
    proof: AtomicU64,
    /// When the last proof was sent, from whenever it counts.
    answered: AtomicU64,
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
            heard: LastContact::default(),
            proof: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            connection: AtomicU64::new(connection),
            proven: AtomicU64::new(u64::MAX),
        }
    }

    /// The same; what its server hears of the client is noted there.
    pub(crate) fn with(self, heard: LastContact) -> Self {
        Self { heard, ..self }
    }

    /// The session goes on on another connection.
    pub(crate) fn moved(&self, connection: u64) {
        self.connection.store(connection, Ordering::Release);
    }

    /// A write that was sent at a given moment, for this connection, is acknowledged.
    ///
    /// If it is not the session's connection any more, that proves nothing: the client crate sends what it had not sent
    /// yet on the next connection, and whose session that is no one has looked at when this was asked.
    pub(crate) fn prove(&self, sent: BootInstant, connection: u64) {
        if self.connection.load(Ordering::Acquire) == connection {
            self.proof.fetch_max(self.counts_from(sent).0, Ordering::Release);
            self.answered.fetch_max(sent.0, Ordering::Release);
            self.proven.store(connection, Ordering::Release);
        }
    }

    /// From when a proof counts that was sent then.
    fn counts_from(&self, sent: BootInstant) -> BootInstant {
        match self.heard.by(sent.before(self.report()).0) {
            Some(heard) => sent.min(BootInstant(heard).after(self.reach())),
            // The transport is somebody else's.
            None => sent,
        }
    }

    /// What a server has heard so long before it forwards a write, the leader was told of before that write: with four
    /// ticks to the session's time-out, half a tick and half as much again for a report that comes late.
    fn report(&self) -> Duration {
        self.length * 2 * 3 / 16
    }

    /// For how long after what the leader was told of a write counts from its own sending. The term then ends a sixteenth
    /// of the session's time-out before the session can. With requests and pings as the client crate sends them, what
    /// counts is no older than `report` and a fifth of the time-out: so there is room for round trips of a twentieth.
    fn reach(&self) -> Duration {
        self.length * 2 * 7 / 16
    }

    /// How long ago the last proof was sent; `None` before the first.
    pub(crate) fn proof_age(&self) -> Option<Duration> {
        match self.answered.load(Ordering::Acquire) {
            0 => None,
            answered => Some(BootInstant::now().since(BootInstant(answered))),
        }
    }

    /// How much of the term is left.
    pub(crate) fn remaining(&self) -> Duration {
        self.left_at(BootInstant::now())
    }

    fn left_at(&self, now: BootInstant) -> Duration {
        match self.proof.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            proof => self.length.saturating_sub(now.since(BootInstant(proof))),
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.runs_at(BootInstant::now())
    }

    /// Whether anything is left, without working out how much: every re-entry asks.
    fn runs_at(&self, now: BootInstant) -> bool {
        match self.proof.load(Ordering::Acquire) {
            0 => false,
            proof => now < BootInstant(proof).after(self.length),
        }
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
    pub(crate) fn give_up_after(&self) -> Duration {
        self.length * 2 * 7 / 5
    }

    /// Whether the last proof came on this connection.
    pub(crate) fn is_proven_on(&self, connection: u64) -> bool {
        self.proven.load(Ordering::Acquire) == connection
    }

    /// Whether proofs come as they should on this connection: at most one of them is late.
    pub(crate) fn is_fresh(&self, connection: u64) -> bool {
        self.is_fresh_at(BootInstant::now(), connection)
    }

    fn is_fresh_at(&self, now: BootInstant, connection: u64) -> bool {
        self.is_proven_on(connection) && self.left_at(now) > self.interval()
    }
}

/// A term by another clock, in nanoseconds: for the tests' model of the world, which has its own.
#[derive(Debug)]
pub struct ModelTerm(Term);

impl ModelTerm {
    /// The term of a session with this time-out and on this connection, which does not run yet.
    #[must_use]
    pub fn new(session_timeout: Duration, connection: u64) -> Self {
        Self(Term::new(session_timeout, connection))
    }

    /// The session goes on on another connection.
    pub fn moved(&self, connection: u64) {
        self.0.moved(connection);
    }

    /// A write that was sent at a given moment, for this connection, is acknowledged.
    pub fn prove(&self, sent: u64, connection: u64) {
        self.0.prove(BootInstant(sent), connection);
    }

    /// Whether anything is left.
    #[must_use]
    pub fn runs_at(&self, now: u64) -> bool {
        self.0.runs_at(BootInstant(now))
    }

    /// Whether proofs come as they should on this connection.
    #[must_use]
    pub fn is_fresh_at(&self, now: u64, connection: u64) -> bool {
        self.0.is_fresh_at(BootInstant(now), connection)
    }

    /// Whether the last proof came on this connection.
    #[must_use]
    pub fn is_proven_on(&self, connection: u64) -> bool {
        self.0.is_proven_on(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(6);

    fn proven(sent: u64) -> Term {
        let term = Term::new(TIMEOUT, 1);
        term.prove(BootInstant(sent), 1);
        term
    }

    #[test]
    fn a_term_does_not_run_without_a_proof() {
        assert!(!Term::new(TIMEOUT, 1).runs());
    }

    #[test]
    fn a_term_is_half_the_time_out_from_the_sending() {
        let term = proven(1_000_000_000);
        assert_eq!(term.left_at(BootInstant(1_000_000_000)), Duration::from_secs(3));
        assert_eq!(term.left_at(BootInstant(3_999_999_999)), Duration::from_nanos(1));
        assert_eq!(term.left_at(BootInstant(4_000_000_000)), Duration::ZERO);
        assert_eq!(
            [999, 3_999_999_999, 4_000_000_000].map(|now| term.runs_at(BootInstant(now))),
            [true, true, false]
        );
    }

    #[test]
    fn an_older_proof_that_comes_late_does_not_shorten_a_term() {
        let term = proven(2_000_000_000);
        term.prove(BootInstant(1_000_000_000), 1);
        assert_eq!(term.left_at(BootInstant(2_000_000_000)), Duration::from_secs(3));
    }

    /// Sixteenths of the time-out.
    fn sixteenths(count: u32) -> Duration {
        TIMEOUT / 16 * count
    }

    /// From when a write counts that is sent at `sent`, if requests were sent and answered before at these moments, and
    /// the handshake so long before the first of them that it does not matter. All are sixteenths of the time-out.
    fn counts(requests: &[(u32, u32)], sent: u32) -> BootInstant {
        let moment = |count| BootInstant(0).after(sixteenths(count));
        let heard = LastContact::default();
        let scribe = heard.greeted(moment(0).0, TIMEOUT);
        for (sent, answered) in requests {
            scribe.answered(moment(*sent).0, moment(*answered).0);
        }
        let term = Term::new(TIMEOUT, 1).with(heard);
        term.prove(moment(sent), 1);
        assert_eq!(term.answered.load(Ordering::Acquire), moment(sent).0);
        BootInstant(term.proof.load(Ordering::Acquire))
    }

    fn at(count: u32) -> BootInstant {
        BootInstant(0).after(sixteenths(count))
    }

    #[test]
    fn a_write_counts_from_its_sending_while_requests_come_in_time() {
        // What the client crate does without any requests: it pings after a fifth of the time-out at most.
        assert_eq!(counts(&[(90, 91), (93, 94), (96, 97)], 99), at(99));
        assert_eq!(counts(&[(93, 94), (96, 97)], 100), at(100));
    }

    #[test]
    fn after_a_pause_a_write_counts_from_what_the_leader_has_heard() {
        assert_eq!(counts(&[(90, 91)], 97), at(97));
        assert_eq!(counts(&[(90, 91)], 98), at(97));
        assert_eq!(counts(&[(90, 91)], 105), at(97));
    }

    #[test]
    fn what_was_answered_a_moment_before_a_write_may_not_have_been_reported() {
        assert_eq!(counts(&[(90, 91), (104, 105)], 106), at(97));
        assert_eq!(counts(&[(90, 91), (104, 105)], 107), at(97));
        assert_eq!(counts(&[(90, 91), (104, 105)], 108), at(108));
    }

    #[test]
    fn what_was_sent_before_a_pause_and_answered_after_it_counts_as_sent_before() {
        assert_eq!(counts(&[(90, 105)], 108), at(97));
    }

    #[test]
    fn a_handshake_counts_at_once() {
        assert_eq!(counts(&[], 0), at(0));
        assert_eq!(counts(&[], 7), at(7));
        assert_eq!(counts(&[], 8), at(7));
    }

    #[test]
    fn no_term_is_longer_than_the_session_is_certain() {
        // Whatever was asked when: the server has heard of it when it was answered, and tells the leader within half
        // a tick and half as much again.
        for (first, second, sent) in
            (0..20).flat_map(|a| (0..40).flat_map(move |b| (0..60).map(move |c| (a, b, c))))
        {
            if first + 1 > second || second >= sent {
                continue;
            }
            let heard = [(0, 0), (first, first + 1), (second, second + 2)];
            let reported = heard
                .iter()
                .filter(|(_, answered)| answered + 3 <= sent)
                .map(|(sent, _)| *sent)
                .max()
                .unwrap_or(0);
            let end = counts(&heard[1..], sent).after(TIMEOUT / 2);
            assert!(end <= at(reported + 15), "{heard:?}, {sent}");
            assert!(end <= at(sent + 8));
        }
    }

    #[test]
    fn the_age_of_a_proof_is_the_time_since_it_was_sent() {
        let term = Term::new(TIMEOUT, 1);
        assert_eq!(term.proof_age(), None);
        term.prove(BootInstant::now().before(TIMEOUT), 1);
        assert!(term.proof_age().is_some_and(|age| age >= TIMEOUT));
    }

    #[test]
    fn proofs_of_another_connection_are_not_fresh() {
        let term = Term::new(TIMEOUT, 1);
        assert!(!term.is_proven_on(1));
        term.prove(BootInstant::now(), 1);
        assert!(term.is_fresh(1) && term.is_proven_on(1));
        assert!(!term.is_fresh(2) && !term.is_proven_on(2));
    }

    #[test]
    fn a_proof_for_a_connection_that_is_lost_is_none() {
        let term = proven(1_000_000_000);
        term.moved(2);
        term.prove(BootInstant(2_000_000_000), 1);
        assert_eq!(term.left_at(BootInstant(2_000_000_000)), Duration::from_secs(2));
        assert!(!term.is_proven_on(2) && term.answered.load(Ordering::Acquire) < 2_000_000_000);
    }
}
