//! The driver's clockwork: one sleep for all its alarms.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::driver::mailbox::DirectoryId;
use crate::lease::hold::HoldId;
use crate::queue::{Event, JoinId, NodeName};

/// A hold that lasts longer than this gets a watch on its own node; shorter ones pay nothing for it (rule 12).
const LONG_HOLD: Duration = Duration::from_millis(200);

/// What is due. The receiver checks whether it still matters: an alarm may be cancelled too late.
#[derive(Clone, Debug)]
pub(super) enum Alarm {
    /// The caller's time is up.
    Deadline(DirectoryId, JoinId),
    /// The caller's time will soon be up: a deadlock may be the reason.
    DeadlineNears(DirectoryId, JoinId),
    /// The client's time to reach a server is up, for this contender.
    Unreachable(DirectoryId, JoinId),
    /// The client's time to reach a server is up, for callers that wait for just that.
    Connect,
    /// An event that was held back is delivered.
    Tell(DirectoryId, Event),
    /// The caller that released this node's hold waits no longer.
    Released(DirectoryId, NodeName),
    /// The hold through this node has lasted for long.
    LongHold(DirectoryId, NodeName),
    /// This hold has lasted for as long as it may.
    HeldTooLong(DirectoryId, HoldId),
    /// The hold through this node has only its grace left of the term, unless the term was extended.
    GraceBegins(DirectoryId, NodeName),
    /// The term of the hold through this node, which was lost, is over: its grace ends.
    GraceEnds(DirectoryId, NodeName),
    /// This node is not kept any longer while nobody holds through it.
    KeepingEnds(DirectoryId, NodeName),
    /// A client that was to close when it holds nothing any more closes now.
    Drained,
    /// The heartbeat is due.
    Beat,
    /// The session's term has ended, unless it was extended.
    TermEnd,
    /// The session is given up, unless it has answered.
    Surrender,
    /// A queue that cannot watch polls.
    Poll(DirectoryId),
    /// It is time to look for silent queues.
    LookAgain,
}

/// Names an alarm that was set. The number distinguishes alarms set for the same instant.
pub(super) type AlarmKey = (Instant, u64);

/// The alarms of something that seldom has any: a waiter, or a hold. They take no room until one is set.
#[derive(Debug, Default)]
pub(super) struct RareAlarms(Option<Box<[Option<AlarmKey>; 2]>>);

impl RareAlarms {
    /// Remembers an alarm, in the place of an earlier one there that is over.
    pub(super) fn set(&mut self, place: usize, key: AlarmKey) {
        self.0.get_or_insert_default()[place] = Some(key);
    }

    /// Forgets an alarm.
    pub(super) fn take(&mut self, place: usize) -> Option<AlarmKey> {
        self.0.as_mut()?[place].take()
    }

    /// Whether an alarm was set.
    pub(super) fn has(&self, place: usize) -> bool {
        self.0.as_ref().is_some_and(|keys| keys[place].is_some())
    }

    /// The alarms that were set, to be cancelled.
    pub(super) fn keys(&self) -> impl Iterator<Item = &AlarmKey> {
        self.0.iter().flat_map(|keys| keys.iter().flatten())
    }
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    alarms: BTreeMap<AlarmKey, Alarm>,
    count: u64,
    /// When holds are long, in order, for it is the same time for all: no alarm has to be found again when one is short.
    long_holds: VecDeque<(Instant, DirectoryId, NodeName)>,
    /// Sleeps until the first of all these, or until an earlier one that was cancelled.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timers {
    pub(super) fn set(&mut self, at: Instant, alarm: Alarm) -> AlarmKey {
        self.count += 1;
        let key = (at, self.count);
        self.alarms.insert(key, alarm);
        key
    }

    /// Cancels alarms: a time-out of an hour must not be remembered for an hour when the lock came at once.
    pub(super) fn cancel<'a>(&mut self, keys: impl IntoIterator<Item = &'a AlarmKey>) {
        for key in keys {
            self.alarms.remove(key);
        }
    }

    /// A hold through this node begins.
    pub(super) fn hold_begins(&mut self, directory: DirectoryId, node: &NodeName) {
        self.long_holds.push_back((Instant::now() + LONG_HOLD, directory, node.clone()));
    }

    /// The hold through this node is over. Between others it is passed over when its time comes, which is soon.
    pub(super) fn hold_ends(&mut self, node: &NodeName) {
        if self.long_holds.front().is_some_and(|(_, _, first)| first == node) {
            self.long_holds.pop_front();
        } else if self.long_holds.back().is_some_and(|(_, _, last)| last == node) {
            self.long_holds.pop_back();
        }
    }

    /// When the first alarm is due.
    fn first(&self) -> Option<Instant> {
        let alarm = self.alarms.first_key_value().map(|((at, _), _)| *at);
        let long = self.long_holds.front().map(|(at, ..)| *at);
        alarm.into_iter().chain(long).min()
    }

    /// How many alarms are set.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.alarms.len() + self.long_holds.len()
    }

    /// Waits until an alarm is due. Cancel safe.
    pub(super) async fn next(&mut self) {
        poll_fn(|cx| self.poll_next(cx)).await;
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(first) = self.first() else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(first)));
        // The runtime's clockwork is set anew only if it must be: alarms are set and cancelled far more often than one is
        // due, and most are later than others.
        if first < sleep.deadline() {
            sleep.as_mut().reset(first);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() == first {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(first);
        }
    }

    /// The next alarm that is due.
    pub(super) fn due(&mut self) -> Option<Alarm> {
        let now = Instant::now();
        if self.long_holds.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, directory, node) = self.long_holds.pop_front()?;
            return Some(Alarm::LongHold(directory, node));
        }
        let first = self.alarms.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn node(number: u64) -> NodeName {
        NodeName::parse(&format!("lock-{number:010}")).expect("a node's name")
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_goes_off_at_its_time_whatever_was_set_and_cancelled_before() {
        let (mut timers, began) = (Timers::default(), Instant::now());
        let early = timers.set(began + seconds(1), Alarm::Beat);
        timers.set(began + seconds(3), Alarm::TermEnd);
        let waited = tokio::time::timeout(seconds(0), timers.next()).await;
        assert!(waited.is_err());
        timers.cancel(&[early]);
        timers.next().await;
        assert_eq!(began.elapsed(), seconds(3));
        assert!(matches!(timers.due(), Some(Alarm::TermEnd)) && timers.due().is_none());
        // One that is set while it waits for another goes off before that.
        timers.set(began + seconds(9), Alarm::TermEnd);
        assert!(tokio::time::timeout(seconds(1), timers.next()).await.is_err());
        timers.set(began + seconds(5), Alarm::Beat);
        timers.next().await;
        assert_eq!(began.elapsed(), seconds(5));
        assert!(matches!(timers.due(), Some(Alarm::Beat)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_long_after_a_while_unless_it_is_over() {
        let mut timers = Timers::default();
        for number in 1..=5 {
            timers.hold_begins(DirectoryId::default(), &node(number));
        }
        // One between, while it is neither the first nor the last; the first, and the last.
        for number in [3, 1, 5] {
            timers.hold_ends(&node(number));
        }
        assert_eq!(timers.len(), 3);
        timers.next().await;
        let long: Vec<_> = std::iter::from_fn(|| timers.due()).collect();
        let nodes = long.iter().map(|alarm| match alarm {
            Alarm::LongHold(_, node) => node.sequence(),
            other => panic!("{other:?}"),
        });
        assert_eq!(nodes.collect::<Vec<_>>(), [2, 3, 4]);
    }
}
