//! The lock directories of a client, each with its queue.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::Directory;
use super::inspect::{All, SharedDirectories};
use crate::driver::connection::Connection;
use crate::driver::mailbox::{AcquireAttempt, DirectoryId};
use crate::driver::status::{ClientState, Status};
use crate::driver::timers::Timers;
use crate::error::Error;
use crate::error::escape::Escaped;
use crate::error::loss_reason::LossReason;
use crate::queue::{Event, NodeName, SmallSet, Ticket};
use crate::runtime::random;

/// The directories in which one of our contenders waits or holds the lock. Dropping the table
/// reports all holds as lost, because the driver's session ends at that time.
pub(in crate::driver) struct DirectoryTable {
    /// Holds the directories while the driver waits for input.
    shared: Option<Arc<SharedDirectories>>,
    status: Arc<Status>,
    /// All directories. The order is deterministic, because a new session assigns new seeds for
    /// node names in this order.
    all: All,
    by_path: BTreeMap<Arc<str>, DirectoryId>,
    last_id: DirectoryId,
    seeds: Seeds,
    /// The directories whose queues have received events since their last flush.
    to_flush: SmallSet<DirectoryId>,
    /// The directories that grant no lock because the rest of the term is too short for a waiter's
    /// grace.
    short: SmallSet<DirectoryId>,
    /// The highest ticket that a dropped queue used. New queues use higher tickets, so a late reply
    /// to a request of a dropped queue matches no request of a new queue.
    last_ticket: Ticket,
    /// The paths for which the client has warned about a child without a sequence number. Stored
    /// here because a queue is dropped when it is idle, and the next queue at its path must not
    /// warn again.
    warned: Reported,
    /// The paths for which the client has warned that kazoo contenders might not see our
    /// contenders.
    blind_kazoo: Reported,
    /// `true` if the server refuses check requests. No queue then sends any.
    refuses_checks: bool,
}

/// Maximum number of remembered paths. A client can use millions of paths in its lifetime.
const MOST_REPORTED: usize = 1_000;

/// The paths for which a once-only warning was logged. After [`MOST_REPORTED`] paths, the client
/// logs no more of these warnings.
#[derive(Default)]
struct Reported(BTreeSet<Arc<str>>);

impl Reported {
    fn is_silent(&self, path: &Arc<str>) -> bool {
        self.0.len() >= MOST_REPORTED || self.0.contains(path)
    }

    /// Records that a warning was logged for this path. `what` begins the message that announces
    /// the last warning.
    fn add(&mut self, path: &Arc<str>, what: &'static str) {
        if !self.is_silent(path) {
            self.0.insert(Arc::clone(path));
            if self.0.len() == MOST_REPORTED {
                tracing::warn!(
                    "{what} at {MOST_REPORTED} paths; this client does not warn about further paths"
                );
            }
        }
    }
}

/// Seeds for node names, each used once, computed from one random number of the operating system. A
/// system call for each seed would cost too much: most locks are uncontended and held briefly, so
/// almost every acquire creates a new queue.
struct Seeds {
    secret: [u64; 2],
    count: u64,
}

impl Seeds {
    fn new() -> Self {
        Self { secret: [random::bits(), random::bits()], count: 0 }
    }

    /// Returns the next seed. Hashing the counter with a secret key makes the seeds look random.
    fn next(&mut self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.secret, self.count).hash(&mut hasher);
        self.count += 1;
        hasher.finish()
    }
}

impl DirectoryTable {
    pub(in crate::driver) fn new(status: Arc<Status>) -> Self {
        Self {
            shared: None,
            status,
            all: All::new(),
            by_path: BTreeMap::new(),
            last_id: DirectoryId::default(),
            seeds: Seeds::new(),
            to_flush: SmallSet::default(),
            short: SmallSet::default(),
            last_ticket: Ticket::default(),
            warned: Reported::default(),
            blind_kazoo: Reported::default(),
            refuses_checks: false,
        }
    }

    pub(in crate::driver) fn with_shared_directories(mut self, place: &Arc<SharedDirectories>) -> Self {
        self.shared = Some(Arc::clone(place));
        self
    }

    /// Exchanges the directories between this table and the shared map. They are in this table
    /// while the driver works. While it waits, they are in the shared map, where other threads can
    /// read them.
    pub(in crate::driver) fn exchange(&mut self, shared: &mut All) {
        std::mem::swap(&mut self.all, shared);
    }

    /// Returns the directory at a path from the ensemble's root.
    pub(in crate::driver) fn at(&self, path: &str) -> Option<DirectoryId> {
        self.by_path.get(path).copied()
    }

    pub(in crate::driver) fn get(&self, id: DirectoryId) -> Option<&Directory> {
        self.all.get(&id).map(|directory| &**directory)
    }

    pub(in crate::driver) fn get_mut(&mut self, id: DirectoryId) -> Option<&mut Directory> {
        self.all.get_mut(&id).map(|directory| &mut **directory)
    }

    pub(in crate::driver) fn iter(&self) -> impl Iterator<Item = &Directory> {
        self.all.values().map(|directory| &**directory)
    }

    pub(in crate::driver) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Directory> {
        self.all.values_mut().map(|directory| &mut **directory)
    }

    /// Returns a directory for an event, and marks its queue for the next flush.
    pub(in crate::driver) fn get_to_flush(&mut self, id: DirectoryId) -> Option<&mut Directory> {
        let directory = self.all.get_mut(&id)?;
        self.to_flush.insert(id);
        Some(directory)
    }

