//! Records when the client sent the requests that the server has received for certain. From these
//! times, the client computes the session's term: the time for which the session is certain to be
//! alive (`docs/safety.md`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of requests that are remembered for each connection.
const MAX_MARKS: usize = 32;

/// The client remembers at most one request in each 1/32 of the session timeout, so [`MAX_MARKS`]
/// requests cover the whole timeout.
const PARTS: u32 = 32;

/// The evidence of contact between the client and the server of its current connection: the
/// handshake, and the requests that the server has replied to.
///
/// Times are in nanoseconds of the clock that the settings use. Clones share the same data.
#[derive(Clone, Debug, Default)]
pub struct LastContact(Arc<Mutex<Connections>>);

#[derive(Debug, Default)]
struct Connections {
    /// Number of connections so far.
    count: u64,
    current: Option<ConnectionContact>,
}

/// The evidence from one connection.
#[derive(Debug)]
struct ConnectionContact {
    /// Time at which the handshake was sent.
    greeted: u64,
    /// Minimum time between two remembered requests. Requests in between are not remembered.
    spacing: u64,
    /// Ring buffer of requests with replies, in the order in which they were sent. `newest` is the
    /// index of the last one. Neither `sent` nor `answered` ever decreases from one request to the
    /// next.
    marks: [Mark; MAX_MARKS],
    newest: usize,
}

/// A request that received a reply.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    sent: u64,
    answered: u64,
}

/// Records the requests of one connection. Ignores them if the client has a newer connection.
#[derive(Debug)]
pub struct ContactRecorder {
    heard: LastContact,
    number: u64,
}

impl LastContact {
    /// Returns the send time of the latest request that the server of the current connection has
    /// certainly received by `moment`.
    ///
    /// The handshake counts even if its reply arrived after `moment`, because the leader itself
    /// receives the handshake. The leader learns of other requests only when the server reports the
    /// session.
    ///
    /// Returns `None` if no connection of this transport had a session yet. The actual time can be
    /// up to 1/32 of the session timeout later, because not every request is remembered.
    #[must_use]
    pub fn by(&self, moment: u64) -> Option<u64> {
        Some(self.connections().current.as_ref()?.by(moment))
    }

    /// Records that a server granted a session with this timeout on a new connection, whose
    /// handshake was sent at `sent`.
    #[must_use]
    pub fn greeted(&self, sent: u64, timeout: Duration) -> ContactRecorder {
        let mut connections = self.connections();
        connections.count += 1;
        connections.current = Some(ConnectionContact::new(sent, timeout));
        ContactRecorder { heard: self.clone(), number: connections.count }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContactRecorder {
    /// Records that the reply to the request sent at `sent` had arrived by `now`.
    pub fn answered(&self, sent: u64, now: u64) {
        let mut connections = self.heard.connections();
        // Evidence from an earlier connection is ignored, because it says nothing about the current
        // one.
        let is_current = connections.count == self.number;
        if let Some(contact) = connections.current.as_mut().filter(|_| is_current) {
            contact.answered(sent, now);
        }
    }
}

impl ConnectionContact {
    fn new(greeted: u64, timeout: Duration) -> Self {
        let spacing = u64::try_from((timeout / PARTS).as_nanos()).unwrap_or(u64::MAX);
        Self { greeted, spacing, marks: [Mark::default(); MAX_MARKS], newest: 0 }
    }

    fn answered(&mut self, sent: u64, answered: u64) {
        if sent >= self.marks[self.newest].sent.max(self.greeted).saturating_add(self.spacing) {
            self.newest = (self.newest + 1) % MAX_MARKS;
            self.marks[self.newest] = Mark { sent, answered };
        }
    }

    fn by(&self, moment: u64) -> u64 {
        let (later, earlier) = self.marks.split_at(self.newest + 1);
        let newest_first = later.iter().rev().chain(earlier.iter().rev());
        let heard = newest_first.copied().find(|mark| mark.answered <= moment);
        heard.map_or(self.greeted, |mark| mark.sent.max(self.greeted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_nanos(3_200);

    fn greeted(sent: u64) -> (LastContact, ContactRecorder) {
        let heard = LastContact::default();
        let recorder = heard.greeted(sent, TIMEOUT);
        (heard, recorder)
    }

    #[test]
    fn nothing_is_known_without_a_connection() {
        assert_eq!(LastContact::default().by(u64::MAX), None);
    }

    #[test]
    fn a_handshake_counts_at_once_and_a_request_from_its_answer_on() {
        let (heard, recorder) = greeted(1_000);
        assert_eq!(heard.by(0), Some(1_000));
        recorder.answered(2_000, 5_000);
        assert_eq!(heard.by(4_999), Some(1_000));
        assert_eq!(heard.by(5_000), Some(2_000));
    }

    #[test]
    fn the_last_request_counts_that_was_answered_in_time() {
        let (heard, recorder) = greeted(0);
        for number in 1..=20 {
            recorder.answered(number * 1_000, number * 1_000 + 300);
        }
        assert_eq!(heard.by(15_299), Some(14_000));
        assert_eq!(heard.by(15_300), Some(15_000));
        assert_eq!(heard.by(u64::MAX), Some(20_000));
    }

    #[test]
    fn of_many_requests_some_are_remembered_for_as_long_as_they_matter() {
        let (heard, recorder) = greeted(0);
        for sent in 1..=100_000 {
            recorder.answered(sent, sent + 10);
        }
        let whole = 3_200 - 200;
        for moment in (100_000 - whole)..=100_000 {
            let by = heard.by(moment).unwrap();
            assert!(by + 10 <= moment && by + 110 >= moment, "{by} by {moment}");
        }
        // Requests older than the remembered ones are no evidence.
        assert_eq!(heard.by(90_000), Some(0));
    }

    #[test]
    fn an_answer_that_was_long_under_way_does_not_hide_the_one_behind_it() {
        let (heard, recorder) = greeted(0);
        recorder.answered(1_000, 9_000);
        recorder.answered(8_995, 9_001);
        assert_eq!(heard.by(9_000), Some(1_000));
        assert_eq!(heard.by(9_001), Some(8_995));
    }

    #[test]
    fn a_new_connection_begins_anew_and_the_last_one_has_nothing_more_to_say() {
        let (heard, old) = greeted(1_000);
        old.answered(2_000, 2_500);
        let new = heard.greeted(10_000, TIMEOUT);
        old.answered(3_000, 11_000);
        assert_eq!(heard.by(11_500), Some(10_000));
        new.answered(11_000, 11_200);
        assert_eq!(heard.by(11_500), Some(11_000));
    }
}
