//! Decides when a queue lists or probes its directory again because the server has sent nothing
//! about it for some time. This is a safety net for missed watch events (rule 10).
//!
//! This module uses three private terms. A *look* is such a listing or probe. *News* is any watch
//! event or reply about the directory, except the replies to listings and probes, because these can
//! be the result of a look. A *doubt* is a create whose outcome is unknown: the server might still
//! carry it out, or might have done so already (rule 8).

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

use crate::queue::{Event, Ticket};
use crate::runtime::random;

/// Maximum time without news if one of our contenders is near the front of the queue. The queue
/// then looks, even if all its watches are set.
const NEAR_SILENCE: Duration = Duration::from_secs(20);

/// Maximum time without news if all our contenders are far from the front. It is longer than
/// [`NEAR_SILENCE`], to limit the load when many clients wait.
const FAR_SILENCE: Duration = Duration::from_secs(60);

/// Period over which the looks of many clients are spread, for example after they all reconnect.
const SPREAD: Duration = Duration::from_secs(10);

/// Interval between checks of the clock.
pub(in crate::driver) const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Time after which the server can no longer carry out an abandoned create. Rule 8 in
/// docs/protocol.md explains this value.
const DOUBT_TIME: Duration = Duration::from_secs(300);

/// The time since the server last sent news of one directory.
pub(in crate::driver) struct ResyncTimer {
    /// Time when the last news about the directory arrived.
    news: Instant,
    /// Time of the last look.
    looked: Instant,
    /// Random extra delay in seconds before the next look, if all our contenders are far from the
    /// front.
    delay: u8,
    /// Time of the look that follows a reconnection, in milliseconds after the last look. `None` if
    /// one of our contenders is near the front: the queue then lists the directory by itself.
    reconnected: Option<NonZeroU32>,
    /// The queue's current doubt and its start.
    doubt: Option<(Ticket, Instant)>,
}

/// The next step that is due.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::driver) enum Due {
    Nothing,
    Resync,
    /// The server can no longer carry out the create with this ticket, so its doubt ends.
    DoubtOver(Ticket),
}

impl ResyncTimer {
    pub(in crate::driver) fn new(now: Instant) -> Self {
        Self { news: now, looked: now, delay: 0, reconnected: None, doubt: None }
    }

    /// Records an event, if it is news. Events of the connection and the term are not news.
    pub(in crate::driver) fn on_event(&mut self, event: &Event, now: Instant) {
        let looks = matches!(event, Event::Listed(..) | Event::Probed(..));
        let asked = event.is_outcome() && !event.is_lost() && !looks;
        if asked || matches!(event, Event::Gone(_) | Event::Changed(_) | Event::Missing(_)) {
            self.news = now;
        }
        match event {
            Event::Connected => self.reconnected = Some(self.after_look(now + spread())),
            Event::Disconnected | Event::SessionLost => self.reconnected = None,
            _ => {}
        }
    }

    /// Returns the step that is due now. `doubt` is the ticket of a create with an unknown outcome.
    /// `near` is `true` if one of our contenders holds the lock or might hold it soon.
    pub(in crate::driver) fn due(&mut self, doubt: Option<Ticket>, near: bool, now: Instant) -> Due {
        if self.doubt.map(|(ticket, _)| ticket) != doubt {
            self.doubt = doubt.map(|ticket| (ticket, now));
        }
        if let Some((ticket, _)) = self.doubt.filter(|(_, since)| now - *since >= DOUBT_TIME) {
            return Due::DoubtOver(ticket);
        }
        // During a doubt, news does not postpone the next look, because no event reports that the
        // server has carried out the create.
        let since = if doubt.is_some() { self.looked } else { self.looked.max(self.news) };
        let often = near || doubt.is_some();
        let limit = if often { NEAR_SILENCE } else { FAR_SILENCE + Duration::from_secs(self.delay.into()) };
        let passed = self.after_look(now);
        let reconnected = self.reconnected.take_if(|at| often || *at <= passed).is_some_and(|_| !often);
        if now - since < limit && !reconnected {
            return Due::Nothing;
        }
        (self.looked, self.reconnected) = (now, None);
        self.delay = u8::try_from(spread().as_secs()).unwrap_or_default();
        Due::Resync
    }

    /// Returns the time from the last look to `moment` in milliseconds, plus one, because it must
    /// not be zero.
    fn after_look(&self, moment: Instant) -> NonZeroU32 {
        let millis = moment.saturating_duration_since(self.looked).as_millis();
        NonZeroU32::MIN.saturating_add(u32::try_from(millis).unwrap_or(u32::MAX))
    }
}

