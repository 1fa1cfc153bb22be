//! The watches of one lock directory on the server.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::link::Link;
use super::timers::{Alarm, Timers};
use crate::queue::{NodeName, Ticket};

/// How often a queue that cannot watch polls.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A watch on the server.
struct Watch {
    task: AbortHandle,
    /// The length of its path.
    bytes: usize,
}

pub(super) struct Watches {
    /// The directory.
    path: Arc<str>,
    set: HashMap<Ticket, Watch>,
    /// The watches for which there is no room on the session.
    parked: BTreeMap<Ticket, NodeName>,
    /// Whether the queue will poll, because watches are parked.
    polling: bool,
    /// The room of the watches that ended, in bytes.
    freed: usize,
}

impl Watches {
    pub(super) fn new(path: Arc<str>) -> Self {
        Self { path, set: HashMap::new(), parked: BTreeMap::new(), polling: false, freed: 0 }
    }

    fn bytes_of(&self, name: &NodeName) -> usize {
        self.path.len() + 1 + name.as_str().len()
    }

    /// Sets a watch, or parks it until there is room.
    pub(super) fn set(&mut self, ticket: Ticket, name: NodeName, link: &mut Link) {
        let bytes = self.bytes_of(&name);
        match link.wire(&self.path) {
            Some(wire) if link.reserve_watch(bytes) => {
                let task = link.spawn(wire.watch(ticket, name));
                self.set.insert(ticket, Watch { task, bytes });
            }
            Some(_) => drop(self.parked.insert(ticket, name)),
            // Without a session the queue asks for nothing; what it asked for before is forgotten with the session.
            None => {}
        }
    }

    /// Notes the watch on the children, which a task has set.
    pub(super) fn add_listing(&mut self, ticket: Ticket, task: AbortHandle) {
        // One at a time in a directory: not worth counting.
        self.set.insert(ticket, Watch { task, bytes: 0 });
    }

    /// Drops a watch.
    pub(super) fn unset(&mut self, ticket: Ticket) {
        self.parked.remove(&ticket);
        if let Some(watch) = self.set.get(&ticket) {
            watch.task.abort();
        }
        self.ended(ticket);
    }

    /// A watch has fired, or was never set.
    pub(super) fn ended(&mut self, ticket: Ticket) {
        if let Some(watch) = self.set.remove(&ticket) {
            self.freed += watch.bytes;
        }
    }

    /// The session is over, and all watches with it.
    pub(super) fn forget(&mut self) {
        self.set.clear();
        self.parked.clear();
        self.freed = 0;
    }

    /// The queue has polled.
    pub(super) fn polled(&mut self) {
        self.polling = false;
    }

    /// Returns room, and tries to set the parked watches.
    pub(super) fn settle(&mut self, link: &mut Link, timers: &mut Timers) {
        link.free_watches(std::mem::take(&mut self.freed));
        while let Some((ticket, name)) = self.parked.first_key_value()
            && link.has_room_for_watch(self.bytes_of(name))
        {
            let (ticket, name) = (*ticket, name.clone());
            self.parked.remove(&ticket);
            self.set(ticket, name, link);
        }
        if !self.parked.is_empty() && !self.polling {
            self.polling = true;
            let path = &self.path;
            tracing::debug!(%path, "no room for more watches on one session: polling");
            timers.set(Instant::now() + POLL_INTERVAL, Alarm::Poll(Arc::clone(path)));
        }
    }

    /// The room that they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.set.values().map(|watch| watch.bytes).sum()
    }
}
