//! What a queue knows of other clients' nodes: the last listing, less the events received after it (rule 5).

use std::collections::BTreeSet;

use super::name::{Kind, NodeName};

/// Other clients' nodes, as seen on this connection. A new listing makes a new view: nothing survives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct View {
    nodes: BTreeSet<NodeName>,
    /// Writers reported deleted by an event. Curator downgrades by putting a reader with the writer's own number in its
    /// place *before* the writer's node goes, so they block exclusive waiters until a listing received after the event
    /// shows neither them nor their reader (rule 6).
    vanished: BTreeSet<NodeName>,
    /// The nodes reported deleted by an event. What stands behind them has not been checked since.
    subtracted: BTreeSet<NodeName>,
}

impl View {
    pub(super) fn new(nodes: BTreeSet<NodeName>) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Takes out a node that is gone. Returns whether only a new listing can tell what that means.
    pub(super) fn subtract(&mut self, name: &NodeName) -> bool {
        if !self.nodes.remove(name) {
            return false;
        }
        self.subtracted.insert(name.clone());
        let writer = name.kind() == Kind::Write;
        if writer {
            self.vanished.insert(name.clone());
        }
        writer
    }

    /// Whether events were subtracted, so that more nodes may be gone than are known to be.
    pub(super) fn stale(&self) -> bool {
        !self.subtracted.is_empty()
    }

    /// Whether an event since the listing changed what stands before `name`.
    pub(super) fn stale_before(&self, name: &NodeName) -> bool {
        self.subtracted.range(..name).next().is_some()
    }

    /// Our node at `name` is known to exist, so what the events say about the nodes before it is true. They say nothing
    /// about those behind it.
    pub(super) fn confirm(&mut self, name: &NodeName) {
        self.subtracted = self.subtracted.split_off(name);
    }

    /// Whether a contender at `name` has another before it that it cannot hold with.
    pub(super) fn blocks(&self, name: &NodeName, kind: Kind) -> bool {
        match kind {
            Kind::Read => self.blocks_reader(name),
            // Counted, not ordered.
            Kind::Permit(_) => false,
            Kind::Exclusive | Kind::Write => self.blocks_exclusive(name),
        }
    }

    fn blocks_exclusive(&self, name: &NodeName) -> bool {
        self.nodes.range(..name).next().is_some() || self.vanished.range(..name).next().is_some()
    }

    /// Whether a reader at `name` has a writer before it. A deleted one no longer blocks readers: whatever took its
    /// place is a reader too.
    fn blocks_reader(&self, name: &NodeName) -> bool {
        self.nodes.range(..name).any(|node| node.kind() != Kind::Read)
    }

    /// The nearest node before `name`.
    pub(super) fn before(&self, name: &NodeName) -> Option<&NodeName> {
        self.nodes.range(..name).next_back()
    }

    /// The nodes that block readers.
    pub(super) fn writers(&self) -> impl DoubleEndedIterator<Item = &NodeName> {
        self.nodes.iter().filter(|node| node.kind() != Kind::Read)
    }

    pub(super) fn nodes(&self) -> impl DoubleEndedIterator<Item = &NodeName> {
        self.nodes.iter()
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes before `name`, as far as is known.
    pub(super) fn all_before(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.nodes.range(..name)
    }
}
