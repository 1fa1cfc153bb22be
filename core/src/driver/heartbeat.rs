//! Sends heartbeats, which extend the session's *term*: until the end of the term, the server does
//! not expire the session. Ends the holds when the term ends.
//!
//! Heartbeats are sent while a directory is *vital*: one of our contenders holds its lock or might
//! hold it soon.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zklock_transport::Urgency;

use super::connection::Connection;
use super::timers::{Alarm, AlarmKey, Timers};
use crate::driver::directory::table::DirectoryTable;
use crate::driver::mailbox::{DirectoryId, OwnNode};
use crate::queue::{Event, NodeName};
use crate::runtime::clock::BootInstant;

/// Time within which the heartbeats check every node of ours in the vital directories. This check
/// is needed even if replies to other writes prove that the session is alive, because only it
/// notices that a node without a watch was deleted. Heartbeats can be late, so a check of all nodes
/// can take up to one minute.
const FULL_CHECK_TIME: Duration = Duration::from_secs(50);

/// Longest pause between two heartbeats, even with few nodes.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Number of nodes that a heartbeat normally checks. It checks more if there are very many nodes
/// (see `batch_size`).
const MAX_NODES_PER_HEARTBEAT: usize = 128;

/// Maximum total length of the paths in a heartbeat, in bytes. Servers refuse requests larger than
/// 1 MiB.
const MAX_BYTES_PER_HEARTBEAT: usize = 256 * 1024;

/// Schedules the heartbeats of a driver.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and they come in any combination"
)]
pub(super) struct HeartbeatScheduler {
    /// The vital directories, each with the number of our nodes in it.
    vital: BTreeMap<DirectoryId, usize>,
    /// Total number of our nodes in these directories.
    nodes: usize,
    /// The last node that was checked.
    checked: Option<OwnNode>,
    /// `true` if a heartbeat found a missing node. The next heartbeat follows immediately, with
    /// other nodes, because a reply that reports a missing node might not prove that the session is
    /// alive.
    node_was_missing: bool,
    /// Start of the current pause between heartbeats.
    pause_began: Option<Instant>,
    /// Alarm for the next heartbeat. It can remain set when no directory is vital any more, and is
    /// then ignored.
    heartbeat_alarm: Option<AlarmKey>,
    /// Alarm for the end of the term. The term can be extended after the alarm was set.
    term_end_alarm: Option<AlarmKey>,
    /// Alarm for giving up the session. The server can reply after the alarm was set.
    give_up_alarm: Option<AlarmKey>,
    /// `true` if the term runs, as last reported to the holders.
    running: bool,
    /// `true` if a hold can begin, as last reported to the queues.
    fresh: bool,
    /// Time that was left in the term at the last check.
    term_left: Duration,
    /// `true` if the holders were informed of a disconnection.
    suspended: bool,
    /// `true` if a directory was vital when the connection was lost. Only in this case is the
    /// reconnection urgent, because the client could lose a lock or its place in the queue.
    /// Directories that become vital while the connection is lost do not count: the client then
    /// learns of no other contenders, so it treats every waiter as the possible next holder.
    at_stake: bool,
}

impl HeartbeatScheduler {
    /// Returns `true` if the queues can grant locks.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Returns how urgently a disconnected client needs a connection. It must reconnect before the
    /// session expires if it could lose a hold or a node near the front of a queue (rule 10).
    fn urgency(&self, connection: &Connection, directories: &DirectoryTable) -> Urgency {
        match connection.term() {
            Some(term) if self.at_stake && !self.vital.is_empty() => Urgency::Session(term.session_timeout()),
            Some(_) if directories.is_empty() => Urgency::Idle,
            _ => Urgency::Wanted,
        }
    }

    /// Stores the number of nodes in a directory that the heartbeats must check. A directory with 0
    /// nodes needs no heartbeats.
    pub(super) fn set_node_count(&mut self, directory: DirectoryId, nodes: usize) {
        let before = match self.vital.get_mut(&directory) {
            Some(before) if nodes > 0 => std::mem::replace(before, nodes),
            Some(_) => self.vital.remove(&directory).unwrap_or_default(),
            None if nodes > 0 => self.vital.insert(directory, nodes).unwrap_or_default(),
            None => 0,
        };
        self.nodes = self.nodes + nodes - before;
    }