    /// Returns the directory at a path, and creates it if there is none. `term` is `true` if the
    /// session's term has not ended.
    pub(in crate::driver) fn open(
        &mut self,
        path: &Arc<str>,
        connection: &Connection,
        term: bool,
    ) -> DirectoryId {
        if let Some(id) = self.at(path) {
            return id;
        }
        self.last_id = self.last_id.next();
        let (id, place) = (self.last_id, (self.last_id, Arc::clone(path)));
        let mut directory = Directory::new(place, self.last_ticket, connection, term, self.seeds.next());
        if self.warned.is_silent(path) {
            directory.disable_warnings();
        }
        if self.refuses_checks {
            directory.disable_checks();
        }
        self.by_path.insert(Arc::clone(path), id);
        self.all.insert(id, Box::new(directory));
        id
    }

    /// Stops the wait of a caller that released a hold.
    pub(in crate::driver) fn stop_waiting(&mut self, id: DirectoryId, node: &NodeName) {
        if let Some(directory) = self.all.get_mut(&id) {
            directory.stop_waiting(node);
        }
    }

    /// Passes an event to a queue.
    pub(in crate::driver) fn dispatch(&mut self, id: DirectoryId, event: Event) {
        self.warn_of_kazoo(id, &event);
        if self.get(id).is_some_and(|directory| directory.is_refused_check(&event)) {
            self.refuses_checks = true;
            let others = self.all.iter_mut().filter(|(other, _)| **other != id);
            others.for_each(|(_, directory)| directory.disable_checks());
        }
        if let Some(directory) = self.get_to_flush(id) {
            directory.on_event(event);
        }
    }

    /// Logs a warning if a kazoo contender might not see our contenders, once for each directory.
    /// The kazoo client's configuration, which this client cannot read, decides whether it sees
    /// them.
    fn warn_of_kazoo(&mut self, id: DirectoryId, event: &Event) {
        let directory = self.all.get(&id).filter(|directory| !self.blind_kazoo.is_silent(directory.path()));
        let blind_kazoo =
            directory.and_then(|directory| Some((directory.path(), directory.find_blind_kazoo(event)?)));
        if let Some((path, child)) = blind_kazoo {
            let (shown, child) = (Escaped(path), Escaped(child));
            tracing::warn!(path = %shown, %child, "a kazoo client does not see this client, and acquires the lock while this client holds it, unless its lock was created with extra_lock_patterns=['-lock-']; if that cannot be changed, use the naming 'kazoo' here");
            self.blind_kazoo.add(path, "kazoo clients were found");
        }
    }

    pub(in crate::driver) fn send_to_all(&mut self, event: &Event) {
        for (id, directory) in &mut self.all {
            directory.on_event(event.clone());
            self.to_flush.insert(*id);
        }
    }

    /// Handles the end of the session.
    pub(in crate::driver) fn end_session(&mut self, timers: &mut Timers) {
        for (id, directory) in &mut self.all {
            directory.end_session(timers);
            self.to_flush.insert(*id);
        }
    }

    pub(in crate::driver) fn refuse_waiters(
        &mut self,
        error: &Error,
        timers: &mut Timers,
        keep: impl Fn(&AcquireAttempt) -> bool,
    ) {
        for (id, directory) in &mut self.all {
            directory.refuse_waiters(error, timers, &keep);
            self.to_flush.insert(*id);
        }
    }

    /// Marks the directories in `short` for the next flush, because a longer term might now suffice
    /// for their waiters.
    pub(in crate::driver) fn flush_short_of_term(&mut self) {
        let short = std::mem::take(&mut self.short);
        self.to_flush.extend(short);
    }

    pub(in crate::driver) fn resync_silent(&mut self) {
        for (id, directory) in &mut self.all {
            if directory.resync_if_silent() {
                self.to_flush.insert(*id);
            }
        }
    }

    pub(in crate::driver) fn take_to_flush(&mut self) -> SmallSet<DirectoryId> {
        std::mem::take(&mut self.to_flush)
    }

    /// Flushes a queue and carries out its actions. Returns the number of this queue's nodes that
    /// the heartbeats must check, or 0 if this queue needs no heartbeats.
    pub(in crate::driver) fn flush(
        &mut self,
        id: DirectoryId,
        connection: &mut Connection,
        timers: &mut Timers,
    ) -> usize {
        let Some(directory) = self.all.get_mut(&id) else { return 0 };
        directory.flush(connection, timers);
        if directory.is_short_of_term() {
            self.short.insert(id);
        }
        let vital = if directory.is_vital() { directory.places().max(1) } else { 0 };
        if directory.is_idle() {
            self.last_ticket = self.last_ticket.max(directory.last_ticket());
            let path = directory.path();
            if directory.has_warned() {
                self.warned.add(path, "children without a sequence number were found");
            }
            self.by_path.remove(path);
            self.all.remove(&id);
        }
        vital
    }

    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(in crate::driver) fn lose_all(&mut self, reason: LossReason) {
        for directory in self.all.values_mut() {
            directory.lose_all(reason);
        }
    }
}

impl Drop for DirectoryTable {
    fn drop(&mut self) {
        self.status.refuse();
        if let Some(shared) = self.shared.take() {
            self.all.append(&mut shared.lock());
        }
        self.lose_all(LossReason::ClientClosed);
        self.status.set(ClientState::Closed);
    }
}
