//! What a queue knows of other clients' nodes: the last listing, less the events received after it (rule 5).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node_name::{Kind, NodeName};

/// Other clients' nodes, as seen on this connection. A new listing makes a new view: nothing survives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RemoteView {
    /// Those that the listing showed, in the order of the queue.
    listed: Arc<[NodeName]>,
    /// Those of them that block readers.
    writers: Arc<[NodeName]>,
    /// Those reported deleted, by an event or by a probe.
    gone: BTreeSet<NodeName>,
    /// So many from the first on are gone: those that wait behind them need not pass over each of them again.
    passed: usize,
    /// The same of the writers.
    writers_passed: usize,
    /// Writers reported deleted by an event. Curator downgrades by putting a reader with the writer's own number in its
    /// place *before* the writer's node goes, so they block exclusive waiters until a listing received after the event
    /// shows neither them nor their reader (rule 6).
    vanished: BTreeSet<NodeName>,
    /// The nodes reported deleted by an event. What stands behind them has not been checked since.
    subtracted: BTreeSet<NodeName>,
    /// Those that a probe has found since the last event.
    found: BTreeSet<NodeName>,
}

impl RemoteView {
    pub(super) fn new(mut nodes: Vec<NodeName>) -> Self {
        nodes.sort_unstable();
        // An empty slice by default takes no memory.
        if nodes.is_empty() {
            return Self::default();
        }
        let writers = nodes.iter().filter(|node| node.kind() != Kind::Read).cloned().collect();
        Self { listed: nodes.into(), writers, ..Self::default() }
    }

    /// Takes out a node that is gone. Returns whether only a new listing can tell what that means.
    pub(super) fn subtract(&mut self, name: &NodeName) -> bool {
        // Others may have gone since they were found.
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

    /// A probe has found these: they were not known to be gone.
    pub(super) fn find(&mut self, names: impl IntoIterator<Item = NodeName>) {
        self.found.extend(names);
    }

    /// Whether a probe has found a node since the last event.
    pub(super) fn found(&self, name: &NodeName) -> bool {
        self.found.contains(name)
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
            Kind::Exclusive | Kind::Write | Kind::Lead => self.blocks_exclusive(name),
        }
    }

    fn blocks_exclusive(&self, name: &NodeName) -> bool {
        self.all_before(name).next().is_some() || self.vanished.range(..name).next().is_some()
    }

    /// Whether a reader at `name` has a writer before it. A deleted one no longer blocks readers: whatever took its
    /// place is a reader too.
    fn blocks_reader(&self, name: &NodeName) -> bool {
        self.writers_before(name).next().is_some()
    }

    pub(super) fn contains(&self, name: &NodeName) -> bool {
        self.listed.binary_search(name).is_ok() && !self.gone.contains(name)
    }

    /// The nearest node before `name`.
    pub(super) fn before(&self, name: &NodeName) -> Option<&NodeName> {
        self.all_before(name).next_back()
    }

    /// All nodes.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &NodeName> {
        self.present(&self.listed[self.passed..])
    }

    /// All nodes that block readers.
    pub(super) fn all_writers(&self) -> impl DoubleEndedIterator<Item = &NodeName> {
        self.present(&self.writers[self.writers_passed..])
    }

    /// The nodes before `name`, as far as is known.
    pub(super) fn all_before(&self, name: &NodeName) -> impl DoubleEndedIterator<Item = &NodeName> {
        let end = below(&self.listed, name).max(self.passed);
        self.present(&self.listed[self.passed..end])
    }

    /// The nodes before `name` that block readers.
    pub(super) fn writers_before(&self, name: &NodeName) -> impl DoubleEndedIterator<Item = &NodeName> {
        let end = below(&self.writers, name).max(self.writers_passed);
        self.present(&self.writers[self.writers_passed..end])
    }

    /// The nodes behind `name`.
    pub(super) fn all_behind(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.present(&self.listed[below(&self.listed, name)..]).filter(move |node| *node != name)
    }

    /// The nodes behind `name` that block readers.
    pub(super) fn writers_behind(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.present(&self.writers[below(&self.writers, name)..]).filter(move |node| *node != name)
    }

    fn present<'a>(&'a self, nodes: &'a [NodeName]) -> impl DoubleEndedIterator<Item = &'a NodeName> {
        nodes.iter().filter(|node| !self.gone.contains(*node))
    }

    /// Whether there is any node, or one that blocks readers.
    pub(super) fn blocks_newcomer(&self, kind: Kind) -> bool {
        let nodes = if kind == Kind::Read { &self.writers } else { &self.listed };
        self.present(nodes).next().is_some()
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.listed.len() - self.gone.len()
    }

    /// How many nodes are before `name`.
    pub(super) fn rank(&self, name: &NodeName) -> usize {
        below(&self.listed, name) - self.gone.range(..name).count()
    }
}

/// How many from the first on are gone, if at least so many are.
fn pass(nodes: &[NodeName], gone: &BTreeSet<NodeName>, passed: usize) -> usize {
    passed + nodes[passed..].iter().take_while(|node| gone.contains(*node)).count()
}

/// How many of these nodes, which are in order, are before `name`.
fn below(nodes: &[NodeName], name: &NodeName) -> usize {
    nodes.partition_point(|node| node < name)
}
