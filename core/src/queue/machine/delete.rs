//! Releases locks and deletes nodes. An unneeded node is deleted repeatedly until the node or the
//! session is gone (rules 9 and 13).

use std::ops::Deref;

use super::Queue;
use crate::queue::action::Action;
use crate::queue::event::{Outcome, Ticket};
use crate::queue::node_name::NodeName;
use crate::queue::rare::Empty;
use crate::queue::small_map::{SmallMap, SmallSet};

impl Queue {
    pub(super) fn release(&mut self, name: NodeName) {
        let Some(id) = self.holder(&name) else {
            // The hold is already lost, and the node is gone.
            return self.actions.push_back(Action::Released(name));
        };
        // Delete the writer's node only when the reader that gets its position exists. If it were
        // deleted earlier, another writer could acquire the lock (rule 4).
        if self.is_downgrading(&name) {
            self.entries.change(id, |join| join.leaving = true);
            return;
        }
        self.entries.remove(id);
        self.request_delete_as(name, true);
    }

    /// Queues a node for deletion. It must have no holder and no waiter.
    pub(super) fn request_delete(&mut self, name: NodeName) {
        self.request_delete_as(name, false);
    }

    fn request_delete_as(&mut self, name: NodeName, released: bool) {
        self.deletes.add(name, released);
    }

    pub(super) fn send_deletes(&mut self) {
        let unsent = self.deletes.filled().map(PendingDeletes::take_unsent).unwrap_or_default();
        for name in unsent {
            let ticket = self.ticket();
            self.deletes.send(ticket, name.clone());
            self.actions.push_back(Action::Delete(ticket, name));
        }
    }

    pub(super) fn deleted(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        let Some(name) = self.deletes.filled().and_then(|deletes| deletes.answered(ticket)) else { return };
        match outcome {
            Outcome::Lost => self.deletes.retry(name),
            // The caller that released the lock stops waiting. The node still blocks all other
            // contenders until it is deleted or the session ends.
            Outcome::Refused(_) => {
                if self.deletes.refuse(&name) {
                    self.actions.push_back(Action::Released(name));
                }
            }
            Outcome::Done(()) | Outcome::NoNode => {
                self.watched_node_removed(&name);
                if self.deletes.remove(&name).is_some_and(|delete| delete.released) {
                    self.actions.push_back(Action::Released(name));
                }
            }
        }
    }

    pub(super) fn retry_refused_deletes(&mut self) {
        if let Some(deletes) = self.deletes.filled() {
            deletes.retry_refused();
        }
    }
}

/// The nodes to be deleted. There can be thousands, and each reply concerns one of them, so they
/// are indexed by the ticket of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PendingDeletes {
    all: SmallMap<NodeName, PendingDelete>,
    unsent: SmallSet<NodeName>,
    sent: SmallMap<Ticket, NodeName>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingDelete {
    /// `true` if the node's hold was released and a caller waits until the node is deleted.
    pub(super) released: bool,
    /// `true` if the server refused the delete. The queue sends the delete again when it next lists
    /// or checks the directory.
    refused: bool,
}

impl PendingDeletes {
    /// Adds a node, unless it is already included.
    pub(super) fn add(&mut self, name: NodeName, released: bool) {
        if !self.all.contains_key(&name) {
            self.unsent.insert(name.clone());
            self.all.insert(name, PendingDelete { released, refused: false });
        }
    }

    /// Removes and returns the nodes whose delete request has not been sent. The caller must call
    /// [`send`](Self::send) for each delete request that it queues.
    pub(super) fn take_unsent(&mut self) -> SmallSet<NodeName> {
        std::mem::take(&mut self.unsent)
    }

    pub(super) fn send(&mut self, ticket: Ticket, name: NodeName) {
        self.sent.insert(ticket, name);
    }

    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<NodeName> {
        self.sent.remove(&ticket)
    }

    /// Queues a delete again, because its reply was lost.
    pub(super) fn retry(&mut self, name: NodeName) {
        self.unsent.insert(name);
    }

    /// Records that the server refuses to delete a node. Returns `true` if a caller was waiting for
    /// the deletion. That caller then stops waiting.
    pub(super) fn refuse(&mut self, name: &NodeName) -> bool {
        self.all.get_mut(name).is_some_and(|delete| {
            delete.refused = true;
            std::mem::take(&mut delete.released)
        })
    }

    /// Queues the refused deletes again.
    pub(super) fn retry_refused(&mut self) {
        for (name, delete) in self.all.iter_mut() {
            if std::mem::take(&mut delete.refused) {
                self.unsent.insert(name.clone());
            }
        }
    }

    pub(super) fn remove(&mut self, name: &NodeName) -> Option<PendingDelete> {
        self.all.remove(name)
    }

    /// Forgets all nodes. Returns those whose callers wait.
    pub(super) fn take_released(&mut self) -> impl Iterator<Item = NodeName> + use<> {
        let all = std::mem::take(self).all.into_iter();
        all.filter(|(_, delete)| delete.released).map(|(name, _)| name)
    }
}

impl Empty for PendingDeletes {
    const EMPTY: &'static Self =
        &Self { all: SmallMap::Few(None), unsent: SmallSet::EMPTY, sent: SmallMap::Few(None) };

    fn is_unused(&self) -> bool {
        self.all.is_empty() && self.unsent.is_empty() && self.sent.is_empty()
    }
}

impl Deref for PendingDeletes {
    type Target = SmallMap<NodeName, PendingDelete>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}
