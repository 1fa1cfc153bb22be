//! The nodes of other clients that a queue knows: the last listing, without the nodes that later
//! events reported as deleted (rule 5).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node_name::{Kind, NodeName};
use super::rare::{Empty, Rare};

/// The nodes of other clients, as seen on this connection. A new listing replaces the whole view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RemoteView {
    /// Nodes in the listing, in the order of the queue.
    listed: Arc<[NodeName]>,
    /// Nodes in the listing that block readers.
    writers: Arc<[NodeName]>,
    /// Changes since the listing.
    changes: Rare<Changes>,
}

/// Changes since a listing, from events and probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Changes {
    /// Nodes that an event or a probe reported as deleted.
    gone: BTreeSet<NodeName>,
    /// Number of nodes at the start of `listed` that are all gone. Queries start after them, so
    /// that they need not skip each of them again.
    passed: usize,
    /// The same number for `writers`.
    writers_passed: usize,
    /// Writers that an event reported as deleted. When Curator downgrades a writer, it first
    /// creates a reader with the writer's sequence number, and *then* deletes the writer's node. So
    /// these writers block exclusive waiters until a later listing shows neither the writer nor its
    /// reader (rule 6).
    vanished: BTreeSet<NodeName>,
    /// Nodes that an event reported as deleted. A node is removed from this set once a node of ours
    /// behind it is known to exist.
    subtracted: BTreeSet<NodeName>,
    /// Nodes that a probe has found since the last event.
    found: BTreeSet<NodeName>,
}

impl Empty for Changes {
    const EMPTY: &'static Self = &Self {
        gone: BTreeSet::new(),
        passed: 0,
        writers_passed: 0,
        vanished: BTreeSet::new(),
        subtracted: BTreeSet::new(),
        found: BTreeSet::new(),
    };

    fn is_unused(&self) -> bool {
        // The other fields follow from `gone`.
        self.gone.is_empty() && self.found.is_empty()
    }
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

    /// Frees the memory for changes if there are none.
    pub(super) fn trim(&mut self) {
        self.changes.trim();
    }

    /// Removes a node that is gone. Returns `true` if a new listing is needed, because a reader
    /// might have taken over the node's position in the queue (a downgrade).
    pub(super) fn subtract(&mut self, name: &NodeName) -> bool {
        // Forget the nodes that a probe found, because they might have been deleted since then.
        if let Some(changes) = self.changes.filled() {
            changes.found.clear();
        }
        if !self.contains(name) {
            return false;
        }
        let changes = &mut *self.changes;
        changes.gone.insert(name.clone());
        changes.passed = pass(&self.listed, &changes.gone, changes.passed);
        changes.writers_passed = pass(&self.writers, &changes.gone, changes.writers_passed);
        changes.subtracted.insert(name.clone());
        let writer = name.kind() == Kind::Write;
        if writer {
            changes.vanished.insert(name.clone());
        }
        writer
    }

    /// Notes that a probe has found that these nodes exist.
    pub(super) fn find(&mut self, names: impl IntoIterator<Item = NodeName>) {
        self.changes.found.extend(names);
    }

    /// Returns `true` if a probe has found a node since the last event.
    pub(super) fn found(&self, name: &NodeName) -> bool {
        self.changes.found.contains(name)
    }

    /// Returns `true` if an event has removed a node since the listing. Then more nodes might be
    /// gone than the view shows.
    pub(super) fn stale(&self) -> bool {
        !self.changes.subtracted.is_empty()
    }

    pub(super) fn stale_before(&self, name: &NodeName) -> bool {
        self.changes.subtracted.range(..name).next().is_some()
    }

    /// Records that our node at `name` is known to exist. This confirms that the nodes ahead of it
    /// are gone, but not that nodes behind it are gone.
    pub(super) fn confirm(&mut self, name: &NodeName) {
        if let Some(changes) = self.changes.filled() {
            changes.subtracted = changes.subtracted.split_off(name);
        }
    }

    pub(super) fn blocks(&self, name: &NodeName, kind: Kind) -> bool {
        match kind {
            Kind::Read => self.blocks_reader(name),
            // Permits are counted and have no order.
            Kind::Permit(_) => false,
            Kind::Exclusive | Kind::Write | Kind::Lead => self.blocks_exclusive(name),
        }
    }

    fn blocks_exclusive(&self, name: &NodeName) -> bool {
        self.all_before(name).next().is_some() || self.changes.vanished.range(..name).next().is_some()
    }

    /// Returns `true` if there is a writer ahead of the reader at `name`. A deleted writer does not
    /// count. Only a reader can have taken over its position, and readers do not block readers.
    fn blocks_reader(&self, name: &NodeName) -> bool {
        self.writers_before(name).next().is_some()
    }

    pub(super) fn contains(&self, name: &NodeName) -> bool {
        self.listed.binary_search(name).is_ok() && !self.changes.gone.contains(name)
    }

    pub(super) fn before(&self, name: &NodeName) -> Option<&NodeName> {
        self.all_before(name).next_back()
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &NodeName> {
        self.present(&self.listed[self.changes.passed..])
    }

    /// Returns all nodes that block readers.
    pub(super) fn all_writers(&self) -> impl DoubleEndedIterator<Item = &NodeName> {
        self.present(&self.writers[self.changes.writers_passed..])
    }

    /// Returns the nodes that are known to be before `name`.
    pub(super) fn all_before(&self, name: &NodeName) -> impl DoubleEndedIterator<Item = &NodeName> {
        let end = below(&self.listed, name).max(self.changes.passed);
        self.present(&self.listed[self.changes.passed..end])
    }

    /// Returns the nodes before `name` that block readers.
    pub(super) fn writers_before(&self, name: &NodeName) -> impl DoubleEndedIterator<Item = &NodeName> {
        let end = below(&self.writers, name).max(self.changes.writers_passed);
        self.present(&self.writers[self.changes.writers_passed..end])
    }

    pub(super) fn all_behind(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.present(&self.listed[below(&self.listed, name)..]).filter(move |node| *node != name)
    }

    /// Returns the nodes behind `name` that block readers.
    pub(super) fn writers_behind(&self, name: &NodeName) -> impl Iterator<Item = &NodeName> {
        self.present(&self.writers[below(&self.writers, name)..]).filter(move |node| *node != name)
    }

    fn present<'a>(&'a self, nodes: &'a [NodeName]) -> impl DoubleEndedIterator<Item = &'a NodeName> {
        nodes.iter().filter(|node| !self.changes.gone.contains(*node))
    }

    /// Returns `true` if a node blocks a new contender of this kind. Only writers block a reader.
    /// Any node blocks a contender of another kind.
    pub(super) fn blocks_newcomer(&self, kind: Kind) -> bool {
        let nodes = if kind == Kind::Read { &self.writers } else { &self.listed };
        self.present(nodes).next().is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.listed.len() - self.changes.gone.len()
    }

    /// Returns the number of nodes before `name`.
    pub(super) fn rank(&self, name: &NodeName) -> usize {
        below(&self.listed, name) - self.changes.gone.range(..name).count()
    }
}

/// Returns the number of nodes at the start of the slice that are all gone. At least the first
/// `passed` nodes are already known to be gone.
fn pass(nodes: &[NodeName], gone: &BTreeSet<NodeName>, passed: usize) -> usize {
    passed + nodes[passed..].iter().take_while(|node| gone.contains(*node)).count()
}

/// Returns the number of nodes before `name` in this sorted slice.
fn below(nodes: &[NodeName], name: &NodeName) -> usize {
    nodes.partition_point(|node| node < name)
}