/// Returns a random part of the time over which looks are spread.
fn spread() -> Duration {
    SPREAD.mul_f64(random::fraction())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{JoinId, Outcome};

    /// Delivers these events every second. Returns the number of looks in the first five minutes,
    /// and the second at which the doubt ends.
    fn looks(heard: &[Event], doubt: Option<Ticket>) -> (usize, Option<u64>) {
        let began = Instant::now();
        let mut resync = ResyncTimer::new(began);
        let mut looks = 0;
        for second in 1..=600 {
            let now = began + Duration::from_secs(second);
            for event in heard {
                resync.on_event(event, now);
            }
            if second % CHECK_INTERVAL.as_secs() == 0 {
                match resync.due(doubt, true, now) {
                    Due::Nothing => {}
                    Due::Resync if second > 300 => return (looks, None),
                    Due::Resync => looks += 1,
                    Due::DoubtOver(_) => return (looks, Some(second)),
                }
            }
        }
        (looks, None)
    }

    #[test]
    fn a_silent_directory_is_looked_at_every_twenty_seconds_whatever_its_own_client_does() {
        let local = [
            Event::Leave(JoinId(1)),
            Event::TermEnded,
            Event::TermBegan,
            Event::Disconnected,
            Event::Connected,
            Event::Listed(Ticket(1), Outcome::Done(Vec::new())),
            Event::Probed(Ticket(1), Outcome::Done(Vec::new())),
            Event::Watched(Ticket(1), Outcome::Lost),
        ];
        assert_eq!(looks(&[], None), (15, None));
        assert_eq!(looks(&local, None), (15, None));
    }

    /// Returns the seconds of the looks if all our contenders are far from the front.
    fn far_looks(
        resync: &mut ResyncTimer,
        began: Instant,
        seconds: std::ops::RangeInclusive<u64>,
    ) -> Vec<u64> {
        let due = |second: &u64| {
            let now = began + Duration::from_secs(*second);
            second % CHECK_INTERVAL.as_secs() == 0 && resync.due(None, false, now) == Due::Resync
        };
        seconds.filter(due).collect()
    }

    #[test]
    fn a_far_waiter_looks_at_most_once_a_minute_and_not_together_with_others() {
        let began = Instant::now();
        let mut seconds = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let looks = far_looks(&mut ResyncTimer::new(began), began, 1..=3600);
            let pauses = looks.windows(2).map(|two| two[1] - two[0]);
            assert!(pauses.into_iter().all(|pause| (60..=75).contains(&pause)), "{looks:?}");
            seconds.extend(looks.get(5).copied());
        }
        assert!(seconds.len() > 1, "all twenty look at the same time: {seconds:?}");
    }

    #[test]
    fn a_far_waiter_looks_once_soon_after_a_reconnection_and_a_near_one_does_not() {
        let began = Instant::now();
        for near in [false, true] {
            let mut resync = ResyncTimer::new(began);
            resync.on_event(&Event::Disconnected, began + Duration::from_secs(1));
            resync.on_event(&Event::Connected, began + Duration::from_secs(2));
            if near {
                assert_eq!(resync.due(None, true, began + Duration::from_secs(3)), Due::Nothing);
            }
            let looks = far_looks(&mut resync, began, 5..=59);
            assert_eq!(looks.len(), usize::from(!near), "{looks:?}");
            assert!(looks.iter().all(|second| *second <= 2 + 10 + 5), "{looks:?}");
        }
    }

    #[test]
    fn while_connections_come_and_go_a_far_waiter_does_not_look() {
        let began = Instant::now();
        let mut resync = ResyncTimer::new(began);
        for second in 0..50 {
            let now = began + Duration::from_secs(second);
            resync.on_event(if second % 2 == 0 { &Event::Disconnected } else { &Event::Connected }, now);
        }
        resync.on_event(&Event::Disconnected, began + Duration::from_secs(50));
        assert_eq!(resync.due(None, false, began + Duration::from_secs(55)), Due::Nothing);
    }

    #[test]
    fn a_directory_of_which_the_server_speaks_is_left_alone() {
        for news in [Event::Gone(Ticket(1)), Event::Deleted(Ticket(1), Outcome::Done(()))] {
            assert_eq!(looks(&[news], None), (0, None));
        }
    }

    #[test]
    fn doubt_lasts_for_five_minutes_and_is_looked_into_meanwhile() {
        for heard in [&[][..], &[Event::Gone(Ticket(1))]] {
            let (looks, certain) = looks(heard, Some(Ticket(7)));
            // The doubt starts at the first call of `due`, after 5 s.
            assert_eq!((looks, certain), (15, Some(305)), "{heard:?}");
        }
    }
}
