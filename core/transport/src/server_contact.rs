//! What the server of a connection is certain to have heard, and since when: what a term has to know of the requests
//! that came before its proof (`docs/safety.md`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many requests are remembered of a connection.
const REMEMBERED: usize = 32;

/// One request is remembered for each such part of the session's time-out: together they reach back for the whole of it.
const PARTS: u32 = 32;

/// When the server of the current connection heard of the client: the handshake, and requests that it has answered.
///
/// Moments are those of the clock that the settings were made with, in nanoseconds. Clones are views of the same.
#[derive(Clone, Debug, Default)]
pub struct LastContact(Arc<Mutex<Connections>>);

#[derive(Debug, Default)]
struct Connections {
    /// How many there have been.
    count: u64,
    current: Option<Signs>,
}

/// What is known of one connection.
#[derive(Debug)]
struct Signs {
    /// When the handshake was sent.
    greeted: u64,
    /// Of two requests that were sent within this time only the first is remembered.
    spacing: u64,
    /// Answered requests, those last sent at `newest`, in a ring. Both moments of a mark are as late as its predecessor's
    /// at least.
    marks: [Mark; REMEMBERED],
    newest: usize,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    sent: u64,
    answered: u64,
}

/// The right to note what one connection heard.
#[derive(Debug)]
pub struct ContactRecorder {
    heard: LastContact,
    number: u64,
}

impl LastContact {
    /// The latest moment of which this is certain: what was sent then on the current connection, its server had heard by
    /// `moment`. The handshake counts also when it was answered later: it is not this server that keeps it in mind.
    ///
    /// `None` if no connection of this transport has had a session yet. A request may be passed over in favour of one that
    /// was sent up to a thirty-second of the session's time-out earlier.
    #[must_use]
    pub fn by(&self, moment: u64) -> Option<u64> {
        Some(self.connections().current.as_ref()?.by(moment))
    }

    /// A server has a session with this time-out on a new connection, on which the handshake was sent at that moment.
    #[must_use]
    pub fn greeted(&self, sent: u64, timeout: Duration) -> ContactRecorder {
        let mut connections = self.connections();
        connections.count += 1;
        connections.current = Some(Signs::new(sent, timeout));
        ContactRecorder { heard: self.clone(), number: connections.count }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContactRecorder {
    /// A request that was sent at one moment is known, at another, to be answered.
    pub fn answered(&self, sent: u64, now: u64) {
        let mut connections = self.heard.connections();
        // What a connection says that there was before is of no use any more.
        let is_current = connections.count == self.number;
        if let Some(signs) = connections.current.as_mut().filter(|_| is_current) {
            signs.answered(sent, now);
        }
    }
}

impl Signs {
    fn new(greeted: u64, timeout: Duration) -> Self {
        let spacing = u64::try_from((timeout / PARTS).as_nanos()).unwrap_or(u64::MAX);
        Self { greeted, spacing, marks: [Mark::default(); REMEMBERED], newest: 0 }
    }

    fn answered(&mut self, sent: u64, answered: u64) {
        if sent >= self.marks[self.newest].sent.max(self.greeted).saturating_add(self.spacing) {
            self.newest = (self.newest + 1) % REMEMBERED;
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
        // Of what was forgotten nothing is claimed.
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
