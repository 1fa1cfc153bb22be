//! The term of a session: the time for which the session certainly exists, even if no server
//! replies any more.

use std::sync::atomic::Ordering;
use std::time::Duration;

use zklock_transport::LastContact;

use crate::runtime::clock::BootInstant;
use crate::runtime::sync::AtomicU64;

/// The term of one session.
///
/// The term ends half a session timeout after the last *proof*, which is a write that a server has
/// acknowledged. The half timeout begins when that write was sent, or earlier (see below).
///
/// Only a write is a proof, because a server that is cut off from its leader still answers reads,
/// pings and syncs, even for a session that the leader has ended. A write is acknowledged only
/// after the leader has processed it.
///
/// The term is only half the timeout, because the leader learns with a delay of half a tick or more
/// that a session is alive.
///
/// A write does not always count from the time when it was sent. If another server forwards a
/// write, the leader does not treat the write as a message from the client. Instead, that server
/// reports to the leader, every half tick, which clients have sent messages. The leader measures a
/// session's timeout from these reports. After a long pause of the client, the last report about
/// the client can be from before the pause. The leader can then commit the client's first write and
/// end the session a moment later. Therefore, the half timeout begins at most
/// [`reach`](Self::reach) after the last request that was certainly reported to the leader.
#[derive(Debug, Default)]
pub(crate) struct Term {
    length: Duration,
    /// Times at which the session's server heard from the client.
    heard: LastContact,
    /// Time at which the half timeout of the last proof begins. Zero before the first proof.
    proof: AtomicU64,
    /// Time when the write of the last proof was sent. This can be later than `proof`.
    answered: AtomicU64,
    /// Number of the session's current connection.
    connection: AtomicU64,
    /// Number of the connection on which the last proof arrived, or `u64::MAX` before the first
    /// proof. A proof is an acknowledged write.
    proven: AtomicU64,
}

impl Term {
    /// Creates the term of a session with this timeout, on this connection. The term begins with
    /// the first acknowledged write.
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

    /// Sets the record of the times at which the server received requests from the client.
    pub(crate) fn with(self, heard: LastContact) -> Self {
        Self { heard, ..self }
    }

    /// Notes that the session continues on another connection.
    pub(crate) fn moved(&self, connection: u64) {
        self.connection.store(connection, Ordering::Release);
    }

    /// Records that a write is acknowledged. It was sent at time `sent` on `connection`.
    ///
    /// If `connection` is no longer current, the write proves nothing. The client crate sends
    /// pending requests again on a new connection, before the client has checked which session the
    /// new connection belongs to.
    pub(crate) fn prove(&self, sent: BootInstant, connection: u64) {
        if self.connection.load(Ordering::Acquire) == connection {
            self.proof.fetch_max(self.counts_from(sent).0, Ordering::Release);
            self.answered.fetch_max(sent.0, Ordering::Release);
            self.proven.store(connection, Ordering::Release);
        }
    }

    /// Returns the time from which the term counts if a write that was sent at `sent` is
    /// acknowledged.
    fn counts_from(&self, sent: BootInstant) -> BootInstant {
        match self.heard.by(sent.before(self.report_delay()).0) {
            Some(heard) => sent.min(BootInstant(heard).after(self.reach())),
            // The program uses another transport, which keeps no such record.
            None => sent,
        }
    }

    /// Time after which a request has certainly been reported to the leader.
    ///
    /// If a server received a request at least this long before it forwards a write, its report
    /// reached the leader before the write. With a session timeout of four ticks, this time is
    /// three quarters of a tick: half a tick until the report, and a quarter of a tick because the
    /// report can be late.
    fn report_delay(&self) -> Duration {
        self.length * 2 * 3 / 16
    }

    /// Maximum time between the last request that was certainly reported to the leader and the time
    /// from which a write counts.
    ///
    /// With this limit, the term ends at least a sixteenth of the session timeout before the
    /// session can end. The client crate sends requests and pings so often that the last reported
    /// request is normally not older than the report delay plus a fifth of the timeout. The limit
    /// adds a twentieth of the timeout to leave room for round trips.
    fn reach(&self) -> Duration {
        self.length * 2 * 7 / 16
    }

