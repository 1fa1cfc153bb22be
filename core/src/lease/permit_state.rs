//! The state of permits that all semaphores of a client in one directory share.

use std::sync::{Arc, PoisonError};

use crate::queue::NodeName;
use crate::queue::contender::{Contender, NodeSnapshot};
use crate::runtime::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Notify};

/// Maximum number of permit nodes to remember.
const MAX_REMEMBERED_NODES: usize = 1_000;

/// The shared state of the semaphores in one directory, apart from their leases.
#[derive(Default)]
pub(crate) struct PermitState {
    /// Notified when a listing shows waiting contenders of this client.
    pub(crate) waiting: Notify,
    /// The number of permits that this client last compared with the numbers in other contenders'
    /// nodes, or 0 before the first comparison.
    pub(crate) compared: AtomicU32,
    /// True if a node with a number of permits was found.
    pub(crate) number_seen: AtomicBool,
    /// The nodes that existed when a contender of this client last began to wait for permits.
    ///
    /// While this contender waits, no other client adds nodes. If a node of this list still exists,
    /// it is the node of a held permit (rule 17).
    seen: Mutex<Option<NodeSnapshots>>,
}

/// Node names, each with a snapshot of the node.
struct NodeSnapshots(Vec<(NodeName, Arc<NodeSnapshot>)>);

impl PermitState {
    /// Remembers these nodes.
    pub(crate) fn remember(&self, contenders: &[Contender]) {
        let seen = contenders.iter().take(MAX_REMEMBERED_NODES).filter_map(|contender| {
            let name = NodeName::parse(contender.node.rsplit('/').next()?)?;
            Some((name, Arc::new(contender.snapshot())))
        });
        *self.seen() = Some(NodeSnapshots(seen.collect()));
    }

    /// Returns the snapshot of a node.
    pub(crate) fn snapshot(&self, node: &NodeName) -> Option<Arc<NodeSnapshot>> {
        let seen = self.seen();
        let (_, snapshot) = seen.as_ref()?.0.iter().find(|(name, _)| name == node)?;
        Some(Arc::clone(snapshot))
    }

    fn seen(&self) -> MutexGuard<'_, Option<NodeSnapshots>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
