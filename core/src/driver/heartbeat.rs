//! The heartbeat: keeps the session's term running while somebody holds or is about to, and ends leases with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::timers::{Alarm, AlarmKey, Timers};
use super::{Driver, Slot};
use crate::queue::{Event, NodeName};

/// How many nodes one heartbeat checks. Those of other paths have their turn in the next ones.
const NODES_AT_ONCE: usize = 128;

/// What a driver knows of its heartbeat.
#[derive(Default)]
pub(super) struct Pulse {
    /// The paths with a holder, or with somebody who soon may be one.
    vital: BTreeSet<Arc<str>>,
    /// The last path whose nodes were checked.
    checked: Option<Arc<str>>,
    /// When it beats next. Not set while nothing is vital.
    beat: Option<AlarmKey>,
    /// When the term will have ended, as far as was known when this was set.
    end: Option<AlarmKey>,
    /// Whether the queues know of a term that runs.
    running: bool,
    /// Whether the holders were told that the session is out of touch.
    suspended: bool,
}

impl Pulse {
    /// Whether the term runs, as the queues were told.
    pub(super) fn is_running(&self) -> bool {
        self.running
    }

    /// Notes whether a path needs the heartbeat.
    pub(super) fn note(&mut self, path: &Arc<str>, slot: Option<&Slot>) {
        if slot.is_some_and(|slot| slot.holds() || slot.is_near()) {
            if !self.vital.contains(path) {
                self.vital.insert(Arc::clone(path));
            }
        } else {
            self.vital.remove(path);
        }
    }

    /// The vital paths, beginning behind those that were checked last.
    fn in_turn(&self) -> impl Iterator<Item = &Arc<str>> {
        let behind = |path: &&Arc<str>| self.checked.as_ref().is_none_or(|checked| *path > checked);
        self.vital.iter().filter(behind).chain(self.vital.iter().filter(move |path| !behind(path)))
    }

    fn stop(&mut self, timers: &mut Timers) {
        let alarms: Vec<_> = self.beat.take().into_iter().chain(self.end.take()).collect();
        timers.cancel(&alarms);
    }
}

impl Driver {
    /// Looks at the clock, and tells what follows from it.
    pub(super) fn check_term(&mut self) {
        let running = self.link.term().is_some_and(|term| term.runs());
        if running != self.pulse.running {
            self.pulse.running = running;
            if !running {
                for slot in self.slots.values_mut() {
                    slot.end_term();
                }
            }
            self.tell_all(if running { &Event::TermBegan } else { &Event::TermEnded });
        }
        let fresh = self.link.is_fresh();
        if self.pulse.suspended && fresh {
            self.suspend(false);
        } else if !self.pulse.suspended && !fresh && !self.pulse.vital.is_empty() {
            self.suspend(true);
        }
    }

    /// Tells the holders that the session is out of touch, or in touch again.
    pub(super) fn suspend(&mut self, suspended: bool) {
        self.pulse.suspended = suspended;
        for slot in self.slots.values() {
            slot.suspend(suspended);
        }
    }

    /// Beats when it is due, and sets the alarms.
    pub(super) fn keep_term(&mut self) {
        let Some(term) = self.link.term().filter(|_| !self.pulse.vital.is_empty()) else {
            return self.pulse.stop(&mut self.timers);
        };
        let (remaining, interval, due_in) = (term.remaining(), term.interval(), term.due_in());
        if !remaining.is_zero() && self.pulse.end.is_none() {
            self.pulse.end = Some(self.timers.set(Instant::now() + remaining, Alarm::TermEnd));
        }
        if self.pulse.beat.is_some() || !self.link.is_connected() {
            return;
        }
        // A lease that is suspended is held again only after a proof on this connection.
        let next = if due_in.is_zero() || self.pulse.suspended {
            self.beat();
            interval
        } else {
            due_in
        };
        self.pulse.beat = Some(self.timers.set(Instant::now() + next, Alarm::Beat));
    }

    /// The alarm for the next beat has gone off, or there is a reason not to wait for it.
    pub(super) fn beat_now(&mut self) {
        if let Some(beat) = self.pulse.beat.take() {
            self.timers.cancel(&[beat]);
        }
    }

    /// The alarm for the end of the term has gone off; perhaps the term goes on by now.
    pub(super) fn term_may_have_ended(&mut self) {
        self.pulse.end = None;
    }

    fn beat(&mut self) {
        let mut nodes: Vec<(Arc<str>, NodeName)> = Vec::new();
        for path in self.pulse.in_turn() {
            let Some(slot) = self.slots.get(path) else { continue };
            let room = NODES_AT_ONCE - nodes.len();
            nodes.extend(slot.places(room).map(|name| (Arc::clone(path), name.clone())));
            if nodes.len() == NODES_AT_ONCE {
                break;
            }
        }
        if let Some((path, _)) = nodes.last() {
            self.pulse.checked = Some(Arc::clone(path));
            self.link.beat(nodes);
        }
    }
}
