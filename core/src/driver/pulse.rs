//! Keeps the session's term running by heartbeats while a contender holds or is about to, and ends holds with it.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;

use super::link::Link;
use super::slot::Slot;
use super::slots::Slots;
use super::timers::{Alarm, AlarmKey, Timers};
use crate::queue::{Event, NodeName};

/// How many nodes one heartbeat checks. The following heartbeats check those of other paths, in turn.
const NODES_AT_ONCE: usize = 128;

/// What a driver knows of its heartbeat.
#[derive(Default)]
pub(super) struct Pulse {
    /// The paths with a holder, or with a contender that may soon be one.
    vital: BTreeSet<Arc<str>>,
    /// The last path whose nodes were checked.
    checked: Option<Arc<str>>,
    /// When it beats next. Not set while nothing is vital.
    beat: Option<AlarmKey>,
    /// When the term ends, as far as was known when this was set.
    end: Option<AlarmKey>,
    /// When the session is given up, as far as was known when this was set.
    surrender: Option<AlarmKey>,
    /// Whether the term runs, as far as the holders know.
    running: bool,
    /// Whether a hold may begin, as the queues were told.
    fresh: bool,
    /// Whether the holders were told that the session is disconnected.
    suspended: bool,
}

impl Pulse {
    /// Whether a hold may begin, as the queues were told.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Notes whether a path needs the heartbeat.
    pub(super) fn note(&mut self, path: &Arc<str>, vital: bool) {
        if vital {
            if !self.vital.contains(path) {
                self.vital.insert(Arc::clone(path));
            }
        } else {
            self.vital.remove(path);
        }
    }

    /// The vital paths, starting behind those that were checked last.
    fn in_turn(&self) -> impl Iterator<Item = &Arc<str>> {
        let last = self.checked.as_ref();
        let behind = (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let up_to =
            last.map(|last| self.vital.range::<Arc<str>, _>((Bound::Unbounded, Bound::Included(last))));
        self.vital.range::<Arc<str>, _>(behind).chain(up_to.into_iter().flatten())
    }

    fn stop(&mut self, timers: &mut Timers) {
        let alarms: Vec<_> = self.beat.take().into_iter().chain(self.end.take()).collect();
        timers.cancel(&alarms);
    }

    /// Reads the clock, and reports what follows from it.
    pub(super) fn check_term(&mut self, link: &Link, slots: &mut Slots) {
        let running = link.term().is_some_and(|term| term.runs());
        if std::mem::replace(&mut self.running, running) && !running {
            slots.iter_mut().for_each(Slot::end_term);
        }
        // A hold begins as `held`, and with more than a third of the term left (rule 16): both are what fresh means.
        let fresh = link.is_fresh();
        if std::mem::replace(&mut self.fresh, fresh) != fresh {
            slots.tell_all(if fresh { &Event::TermBegan } else { &Event::TermEnded });
        }
        if self.suspended && fresh {
            self.suspend(slots, false);
        } else if !self.suspended && !fresh && !self.vital.is_empty() {
            self.suspend(slots, true);
        }
    }

    /// Tells the holders that the session is disconnected, or connected again.
    pub(super) fn suspend(&mut self, slots: &Slots, suspended: bool) {
        self.suspended = suspended;
        for slot in slots.iter() {
            slot.suspend(suspended);
        }
    }

    /// Beats when it is due, and sets the alarms. Returns whether the session is to be given up, because it no longer
    /// answers.
    pub(super) fn keep_term(&mut self, link: &mut Link, slots: &Slots, timers: &mut Timers) -> bool {
        self.keep_beating(link, slots, timers);
        let patience = link.patience();
        if let Some(left) = patience
            && self.surrender.is_none()
        {
            self.surrender = Some(timers.set(Instant::now() + left, Alarm::Surrender));
        }
        patience.is_some_and(|left| left.is_zero())
    }

    fn keep_beating(&mut self, link: &mut Link, slots: &Slots, timers: &mut Timers) {
        let Some(term) = link.term().filter(|_| !self.vital.is_empty()) else {
            return self.stop(timers);
        };
        let (remaining, interval, due_in) = (term.remaining(), term.interval(), term.due_in());
        if !remaining.is_zero() && self.end.is_none() {
            self.end = Some(timers.set(Instant::now() + remaining, Alarm::TermEnd));
        }
        if self.beat.is_some() || !link.is_connected() {
            return;
        }
        // A lease that is suspended is held again only after a proof on this connection.
        let next = if due_in.is_zero() || self.suspended {
            self.beat(link, slots);
            interval
        } else {
            due_in
        };
        self.beat = Some(timers.set(Instant::now() + next, Alarm::Beat));
    }

    /// The alarm for the next beat has gone off, or there is a reason not to wait for it.
    pub(super) fn beat_now(&mut self, timers: &mut Timers) {
        if let Some(beat) = self.beat.take() {
            timers.cancel(&[beat]);
        }
    }

    /// The alarm for the end of the term has gone off; perhaps the term has been extended by now.
    pub(super) fn term_may_have_ended(&mut self) {
        self.end = None;
    }

    /// The alarm for giving up the session has gone off; perhaps it has answered by now.
    pub(super) fn may_surrender(&mut self) {
        self.surrender = None;
    }

    fn beat(&mut self, link: &mut Link, slots: &Slots) {
        let mut nodes: Vec<(Arc<str>, NodeName)> = Vec::new();
        for path in self.in_turn() {
            let Some(slot) = slots.get(path) else { continue };
            let room = NODES_AT_ONCE - nodes.len();
            nodes.extend(slot.places(room).map(|name| (Arc::clone(path), name.clone())));
            if nodes.len() == NODES_AT_ONCE {
                break;
            }
        }
        if let Some((path, _)) = nodes.last() {
            self.checked = Some(Arc::clone(path));
            link.beat(nodes);
        }
    }
}
