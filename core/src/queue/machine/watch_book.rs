//! Which watches are set.

use std::ops::Deref;

use super::super::event::Ticket;
use super::super::few::{Map, Set};
use super::super::name::NodeName;

/// The watches, and where they may have to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WatchBook {
    set: Map<NodeName, Watch>,
    by_ticket: Map<Ticket, NodeName>,
    /// Nodes at which something changed since the watches were last adjusted.
    changed: Set<NodeName>,
    /// Whether everything may have changed since.
    all_changed: bool,
    /// Whether they were last adjusted to a directory of permits.
    permits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub(super) ticket: Ticket,
    /// Acknowledged by the server.
    pub(super) armed: bool,
}

impl WatchBook {
    pub(super) fn add(&mut self, name: NodeName, ticket: Ticket) {
        self.by_ticket.insert(ticket, name.clone());
        self.set.insert(name, Watch { ticket, armed: false });
    }

    /// The watch with this ticket is acknowledged.
    pub(super) fn arm(&mut self, ticket: Ticket) {
        if let Some(watch) = self.by_ticket.get(&ticket).and_then(|name| self.set.get_mut(name)) {
            watch.armed = true;
        }
    }

    pub(super) fn remove(&mut self, name: &NodeName) -> Option<Watch> {
        let watch = self.set.remove(name)?;
        self.by_ticket.remove(&watch.ticket);
        self.changed.insert(name.clone());
        Some(watch)
    }

    /// The node of the watch with this ticket.
    pub(super) fn name(&self, ticket: Ticket) -> Option<&NodeName> {
        self.by_ticket.get(&ticket)
    }

    /// Forgets the watch with this ticket. Returns the name of its node.
    pub(super) fn remove_ticket(&mut self, ticket: Ticket) -> Option<NodeName> {
        let name = self.by_ticket.get(&ticket)?.clone();
        self.remove(&name);
        Some(name)
    }

    /// The session is over, and all watches with it.
    pub(super) fn clear(&mut self) {
        *self = Self { all_changed: true, ..Self::default() };
    }

    /// Everything may have changed.
    pub(super) fn look_at_all(&mut self) {
        self.changed.clear();
        self.all_changed = true;
    }

    /// Something is to be looked at again when the watches are next adjusted.
    pub(super) fn look_at(&mut self, names: impl IntoIterator<Item = NodeName>) {
        self.changed.extend(names);
    }

    /// Where something changed since the last call; `None` if that may be anywhere. `permits`: whether this is a
    /// directory of permits.
    pub(super) fn take_changed(&mut self, permits: bool) -> Option<Set<NodeName>> {
        let all = std::mem::take(&mut self.all_changed)
            | (std::mem::replace(&mut self.permits, permits) != permits);
        let changed = std::mem::take(&mut self.changed);
        (!all).then_some(changed)
    }
}

impl Deref for WatchBook {
    type Target = Map<NodeName, Watch>;

    fn deref(&self) -> &Self::Target {
        &self.set
    }
}
