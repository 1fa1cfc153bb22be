//! The watches of one lock directory on the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::driver::connection::Connection;
use crate::driver::connection::requests::SnapshotCell;
use crate::driver::mailbox::DirectoryId;
use crate::driver::timers::{Alarm, Timers};
use crate::error::escape::Escaped;
use crate::queue::contender::NodeSnapshot;
use crate::queue::rare::Rare;
use crate::queue::{NodeName, SmallMap, Ticket};
use crate::session::watch_budget::Reserved;

/// Interval at which a queue polls if it cannot watch.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A watch on the server.
struct ActiveWatch {
    task: AbortHandle,
    /// The node's content when the watch was set. `None` for our own nodes. The watch budget also
    /// limits the memory for these snapshots.
    snapshot: Option<SnapshotCell>,
    _room: Reserved,
}

pub(in crate::driver) struct DirectoryWatches {
    directory: DirectoryId,
    /// The path of the directory.
    path: Arc<str>,
    set: SmallMap<Ticket, ActiveWatch>,
    /// The watches that do not fit in the session's watch budget.
    parked: Rare<SmallMap<Ticket, (NodeName, bool)>>,
    /// Ticket of a listing whose watch did not fit in the watch budget. The listing was sent
    /// without it.
    parked_listing: Option<Ticket>,
    /// `true` if the queue will poll because watches are parked.
    polling: bool,
}

impl DirectoryWatches {
    pub(in crate::driver) fn new(directory: DirectoryId, path: Arc<str>) -> Self {
        let (set, parked) = (SmallMap::default(), Rare::default());
        Self { directory, path, set, parked, parked_listing: None, polling: false }
    }

    fn bytes_of(&self, name: &NodeName) -> usize {
        self.path.len() + 1 + name.as_str().len()
    }

    /// Sets a watch. If the session's watch budget has no room for it, stores it in `parked` until
    /// there is room.
    ///
    /// `ours` is `true` for this client's own node, which needs no snapshot.
    pub(in crate::driver) fn set(
        &mut self,
        ticket: Ticket,
        name: NodeName,
        ours: bool,
        connection: &mut Connection,
    ) {
        let bytes = self.bytes_of(&name);
        let Some(directory_client) = connection.directory_client(self.directory, &self.path) else { return };
        if let Some(room) = connection.room().reserve(bytes) {
            let snapshot = (!ours).then(SnapshotCell::default);
            let task = connection.spawn(directory_client.watch(ticket, name, snapshot.clone()));
            self.set.insert(ticket, ActiveWatch { task, snapshot, _room: room });
        } else {
            self.parked.insert(ticket, (name, ours));
        }
    }

    /// Reserves room in the watch budget for a watch on the children. Returns `None` if there is no
    /// room. The queue then polls.
    pub(in crate::driver) fn reserve_listing(
        &mut self,
        ticket: Ticket,
        connection: &Connection,
    ) -> Option<Reserved> {
        let room = connection.room().reserve(self.path.len());
        self.parked_listing = room.is_none().then_some(ticket);
        room
    }

    /// Notes the watch on the children, which a task is setting.
    pub(in crate::driver) fn add_listing(&mut self, ticket: Ticket, task: AbortHandle, room: Reserved) {
        self.set.insert(ticket, ActiveWatch { task, snapshot: None, _room: room });
    }

    /// Returns `true` if a watch is set or being set.
    pub(in crate::driver) fn is_set(&self, ticket: Ticket) -> bool {
        self.set.contains_key(&ticket)
    }

    /// Returns the content of another client's node, read when this watch was set.
    pub(in crate::driver) fn snapshot(&self, ticket: Ticket) -> Option<Arc<NodeSnapshot>> {
        self.set.get(&ticket)?.snapshot.as_ref()?.get().cloned()
    }

    /// Removes a watch.
    pub(in crate::driver) fn unset(&mut self, ticket: Ticket) {
        if let Some(parked) = self.parked.filled() {
            parked.remove(&ticket);
        }
        self.parked_listing.take_if(|parked| *parked == ticket);
        if let Some(watch) = self.set.get(&ticket) {
            watch.task.abort();
        }
        self.ended(ticket);
    }

    /// Forgets a watch that has fired or was never set.
    pub(in crate::driver) fn ended(&mut self, ticket: Ticket) {
        self.set.remove(&ticket);
    }

    /// Forgets all watches, which end with the session.
    pub(in crate::driver) fn forget(&mut self) {
        self.set.clear();
        self.parked = Rare::default();
        self.parked_listing = None;
    }

    /// Handles the alarm to poll. If the watch on the children now fits in the watch budget,
    /// returns its ticket. The next listing then sets the watch.
    pub(in crate::driver) fn poll(&mut self, connection: &Connection) -> Option<Ticket> {
        self.polling = false;
        let fits = connection.room().fits(self.path.len());
        self.parked_listing.take_if(|_| fits)
    }

    /// Sets the parked watches that now fit. Starts to poll if some do not fit and one of our
    /// contenders waits (`waits`). A holder needs no watch, because the heartbeats check its node.
    pub(in crate::driver) fn flush(&mut self, connection: &mut Connection, timers: &mut Timers, waits: bool) {
        while let Some((ticket, (name, ours))) = self.parked.first_key_value() {
            if !connection.room().fits(self.bytes_of(name)) {
                break;
            }
            let (ticket, name, ours) = (*ticket, name.clone(), *ours);
            self.parked.remove(&ticket);
            self.set(ticket, name, ours, connection);
        }
        self.parked.trim();
        let parked = !self.parked.is_empty() || self.parked_listing.is_some();
        if parked && waits && !self.polling {
            self.polling = true;
            let path = &self.path;
            tracing::debug!(path = %Escaped(connection.below_chroot(path)), "the session has reached its maximum number of watches; polling instead");
            timers.set(Instant::now() + POLL_INTERVAL, Alarm::Poll(self.directory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_takes_as_much_room_as_its_path_is_long() {
        let name = NodeName::parse("lock-0000000001").unwrap();
        let watches = DirectoryWatches::new(DirectoryId::default(), "/locks/a".into());
        assert_eq!(watches.bytes_of(&name), "/locks/a/lock-0000000001".len());
    }
}