    /// Returns all nodes, starting after the last checked node.
    fn nodes_in_check_order<'a>(
        &'a self,
        directories: &'a DirectoryTable,
    ) -> impl Iterator<Item = (DirectoryId, &'a Arc<str>, &'a NodeName)> {
        let checked = self.checked.as_ref();
        let here = checked.filter(|last| self.vital.contains_key(&last.directory));
        let rest = here.into_iter().flat_map(|last| nodes(directories, last.directory, Some(&last.name)));
        let behind = checked.map_or(Bound::Unbounded, |last| Bound::Excluded(last.directory));
        let later = self.vital.range((behind, Bound::Unbounded));
        let again = checked.map(|last| self.vital.range(..=last.directory));
        let all = later.chain(again.into_iter().flatten()).map(|(directory, _)| *directory);
        rest.chain(all.flat_map(|directory| nodes(directories, directory, None)))
    }

    fn stop(&mut self, timers: &mut Timers) {
        self.pause_began = None;
        let alarms: Vec<_> =
            self.heartbeat_alarm.take().into_iter().chain(self.term_end_alarm.take()).collect();
        timers.cancel(&alarms);
    }

    /// Notifies the directories if the term has begun, was extended, or has ended.
    pub(super) fn check_term(
        &mut self,
        connection: &Connection,
        directories: &mut DirectoryTable,
        timers: &mut Timers,
    ) {
        // Every step of the driver calls this function, so it reads the clock only once.
        let (now, term) = (BootInstant::now(), connection.term());
        let running = term.is_some_and(|term| term.runs_at(now));
        if std::mem::replace(&mut self.running, running) && !running {
            directories.iter_mut().for_each(|directory| directory.end_term(timers));
        }
        // Grant locks only while the client is connected and more than a third of the term is left
        // (rule 16).
        let fresh = connection.is_fresh_at(now);
        if std::mem::replace(&mut self.fresh, fresh) != fresh {
            directories.send_to_all(if fresh { &Event::TermBegan } else { &Event::TermEnded });
        }
        let left = term.map(|term| term.left_at(now)).unwrap_or_default();
        if left > std::mem::replace(&mut self.term_left, left) {
            directories.flush_short_of_term();
        }
        if self.suspended && fresh {
            self.suspend(directories, false);
        } else if !self.suspended && !fresh && !self.vital.is_empty() {
            self.suspend(directories, true);
        }
    }

    pub(super) fn suspend(&mut self, directories: &mut DirectoryTable, suspended: bool) {
        self.suspended = suspended;
        if suspended {
            self.at_stake = !self.vital.is_empty();
        }
        for directory in directories.iter_mut() {
            directory.suspend(suspended);
        }
    }

    /// Sends a heartbeat if one is due, and sets the alarms. Returns `true` if the session must be
    /// given up because the server no longer answers.
    pub(super) fn maintain_term(
        &mut self,
        connection: &mut Connection,
        directories: &DirectoryTable,
        timers: &mut Timers,
    ) -> bool {
        self.schedule_heartbeat(connection, directories, timers);
        if !connection.is_connected() {
            connection.set_urgency(self.urgency(connection, directories));
        }
        let give_up_in = connection.give_up_in();
        if let Some(left) = give_up_in.filter(|_| self.give_up_alarm.is_none()) {
            self.give_up_alarm = Some(timers.set(Instant::now() + left, Alarm::GiveUpSession));
        }
        give_up_in.is_some_and(|left| left.is_zero())
    }

    fn schedule_heartbeat(
        &mut self,
        connection: &mut Connection,
        directories: &DirectoryTable,
        timers: &mut Timers,
    ) {
        let Some(term) = connection.term() else { return self.stop(timers) };
        if self.vital.is_empty() {
            // The alarms remain. An acquire, which often follows soon, would set them again.
            self.pause_began = None;
            return;
        }
        if self.term_end_alarm.is_some() && self.heartbeat_alarm.is_some() {
            return;
        }
        let (remaining, interval) = (term.remaining(), term.interval());
        let due_in = term.due_in(remaining);
        if !remaining.is_zero() && self.term_end_alarm.is_none() {
            self.term_end_alarm = Some(timers.set(Instant::now() + remaining, Alarm::TermEnd));
        }
        if self.heartbeat_alarm.is_some() || !connection.is_connected() {
            return;
        }
        // If leases are suspended, send a heartbeat immediately. Its reply proves that the session
        // is alive, and makes the leases usable again.
        let now = Instant::now();
        let pause = pause(self.nodes, interval);
        let due_in =
            due_in.min((*self.pause_began.get_or_insert(now) + pause).saturating_duration_since(now));
        let node_was_missing = std::mem::take(&mut self.node_was_missing);
        let next = if node_was_missing || due_in.is_zero() || self.suspended {
            self.pause_began = Some(now);
            self.send_heartbeat(connection, directories, batch_size(self.nodes, pause));
            interval
        } else {
            due_in
        };
        self.heartbeat_alarm = Some(timers.set(Instant::now() + next, Alarm::Heartbeat));
    }

    /// Handles a heartbeat's result. `last` is the last node that it checked, or `None` if it
    /// checked all its nodes. If nodes were missing, the next heartbeat is due immediately.
    pub(super) fn on_nodes_checked(&mut self, last: Option<OwnNode>, missing: bool, timers: &mut Timers) {
        self.checked = last.or_else(|| self.checked.take());
        if missing {
            self.node_was_missing = true;
            self.make_heartbeat_due(timers);
        }
    }

    pub(super) fn make_heartbeat_due(&mut self, timers: &mut Timers) {
        if let Some(beat) = self.heartbeat_alarm.take() {
            timers.cancel(&[beat]);
        }
    }

    /// Handles the alarm for the end of the term. The caller then checks whether the term has
    /// really ended.
    pub(super) fn on_term_end_alarm(&mut self) {
        self.term_end_alarm = None;
    }

    /// Handles the alarm for giving up the session. The caller then checks whether the server has
    /// replied in the meantime.
    pub(super) fn on_give_up_alarm(&mut self) {
        self.give_up_alarm = None;
    }

    /// Sends a heartbeat that checks at most this number of nodes.
    pub(super) fn send_heartbeat(
        &mut self,
        connection: &mut Connection,
        directories: &DirectoryTable,
        limit: usize,
    ) {
        let mut bytes = 0;
        let fits = |(_, path, name): &(DirectoryId, &Arc<str>, &NodeName)| {
            bytes += path.len() + name.as_str().len();
            bytes <= MAX_BYTES_PER_HEARTBEAT
        };
        let next = self.nodes_in_check_order(directories).take(limit.min(self.nodes)).take_while(fits);
        let own = |(directory, path, name): (_, &Arc<str>, &NodeName)| OwnNode {
            directory,
            path: Arc::clone(path),
            name: name.clone(),
        };
        let nodes: Vec<_> = next.map(own).collect();
        if let Some(last) = nodes.last() {
            self.checked = Some(last.clone());
            connection.send_heartbeat(nodes);
        }
    }
}