    /// Returns the time since the last acknowledged write was sent, or `None` if there is none yet.
    pub(crate) fn proof_age(&self) -> Option<Duration> {
        match self.answered.load(Ordering::Acquire) {
            0 => None,
            answered => Some(BootInstant::now().since(BootInstant(answered))),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.left_at(BootInstant::now())
    }

    /// Returns the time left in the term at `now`.
    pub(crate) fn left_at(&self, now: BootInstant) -> Duration {
        match self.proof.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            proof => self.length.saturating_sub(now.since(BootInstant(proof))),
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.runs_at(BootInstant::now())
    }

    /// Returns `true` if the term has not ended at this time. Every re-entry calls this function,
    /// so it does not compute the remaining time.
    pub(crate) fn runs_at(&self, now: BootInstant) -> bool {
        match self.proof.load(Ordering::Acquire) {
            0 => false,
            proof => now < BootInstant(proof).after(self.length),
        }
    }

    /// Returns the interval between writes that extend the term. It is so short that two of these
    /// writes can fail before the term ends.
    pub(crate) fn interval(&self) -> Duration {
        self.length / 3
    }

    /// Returns the session timeout that the server granted.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.length * 2
    }

    /// Returns the time until the next proof is due, if this time is left in the term.
    pub(crate) fn due_in(&self, remaining: Duration) -> Duration {
        remaining.saturating_sub(self.interval() * 2)
    }

    /// Returns the time after which the client gives up a session if no write is acknowledged. The
    /// client crate gives up a session after the same time without a connection.
    pub(crate) fn give_up_after(&self) -> Duration {
        self.length * 2 * 7 / 5
    }

    /// Returns `true` if the last proof arrived on this connection.
    pub(crate) fn is_proven_on(&self, connection: u64) -> bool {
        self.proven.load(Ordering::Acquire) == connection
    }

    /// Returns `true` if the last acknowledged write arrived on this connection and more than one
    /// [`interval`](Self::interval) of the term is left.
    pub(crate) fn is_fresh_at(&self, now: BootInstant, connection: u64) -> bool {
        self.is_proven_on(connection) && self.left_at(now) > self.interval()
    }
}

/// A term that receives the current time from its caller, in nanoseconds. The model in the tests
/// uses it, because the model simulates time.
#[derive(Debug)]
pub struct ModelTerm(Term);

impl ModelTerm {
    /// Creates the term of a session with this timeout, on this connection. The term begins with
    /// the first acknowledged write.
    #[must_use]
    pub fn new(session_timeout: Duration, connection: u64) -> Self {
        Self(Term::new(session_timeout, connection))
    }

    /// Notes that the session continues on another connection.
    pub fn moved(&self, connection: u64) {
        self.0.moved(connection);
    }

    /// Records that a write is acknowledged. It was sent at time `sent` on `connection`.
    pub fn prove(&self, sent: u64, connection: u64) {
        self.0.prove(BootInstant(sent), connection);
    }

    /// Returns `true` if the term runs at `now`.
    #[must_use]
    pub fn runs_at(&self, now: u64) -> bool {
        self.0.runs_at(BootInstant(now))
    }

    /// Returns `true` if proofs arrive on time on this connection.
    #[must_use]
    pub fn is_fresh_at(&self, now: u64, connection: u64) -> bool {
        self.0.is_fresh_at(BootInstant(now), connection)
    }

    /// Returns `true` if the last proof arrived on this connection.
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

    /// Returns this many sixteenths of the session timeout.
    fn sixteenths(count: u32) -> Duration {
        TIMEOUT / 16 * count
    }

    /// Returns the time from which the term counts if a write is sent at `sent`.
    ///
    /// `requests` are earlier requests: for each, the times when it was sent and answered. The
    /// connection's handshake is so much earlier that it has no effect. All times are in sixteenths
    /// of the session timeout.
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
        // Without other requests, the client crate sends a ping after at most a fifth of the
        // session timeout.
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
        // Try all request times. When a server replies to a request, it has certainly received the
        // request. It reports the request to the leader within three quarters of a tick.
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
        assert!(term.is_fresh_at(BootInstant::now(), 1) && term.is_proven_on(1));
        assert!(!term.is_fresh_at(BootInstant::now(), 2) && !term.is_proven_on(2));
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
