//! Releases and deletes: a node that is no longer wanted is deleted until it or the session is gone (rules 9 and 13).

use std::ops::Deref;

use super::Queue;
use crate::queue::action::Action;
use crate::queue::event::{Outcome, Ticket};
use crate::queue::node_name::NodeName;
use crate::queue::small_map::{SmallMap, SmallSet};

impl Queue {
    pub(super) fn release(&mut self, name: NodeName) {
        let Some(id) = self.holder(&name) else {
            // Already lost: the node is gone.
            return self.actions.push_back(Action::Released(name));
        };
        // The reader that takes its place must exist before it goes, or a writer could slip in between (rule 4).
        if self.is_downgrading(&name) {
            self.entries.change(id, |join| join.leaving = true);
            return;
        }
        self.entries.remove(id);
        self.doom_as(name, true);
    }

    /// Has a node deleted. No one holds through it, or waits there.
    pub(super) fn doom(&mut self, name: NodeName) {
        self.doom_as(name, false);
    }

    fn doom_as(&mut self, name: NodeName, released: bool) {
        self.doomed.add(name, released);
    }

    pub(super) fn send_deletes(&mut self) {
        for name in self.doomed.take_unsent() {
            let ticket = self.ticket();
            self.doomed.send(ticket, name.clone());
            self.actions.push_back(Action::Delete(ticket, name));
        }
    }

    pub(super) fn deleted(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        let Some(name) = self.doomed.answered(ticket) else { return };
        match outcome {
            Outcome::Lost => self.doomed.retry(name),
            // Its owner need not wait, but it blocks all others until it can be deleted or the session ends.
            Outcome::Refused(_) => {
                if self.doomed.refuse(&name) {
                    self.actions.push_back(Action::Released(name));
                }
            }
            Outcome::Done(()) | Outcome::NoNode => {
                self.watch_went(&name);
                if self.doomed.remove(&name).is_some_and(|doomed| doomed.released) {
                    self.actions.push_back(Action::Released(name));
                }
            }
        }
    }

    pub(super) fn retry_refused_deletes(&mut self) {
        self.doomed.retry_refused();
    }
}

/// The nodes. Thousands may be deleted at once, and each answer concerns one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PendingDeletes {
    all: SmallMap<NodeName, Doomed>,
    /// Nodes whose delete is to be sent.
    unsent: SmallSet<NodeName>,
    /// Nodes whose delete is under way.
    sent: SmallMap<Ticket, NodeName>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Doomed {
    /// Its hold was released, and the caller that released it waits until the node is deleted.
    pub(super) released: bool,
    /// The server refused: tried again at the next look.
    refused: bool,
}

impl PendingDeletes {
    /// Adds a node, if it is not among them yet.
    pub(super) fn add(&mut self, name: NodeName, released: bool) {
        if !self.all.contains_key(&name) {
            self.unsent.insert(name.clone());
            self.all.insert(name, Doomed { released, refused: false });
        }
    }

    /// Nodes whose delete is to be sent. [`send`](Self::send) notes each that is.
    pub(super) fn take_unsent(&mut self) -> SmallSet<NodeName> {
        std::mem::take(&mut self.unsent)
    }

    pub(super) fn send(&mut self, ticket: Ticket, name: NodeName) {
        self.sent.insert(ticket, name);
    }

    /// The node whose delete had this ticket, which is answered.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<NodeName> {
        self.sent.remove(&ticket)
    }

    /// A delete was not carried out, as far as is known: sent again.
    pub(super) fn retry(&mut self, name: NodeName) {
        self.unsent.insert(name);
    }

    /// The server refuses to delete a node. Returns whether a caller waits for it, which waits no longer.
    pub(super) fn refuse(&mut self, name: &NodeName) -> bool {
        self.all.get_mut(name).is_some_and(|doomed| {
            doomed.refused = true;
            std::mem::take(&mut doomed.released)
        })
    }

    /// Sends those again that the server refused to delete.
    pub(super) fn retry_refused(&mut self) {
        for (name, doomed) in self.all.iter_mut() {
            if std::mem::take(&mut doomed.refused) {
                self.unsent.insert(name.clone());
            }
        }
    }

    /// A node is gone.
    pub(super) fn remove(&mut self, name: &NodeName) -> Option<Doomed> {
        self.all.remove(name)
    }

    /// Forgets all; returns those whose callers wait.
    pub(super) fn take_released(&mut self) -> impl Iterator<Item = NodeName> + use<> {
        let all = std::mem::take(self).all.into_iter();
        all.filter(|(_, doomed)| doomed.released).map(|(name, _)| name)
    }
}

impl Deref for PendingDeletes {
    type Target = SmallMap<NodeName, Doomed>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}
