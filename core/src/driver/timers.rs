//! The driver's alarms, which share one timer of the runtime.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::driver::mailbox::DirectoryId;
use crate::lease::hold::HoldId;
use crate::queue::{Event, JoinId, NodeName};

/// Age at which a hold becomes long. The driver then sets a watch on the hold's node. Shorter holds
/// need no watch (rule 12).
const LONG_HOLD: Duration = Duration::from_millis(200);

/// An alarm of the driver. An alarm can still fire after it was canceled, so its handler must check
/// whether it still applies.
#[derive(Clone, Debug)]
pub(super) enum Alarm {
    /// A waiter's deadline has passed.
    Deadline(DirectoryId, JoinId),
    /// A waiter's deadline is near. The driver then starts a search for a deadlock.
    DeadlineNears(DirectoryId, JoinId),
    /// This contender has not reached a server within the connect timeout.
    Unreachable(DirectoryId, JoinId),
    /// A caller of `ready` has not reached a server within the connect timeout.
    Connect,
    /// Deliver a delayed event.
    DeliverEvent(DirectoryId, Event),
    /// The caller that released this node's hold stops waiting.
    Released(DirectoryId, NodeName),
    /// The hold on this node has lasted for long.
    LongHold(DirectoryId, NodeName),
    /// This hold has reached its maximum time.
    HeldTooLong(DirectoryId, HoldId),
    /// The grace of the hold on this node begins, unless the term was extended.
    GraceBegins(DirectoryId, NodeName),
    /// The term of this node's lost hold is over, so its grace ends.
    GraceEnds(DirectoryId, NodeName),
    /// This node is no longer kept without a hold.
    KeepingEnds(DirectoryId, NodeName),
    /// A draining client must close now.
    Drained,
    /// The heartbeat is due.
    Heartbeat,
    /// The session's term has ended, unless it was extended.
    TermEnd,
    /// The session must be given up, unless the server has answered.
    GiveUpSession,
    /// Poll for a queue whose watches do not fit in the watch budget.
    Poll(DirectoryId),
    /// It is time to look for silent queues.
    ResyncSilent,
}

/// Identifies an alarm. The number distinguishes alarms for the same instant.
pub(super) type AlarmKey = (Instant, u64);

/// The alarms of a waiter or a hold. Most waiters and holds have none, so the alarms take no memory
/// until one is set.
#[derive(Debug, Default)]
pub(super) struct RareAlarms(Option<Box<[Option<AlarmKey>; 2]>>);

impl RareAlarms {
    /// Stores an alarm. An earlier alarm at this index must be over.
    pub(super) fn set(&mut self, place: usize, key: AlarmKey) {
        self.0.get_or_insert_default()[place] = Some(key);
    }

    /// Removes an alarm and returns it.
    pub(super) fn take(&mut self, place: usize) -> Option<AlarmKey> {
        self.0.as_mut()?[place].take()
    }

    /// Returns `true` if an alarm is stored.
    pub(super) fn has(&self, place: usize) -> bool {
        self.0.as_ref().is_some_and(|keys| keys[place].is_some())
    }

    /// Returns the stored alarms, to be canceled.
    pub(super) fn keys(&self) -> impl Iterator<Item = &AlarmKey> {
        self.0.iter().flat_map(|keys| keys.iter().flatten())
    }
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    alarms: BTreeMap<AlarmKey, Alarm>,
    count: u64,
    /// The holds that are not long yet, each with the time at which it becomes long. [`LONG_HOLD`]
    /// is the same for all holds, so the entries are in the order of these times. The entry of a
    /// short hold is usually the first or the last.
    long_holds: VecDeque<(Instant, DirectoryId, NodeName)>,
    /// The runtime's timer for the earliest alarm. It fires too early if that alarm was canceled.
    sleep: Option<Pin<Box<Sleep>>>,
    /// The waker that the runtime's timer wakes, or `None` if it has not been polled since its last
    /// reset.
    waker: Option<Waker>,
}

impl Timers {
    pub(super) fn set(&mut self, at: Instant, alarm: Alarm) -> AlarmKey {
        self.count += 1;
        let key = (at, self.count);
        self.alarms.insert(key, alarm);
        key
    }

    /// Cancels alarms. Otherwise, the alarm of an acquire with a timeout of an hour would remain
    /// for an hour, even if the lock is granted immediately.
    pub(super) fn cancel<'a>(&mut self, keys: impl IntoIterator<Item = &'a AlarmKey>) {
        for key in keys {
            self.alarms.remove(key);
        }
    }

    /// Adds a long-hold alarm for a new hold on this node.
    pub(super) fn hold_begins(&mut self, directory: DirectoryId, node: &NodeName) {
        self.long_holds.push_back((Instant::now() + LONG_HOLD, directory, node.clone()));
    }

    /// Removes this node's long-hold alarm if it is the first or the last in the list. An alarm in
    /// the middle of the list remains, fires soon and is then ignored.
    pub(super) fn hold_ends(&mut self, node: &NodeName) {
        if self.long_holds.front().is_some_and(|(_, _, first)| first == node) {
            self.long_holds.pop_front();
        } else if self.long_holds.back().is_some_and(|(_, _, last)| last == node) {
            self.long_holds.pop_back();
        }
    }

    /// Returns the time of the first alarm.
    fn first(&self) -> Option<Instant> {
        let alarm = self.alarms.first_key_value().map(|((at, _), _)| *at);
        let long = self.long_holds.front().map(|(at, ..)| *at);
        alarm.into_iter().chain(long).min()
    }

    /// Returns the number of alarms.
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
        // Reset the runtime's timer only if necessary: alarms are set and canceled far more often
        // than they fire, and most alarms are later than the earliest one.
        if first < sleep.deadline() {
            sleep.as_mut().reset(first);
            self.waker = None;
        }
        // Every step of the driver polls this future. Reading the clock takes less time than polling
        // the runtime's timer again, which would wake the same task.
        let is_set = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_set && Instant::now() < sleep.deadline() {
            return Poll::Pending;
        }
        self.waker = None;
        loop {
            if sleep.as_mut().poll(cx).is_pending() {
                self.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if sleep.deadline() == first {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(first);
        }
    }

    /// Removes and returns the next alarm that is due.
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
        let early = timers.set(began + seconds(1), Alarm::Heartbeat);
        timers.set(began + seconds(3), Alarm::TermEnd);
        let waited = tokio::time::timeout(seconds(0), timers.next()).await;
        assert!(waited.is_err());
        timers.cancel(&[early]);
        timers.next().await;
        assert_eq!(began.elapsed(), seconds(3));
        assert!(matches!(timers.due(), Some(Alarm::TermEnd)) && timers.due().is_none());
        timers.set(began + seconds(9), Alarm::TermEnd);
        assert!(tokio::time::timeout(seconds(1), timers.next()).await.is_err());
        timers.set(began + seconds(5), Alarm::Heartbeat);
        timers.next().await;
        assert_eq!(began.elapsed(), seconds(5));
        assert!(matches!(timers.due(), Some(Alarm::Heartbeat)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_wakes_the_task_that_polled_last() {
        let (mut timers, began) = (Timers::default(), Instant::now());
        timers.set(began + seconds(1), Alarm::Heartbeat);
        assert!(timers.poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
        tokio::time::timeout(seconds(9), timers.next()).await.expect("an alarm");
        assert_eq!(began.elapsed(), seconds(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_long_after_a_while_unless_it_is_over() {
        let mut timers = Timers::default();
        for number in 1..=5 {
            timers.hold_begins(DirectoryId::default(), &node(number));
        }
        // One entry in the middle, then the first, and then the last.
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
