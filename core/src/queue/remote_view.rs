//! A queue's knowledge of other clients' nodes: the last listing, minus the events received after
//! it (rule 5).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node_name::{Kind, NodeName};

/// Other clients' nodes, as seen on this connection. A new listing replaces the whole view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RemoteView {
    /// Nodes in the listing, in the order of the queue.
    listed: Arc<[NodeName]>,
    /// Nodes in the listing that block readers.
    writers: Arc<[NodeName]>,
    /// Nodes reported deleted by an event or a probe.
    gone: BTreeSet<NodeName>,
    /// Number of nodes at the start of `listed` that are all gone, so that queries need not skip
    /// each of them again.
    passed: usize,
    /// The same number for `writers`.
    writers_passed: usize,
    /// Writers reported deleted by an event. When Curator downgrades, it puts a reader with the
    /// writer's number in the writer's place *before* it deletes the writer's node. So these
    /// writers block exclusive waiters until a later listing shows neither the writer nor its
    /// reader (rule 6).
    vanished: BTreeSet<NodeName>,
    /// Nodes reported deleted by an event, if the existence of the nodes behind them has not been
    /// checked since.
    subtracted: BTreeSet<NodeName>,
    /// Nodes that a probe has found since the last event.
    found: BTreeSet<NodeName>,
}

impl RemoteView {
    pub(super) fn new(mut nodes: Vec<NodeName>) -> Self {
        nodes.sort_unstable();
        // The default empty slice takes no memory.
        if nodes.is_empty() {
            return Self::default();
        }
        let writers = nodes.iter().filter(|node| node.kind() != Kind::Read).cloned().collect();
        Self { listed: nodes.into(), writers, ..Self::default() }
    }

    /// Removes a node that is gone. Returns `true` if only a new listing can show what that means.
    pub(super) fn subtract(&mut self, name: &NodeName) -> bool {
        // The nodes that a probe found might have been deleted since.
        self.found.clear();
        if !self.contains(name) {
            return false;
        }
        self.gone.insert(name.clone());
        self.passed = pass(&self.listed, &self.gone, self.passed);
        self.writers_passed = pass(&self.writers, &self.gone, self.writers_passed);
        self.subtracted.insert(name.clone());
        let writer = name.kind() == Kind::Write;
        if writer {
            self.vanished.insert(name.clone());
        }
        writer
    }

    /// Notes that a probe has found these nodes. They were not known to be gone.
    pub(super) fn find(&mut self, names: impl IntoIterator<Item = NodeName>) {
        self.found.extend(names);
    }

    /// Returns `true` if a probe has found a node since the last event.
    pub(super) fn found(&self, name: &NodeName) -> bool {
        self.found.contains(name)
    }

    /// Returns `true` if events were subtracted, so that more nodes might be gone than are known to
    /// be.
    pub(super) fn stale(&self) -> bool {
        !self.subtracted.is_empty()
    }

    /// Returns `true` if an event since the listing removed a node before `name`.
    pub(super) fn stale_before(&self, name: &NodeName) -> bool {
        self.subtracted.range(..name).next().is_some()
    }

    /// Notes that our node at `name` is known to exist. The events about the nodes before it are
    /// therefore true. They prove nothing about the nodes behind it.
    pub(super) fn confirm(&mut self, name: &NodeName) {
        self.subtracted = self.subtracted.split_off(name);
    }

    /// Returns `true` if a node before `name` cannot hold the lock together with it.
    pub(super) fn blocks(&self, name: &NodeName, kind: Kind) -> bool {
        match kind {
            Kind::Read => self.blocks_reader(name),
            // Permits are counted and have no order.
            Kind::Permit(_) => false,
            Kind::Exclusive | Kind::Write | Kind::Lead => self.blocks_exclusive(name),
        }
    }

    fn blocks_exclusive(&self, name: &NodeName) -> bool {
        self.all_before(name).next().is_some() || self.vanished.range(..name).next().is_some()
    }

    /// Returns `true` if a reader at `name` has a writer before it. A deleted writer no longer
    /// blocks readers, because only a reader can have taken its place.
    fn blocks_reader(&self, name: &NodeName) -> bool {
        self.writers_before(name).next().is_some()
    }

    pub(super) fn contains(&self, name: &NodeName) -> bool {
        self.listed.binary_search(name).is_ok() && !self.gone.contains(name)
    }

    /// Returns the nearest node before `name`.
    pub(super) fn before(&self, name: &NodeName) -> Option<&NodeName> {
        self.all_before(name).next_back()
    }

    /// Returns all nodes.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &NodeName> {
        self.present(&self.listed[self.passed..])
    }

    /// Returns all nodes that block readers.
    pub(super) fn all_writers(&self) -> impl DoubleEndedIterator<Item = &NodeName> {
        self.present(&self.writers[self.writers_passed..])
    }

    /// Returns the nodes that are known to be before `name`.
    pub(super) fn all_before(&self, name: &NodeName) -> impl DoubleEndedIterator<Item = &NodeName> {
        let end = below(&self.listed, name).max(self.passed);
        self.present(&self.listed[self.passed..end])
    }

    /// Returns the nodes before `name` that block readers.
    pub(super) fn writers_before(&self, name: &NodeName) -> impl DoubleEndedIterator<Item = &NodeName> {
        let end = below(&self.writers, name).max(self.writers_passed);
        self.present(&self.writers[self.writers_passed..end])
    }

    /// Returns the nodes behind `name`.
    pub(super) fn all_behind(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.present(&self.listed[below(&self.listed, name)..]).filter(move |node| *node != name)
    }

    /// Returns the nodes behind `name` that block readers.
    pub(super) fn writers_behind(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.present(&self.writers[below(&self.writers, name)..]).filter(move |node| *node != name)
    }

    fn present<'a>(&'a self, nodes: &'a [NodeName]) -> impl DoubleEndedIterator<Item = &'a NodeName> {
        nodes.iter().filter(|node| !self.gone.contains(*node))
    }

    /// Returns `true` if there is any node. For a reader, only nodes that block readers count.
    pub(super) fn blocks_newcomer(&self, kind: Kind) -> bool {
        let nodes = if kind == Kind::Read { &self.writers } else { &self.listed };
        self.present(nodes).next().is_some()
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.listed.len() - self.gone.len()
    }

    /// Returns the number of nodes before `name`.
    pub(super) fn rank(&self, name: &NodeName) -> usize {
        below(&self.listed, name) - self.gone.range(..name).count()
    }
}

/// Returns the number of nodes at the start that are gone. At least `passed` of them are.
fn pass(nodes: &[NodeName], gone: &BTreeSet<NodeName>, passed: usize) -> usize {
    passed + nodes[passed..].iter().take_while(|node| gone.contains(*node)).count()
}

/// Returns the number of nodes before `name` in this sorted slice.
fn below(nodes: &[NodeName], name: &NodeName) -> usize {
    nodes.partition_point(|node| node < name)
}
