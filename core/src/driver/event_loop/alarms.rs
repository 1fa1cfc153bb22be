//! Handles the driver's alarms.

use std::time::Duration;

use tokio::time::Instant;

use super::Driver;
use crate::driver::connection::Connection;
use crate::driver::directory::Directory;
use crate::driver::directory::resync::CHECK_INTERVAL;
use crate::driver::errors::unreachable;
use crate::driver::mailbox::DirectoryId;
use crate::driver::timers::Alarm;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, ErrorKind};
use crate::queue::{Event, JoinId};

impl Driver {
    /// Carries out all alarms that are due.
    pub(super) fn run_due_alarms(&mut self) {
        let mut nearing = Vec::new();
        while let Some(alarm) = self.timers.due() {
            match alarm {
                Alarm::DeadlineNears(id, join) => {
                    if let Some(directory) = self.directories.get_mut(id) {
                        directory.await_deadline(join, &mut self.timers);
                        nearing.push((id, join));
                    }
                }
                Alarm::Deadline(id, join) => {
                    let deadlock = self.deadlock_of(id, join);
                    let servers = (!self.connection.is_connected()).then(|| self.connection.servers());
                    self.fail_waiter(id, join, |directory, connection| {
                        directory.timeout_error(join, connection, servers, deadlock)
                    });
                }
                Alarm::Unreachable(id, join) => {
                    let within = self.directories.get(id).and_then(|directory| directory.answer_within(join));
                    let unreachable = unreachable(&self.options, within, self.connection.servers());
                    // After the first connection, only a try acquire fails. Other waiters continue
                    // to wait.
                    let reached = self.was_connected;
                    if self
                        .directories
                        .get(id)
                        .is_some_and(|directory| !reached || directory.only_tries(join))
                    {
                        self.fail_waiter(id, join, |_, _| unreachable);
                    }
                }
                Alarm::Connect => {
                    let now = Instant::now();
                    let unreachable = unreachable(&self.options, None, self.connection.servers());
                    let due = |(deadline, _): &(Instant, _)| *deadline <= now;
                    let (due, waiting) = std::mem::take(&mut self.connecting).into_iter().partition(due);
                    self.connecting = waiting;
                    for (_, reply) in due {
                        reply.send(Err(unreachable.clone())).ok();
                    }
                }
                Alarm::DeliverEvent(id, event) => self.directories.dispatch(id, event),
                Alarm::Released(id, node) => self.directories.stop_waiting(id, &node),
                Alarm::LongHold(id, node) => {
                    // Most holds have ended by now and need no watch.
                    if self.directories.get(id).is_some_and(|directory| directory.has_hold_on(&node)) {
                        self.directories.dispatch(id, Event::WatchHold(node));
                    }
                }
                Alarm::HeldTooLong(id, hold) => {
                    if let Some(directory) = self.directories.get_to_flush(id) {
                        directory.expire(&hold, LossReason::HeldTooLong, Duration::ZERO, &mut self.timers);
                    }
                }
                Alarm::GraceBegins(id, node) => {
                    if let Some(directory) = self.directories.get_to_flush(id) {
                        directory.check_grace(&node, self.connection.term_left(), &mut self.timers);
                    }
                }
                Alarm::GraceEnds(id, node) => {
                    if let Some(directory) = self.directories.get_to_flush(id) {
                        directory.end_grace(&node, &mut self.timers);
                    }
                }
                Alarm::KeepingEnds(id, node) => {
                    if let Some(directory) = self.directories.get_to_flush(id) {
                        directory.stop_keeping(&node, &mut self.timers);
                    }
                }
                // The event loop itself checks after all alarms whether a draining client must
                // close.
                Alarm::Drained => {}
                Alarm::Heartbeat => self.heartbeat.make_heartbeat_due(&mut self.timers),
                Alarm::GiveUpSession => self.heartbeat.on_give_up_alarm(),
                Alarm::TermEnd => self.heartbeat.on_term_end_alarm(),
                Alarm::Poll(id) => {
                    if let Some(directory) = self.directories.get_to_flush(id) {
                        directory.poll(&self.connection);
                    }
                }
                Alarm::ResyncSilent => {
                    self.directories.resync_silent();
                    self.timers.set(Instant::now() + CHECK_INTERVAL, Alarm::ResyncSilent);
                }
            }
        }
        self.search_deadlocks(nearing);
        // Check this once after all alarms, because many waiters can time out together.
        self.stop_unless_wanted();
    }

    fn fail_waiter(
        &mut self,
        id: DirectoryId,
        join: JoinId,
        error: impl FnOnce(&Directory, &Connection) -> Error,
    ) {
        let Some(directory) =
            self.directories.get_to_flush(id).filter(|directory| directory.is_waiting(join))
        else {
            return;
        };
        let error = error(directory, &self.connection);
        if let Some(attempt) = directory.leave(join, &mut self.timers) {
            if error.kind() == ErrorKind::LockTimeout && !attempt.claim.is_part() {
                self.status.recorder.timed_out();
            }
            attempt.answer(Err(error));
        }
    }
}
