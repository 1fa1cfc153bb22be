//! Records the events and actions of a queue. The mutants, which plant mistakes, need these
//! records.

use std::collections::{BTreeMap, BTreeSet};

use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Ticket};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    /// Pending downgrades: readers that do not hold the lock yet, each with the node of the writer
    /// whose position in the queue it takes over.
    downgrades: BTreeMap<JoinId, NodeName>,
    /// Tries without a reply.
    tries: BTreeMap<JoinId, (Naming, Kind)>,
    /// The name prefixes (before the sequence number) of the requested nodes.
    prefixes: BTreeMap<Ticket, (JoinId, String)>,
    /// The node of each waiting contender, and its czxid.
    pub(super) waiting: BTreeMap<JoinId, (NodeName, i64)>,
    pub(super) held: BTreeSet<NodeName>,
    /// Watches that were requested and have not fired.
    pub(super) watches: BTreeMap<Ticket, NodeName>,
    /// The children in the last listing.
    children: BTreeSet<NodeName>,
    /// The requests in flight, each with the event that reports its loss.
    under_way: BTreeMap<Ticket, Event>,
}

impl Ledger {
    pub(super) fn hear(&mut self, event: &Event) {
        match event {
            Event::Join(join, naming, kind, Intent::Try) => {
                self.tries.insert(*join, (*naming, *kind));
            }
            Event::Join(join, _, _, Intent::Downgrade { writer, .. }) => {
                self.downgrades.insert(*join, (**writer).clone());
            }
            Event::Downgrade(join, writer) => {
                self.downgrades.insert(*join, writer.clone());
            }
            Event::Leave(join) => self.forget(*join),
            Event::Release(node) => drop(self.held.remove(node)),
            Event::Created(ticket, outcome) => {
                if let (Outcome::Done((name, czxid)), Some((join, _))) = (outcome, self.prefixes.get(ticket))
                {
                    self.waiting.extend(NodeName::parse(name).map(|name| (*join, (name, *czxid))));
                }
                self.under_way.remove(ticket);
            }
            Event::Listed(ticket, outcome) => {
                if let Outcome::Done(children) = outcome {
                    self.children = children.iter().filter_map(|child| NodeName::parse(child)).collect();
                }
                self.under_way.remove(ticket);
            }
            Event::Watched(ticket, outcome) => {
                self.under_way.remove(ticket);
                if *outcome != Outcome::Done(()) {
                    self.watches.remove(ticket);
                }
            }
            Event::Gone(ticket) | Event::Changed(ticket) => drop(self.watches.remove(ticket)),
            Event::CheckForbidden(ticket)
            | Event::ParentsMade(ticket, _)
            | Event::Verified(ticket, _)
            | Event::Probed(ticket, _)
            | Event::Deleted(ticket, _) => {
                self.under_way.remove(ticket);
            }
            _ => {}
        }
    }

    pub(super) fn note(&mut self, action: &Action) {
        match action {
            Action::Create(ticket, join, name) | Action::CreateInPlace(ticket, join, name, _) => {
                self.prefixes.insert(*ticket, (*join, name.clone()));
            }
            Action::Watch(ticket, node) => drop(self.watches.insert(*ticket, node.clone())),
            Action::Unwatch(ticket) => drop(self.watches.remove(ticket)),
            Action::Grant(join, node, _) => {
                self.forget(*join);
                self.held.insert(node.clone());
            }
            Action::Refuse(join, _) => self.forget(*join),
            Action::NodeLost(node) => drop(self.held.remove(node)),
            _ => {}
        }
        self.under_way.extend(lost(action));
    }

    fn forget(&mut self, join: JoinId) {
        self.downgrades.remove(&join);
        self.tries.remove(&join);
        self.waiting.remove(&join);
    }

    pub(super) fn downgrading(&self, writer: &NodeName) -> Vec<JoinId> {
        self.downgrades.iter().filter(|(_, of)| *of == writer).map(|(join, _)| *join).collect()
    }

    pub(super) fn tries(&self) -> Vec<(JoinId, Naming, Kind)> {
        self.tries.iter().map(|(join, (naming, kind))| (*join, *naming, *kind)).collect()
    }

    /// Returns `true` if there are tries (acquires that do not wait) and no node was ever
    /// requested.
    pub(super) fn only_looks(&self) -> bool {
        !self.tries.is_empty() && !self.is_creating()
    }

    /// Returns the first contender that waits with a node, and that node.
    pub(super) fn first_waiter(&self) -> Option<(JoinId, NodeName, i64)> {
        let (join, (node, czxid)) = self.waiting.iter().min_by_key(|(_, (node, _))| node)?;
        Some((*join, node.clone(), *czxid))
    }

    pub(super) fn is_creating(&self) -> bool {
        !self.prefixes.is_empty()
    }

    pub(super) fn awaits_create(&self) -> bool {
        self.under_way.values().any(|event| matches!(event, Event::Created(..)))
    }

    pub(super) fn is_listing(&self) -> bool {
        self.under_way.values().any(|event| matches!(event, Event::Listed(..)))
    }

    /// Returns the child before a node in the last listing.
    pub(super) fn before(&self, node: &NodeName) -> Option<&NodeName> {
        self.children.range(..node).next_back()
    }

    /// Returns `true` if a node with this name was requested.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.prefixes.values().any(|(_, prefix)| name.starts_with(prefix))
    }

    /// Returns `true` if a node with this name was requested and the result is not known.
    pub(super) fn is_unanswered(&self, name: &str) -> bool {
        let mut unanswered = self.under_way.keys().filter_map(|ticket| self.prefix(*ticket));
        unanswered.any(|prefix| name.starts_with(prefix))
    }

    pub(super) fn prefix(&self, create: Ticket) -> Option<&str> {
        self.prefixes.get(&create).map(|(_, prefix)| prefix.as_str())
    }

    /// Removes the requests in flight and the watches, which end with a connection. Returns the
    /// events that report their loss.
    pub(super) fn lose_all(&mut self) -> Vec<Event> {
        let lost = std::mem::take(&mut self.under_way).into_values();
        let watches = std::mem::take(&mut self.watches).into_keys();
        lost.chain(watches.map(|ticket| Event::Watched(ticket, Outcome::Lost))).collect()
    }
}

/// Returns the event that reports the loss of a request's reply.
fn lost(action: &Action) -> Option<(Ticket, Event)> {
    match action {
        Action::Create(ticket, ..) | Action::CreateInPlace(ticket, ..) => {
            Some((*ticket, Event::Created(*ticket, Outcome::Lost)))
        }
        Action::MakeParents(ticket) => Some((*ticket, Event::ParentsMade(*ticket, Outcome::Lost))),
        Action::List { ticket, .. } | Action::ListAndWatch { ticket, .. } => {
            Some((*ticket, Event::Listed(*ticket, Outcome::Lost)))
        }
        Action::Verify(ticket, _) => Some((*ticket, Event::Verified(*ticket, Outcome::Lost))),
        Action::Probe(ticket, _) => Some((*ticket, Event::Probed(*ticket, Outcome::Lost))),
        Action::Watch(ticket, _) => Some((*ticket, Event::Watched(*ticket, Outcome::Lost))),
        Action::Delete(ticket, _) => Some((*ticket, Event::Deleted(*ticket, Outcome::Lost))),
        _ => None,
    }
}
