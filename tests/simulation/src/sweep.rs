//! An operator's sweep: of a queue in which two contenders of one client wait, with others before and between them.

use crate::ensemble::Ensemble;

/// The nodes of a queue that is worth a sweep, in their order.
#[derive(Debug)]
pub struct Sweep {
    /// The session of the two.
    pub session: i64,
    /// What is before the first of the two and between them, which goes.
    pub others: Vec<String>,
    /// The second of the two, whose data is set, and which then goes as well.
    pub second: String,
}

/// Finds it in a directory.
///
/// Both know of what is before them by a watch on the nearest two, so no more than two others are before the first, and
/// between them.
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