/// Returns our nodes in a directory in queue order, or only the nodes behind `behind`.
fn nodes<'a>(
    directories: &'a DirectoryTable,
    id: DirectoryId,
    behind: Option<&'a NodeName>,
) -> impl Iterator<Item = (DirectoryId, &'a Arc<str>, &'a NodeName)> {
    let directory = directories.get(id);
    directory.into_iter().flat_map(move |directory| {
        directory.places_behind(behind).map(move |name| (id, directory.path(), name))
    })
}

/// Returns the pause between two heartbeats that is used while replies to other writes prove that
/// the session is alive.
fn pause(nodes: usize, interval: Duration) -> Duration {
    let batches = u32::try_from(nodes.div_ceil(MAX_NODES_PER_HEARTBEAT)).unwrap_or(u32::MAX).max(1);
    (FULL_CHECK_TIME / batches).min(LONGEST_PAUSE).max(interval)
}

/// Returns the number of nodes that one heartbeat must check so that all nodes are checked within
/// [`FULL_CHECK_TIME`].
fn batch_size(nodes: usize, pause: Duration) -> usize {
    let part = nodes as u128 * pause.as_millis() / FULL_CHECK_TIME.as_millis();
    usize::try_from(part).unwrap_or(usize::MAX).saturating_add(1).max(MAX_NODES_PER_HEARTBEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_nodes_to_check_needs_no_heartbeat() {
        let (mut heartbeat, directory) = (HeartbeatScheduler::default(), DirectoryId::default());
        for (nodes, vital) in [(0, 0), (2, 1), (3, 1), (0, 0)] {
            heartbeat.set_node_count(directory, nodes);
            assert_eq!((heartbeat.nodes, heartbeat.vital.len()), (nodes, vital));
        }
    }

    #[test]
    fn every_node_is_checked_within_a_turn_and_few_of_them_seldom() {
        for millis in [100, 666, 1_666, 6_666] {
            let interval = Duration::from_millis(millis);
            for nodes in [1, 128, 129, 1_000, 10_000, 50_000] {
                let pause = pause(nodes, interval);
                let batches = nodes.div_ceil(batch_size(nodes, pause));
                assert!(
                    pause * u32::try_from(batches).unwrap() <= FULL_CHECK_TIME + pause,
                    "{nodes} nodes, {interval:?}"
                );
                assert!(pause >= interval);
            }
            assert_eq!(pause(1, interval), LONGEST_PAUSE);
        }
    }
}
