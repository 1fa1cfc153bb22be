//! The sweep fault: an operator deletes several nodes of a queue at the same time. In this queue,
//! two contenders of one client wait, with nodes of other clients ahead of them and between them.

use crate::ensemble::Ensemble;

/// The nodes of such a queue, in order.
#[derive(Debug)]
pub struct Sweep {
    /// The session of the two contenders.
    pub session: i64,
    /// The nodes ahead of the first contender and between the two contenders. The operator deletes
    /// them.
    pub others: Vec<String>,
    /// The node of the second contender. The operator first changes its data, and then deletes it
    /// too.
    pub second: String,
}

/// Finds a queue for the fault in a directory.
///
/// Each contender watches the two nodes directly ahead of it, and the operator must delete only
/// watched nodes. There must therefore be at most two other nodes ahead of the first contender, and
/// at most two between the contenders.
pub fn find(ensemble: &mut Ensemble, directory: &str) -> Option<Sweep> {
    let mut nodes = ensemble.children(directory)?;
    nodes.sort_by_key(|node| node.get(node.len().saturating_sub(10)..).map(str::to_owned));
    let paths: Vec<_> = nodes.iter().map(|node| format!("{directory}/{node}")).collect();
    let owners: Vec<_> = paths.iter().map(|path| ensemble.owner(path)).collect();
    for first in 1..paths.len().min(3) {
        let session = owners[first];
        let behind = (first + 1..paths.len()).find(|place| owners[*place] == session);
        let Some(second) = behind.filter(|second| (2..=3).contains(&(second - first))) else { continue };
        if owners[..first].contains(&session) {
            continue;
        }
        let others = paths[..first].iter().chain(&paths[first + 1..second]).cloned().collect();
        return Some(Sweep { session, others, second: paths[second].clone() });
    }
    None
}
