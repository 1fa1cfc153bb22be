//! Pauses before the queue of a directory repeats requests that the server did not carry out.

use std::collections::HashMap;
use std::mem::Discriminant;

use tokio::time::Instant;

use crate::queue::Event;
use crate::runtime::backoff::Backoff;

/// The retry pauses of one directory. Boxed, because most directories have lost no request.
#[derive(Default)]
pub(in crate::driver) struct RetryBackoff(Option<Box<Losses>>);

struct Losses {
    /// The lost requests by kind. A request that succeeds removes the entry of its kind. The kinds
    /// are separate because, for example, a successful listing does not show that a create would
    /// succeed.
    lost: HashMap<Discriminant<Event>, LostRequests>,
    /// End of the current pause.
    until: Instant,
}

/// The losses of one kind of request.
#[derive(Default)]
struct LostRequests {
    backoff: Backoff,
    /// The connection with which the first requests were lost.
    connection_number: Option<u64>,
}

impl RetryBackoff {
    /// Forgets the losses of this kind of request if the event reports a success.
    pub(in crate::driver) fn on_event(&mut self, event: &Event) {
        let Some(losses) = &mut self.0 else { return };
        if event.is_outcome() && !event.is_lost() {
            losses.lost.remove(&std::mem::discriminant(event));
        }
    }

    /// Returns the time at which the queue receives the event that a request was lost, and then
    /// repeats the request. `None` means immediately. `connection_number` is the connection on
    /// which the request was sent. `connected` is `true` if that connection is still up.
    ///
    /// If the connection was lost too, it is probably the cause, so there is no pause. If the next
    /// request of this kind is lost together with another connection, the request itself might be
    /// the cause, so there is a pause.
    ///
    /// A pause can delay other clients: if a create was lost, the contender searches for its node
    /// only after the pause.
    pub(in crate::driver) fn after(
        &mut self,
        event: &Event,
        connection_number: u64,
        connected: bool,
        now: Instant,
    ) -> Option<Instant> {
        if !event.is_lost() {
            return None;
        }
        let kind = std::mem::discriminant(event);
        let all = self.0.get_or_insert_with(|| Box::new(Losses { lost: HashMap::new(), until: now }));
        let first = !all.lost.contains_key(&kind);
        let losses = all.lost.entry(kind).or_default();
        if !connected {
            if first {
                losses.connection_number = Some(connection_number);
            }
            if losses.connection_number == Some(connection_number) {
                return None;
            }
        }
        if all.until <= now {
            all.until = now + losses.backoff.pause();
        }
        Some(all.until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::queue::{Outcome, Ticket};

    const TICKET: Ticket = Ticket(1);
    const CREATE: Event = Event::Created(TICKET, Outcome::Lost);
    const LISTING: Event = Event::Listed(TICKET, Outcome::Lost);

    /// Simulates that the request of `event` is lost `count` times. Returns the pause after each
    /// loss. In between, only requests of another kind succeed.
    fn pauses(event: &Event, connected: bool, count: usize) -> Vec<Option<Duration>> {
        let mut now = Instant::now();
        let mut pauses = RetryBackoff::default();
        let mut connection_number = 0;
        let mut lose = || {
            connection_number += u64::from(!connected);
            let until = pauses.after(event, connection_number, connected, now);
            let pause = until.map(|until| until - now);
            now = until.unwrap_or(now);
            pauses.on_event(event);
            pauses.on_event(&Event::Verified(TICKET, Outcome::NoNode));
            pause
        };
        std::iter::repeat_with(&mut lose).take(count).collect()
    }

    #[test]
    fn what_fails_while_others_succeed_is_repeated_less_and_less_often() {
        for event in [&CREATE, &LISTING] {
            let pauses = pauses(event, true, 9);
            assert!(pauses[8] > pauses[0].map(|first| first * 4), "{pauses:?}");
        }
    }

    #[test]
    fn a_request_that_was_lost_with_its_connection_is_repeated_at_once_but_only_once() {
        let pauses = pauses(&CREATE, false, 9);
        assert_eq!(pauses[0], None);
        assert!(pauses[8] > pauses[1].map(|first| first * 4), "{pauses:?}");
    }

    #[test]
    fn success_forgets_the_failures_of_its_kind() {
        let now = Instant::now();
        let mut pauses = RetryBackoff::default();
        assert_eq!(pauses.after(&CREATE, 1, false, now), None);
        pauses.on_event(&Event::Listed(TICKET, Outcome::NoNode));
        assert!(pauses.after(&CREATE, 2, false, now).is_some());
        pauses.on_event(&Event::Created(TICKET, Outcome::NoNode));
        assert_eq!(pauses.after(&CREATE, 3, false, now), None);
        assert_eq!(pauses.after(&Event::Created(TICKET, Outcome::NoNode), 3, true, now), None);
    }

    #[test]
    fn what_was_lost_with_one_connection_is_repeated_together() {
        let now = Instant::now();
        let mut pauses = RetryBackoff::default();
        for _ in 0..3 {
            assert_eq!(pauses.after(&CREATE, 1, false, now), None);
        }
        let together =
            [2, 2, 2].map(|connection_number| pauses.after(&CREATE, connection_number, false, now));
        assert!(together[0].is_some() && together == [together[0]; 3], "{together:?}");
    }

    #[test]
    fn what_was_in_flight_together_pauses_together() {
        let now = Instant::now();
        let mut pauses = RetryBackoff::default();
        assert_eq!(pauses.after(&CREATE, 1, true, now), pauses.after(&LISTING, 1, true, now));
    }
}
