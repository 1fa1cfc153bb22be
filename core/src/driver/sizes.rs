//! How many bytes requests take, for those that can be too large.

use zookeeper_client as zk;

use crate::limits::{HEAD, LENGTH};
use crate::operation::Operation;

/// The kind of an operation in a transaction, whether it is the last, and an error code that is not used; there is one
/// more behind the last operation.
const OPERATION: usize = 9;

/// The flags of a node, or a version.
const NUMBER: usize = 4;

/// A transaction that creates nodes without data at these paths, with these access control lists.
pub(super) fn creates(levels: &[(&str, &[zk::Acl])]) -> usize {
    transaction(levels.iter().map(|(path, acl)| create(path.len(), 0, acl)))
}

/// A transaction of these operations, below a chroot, on condition that a node exists.
pub(super) fn conditional(condition: &str, chroot: &str, operations: &[Operation], acl: &[zk::Acl]) -> usize {
    let operations = operations.iter().map(|operation| {
        let path = chroot.len() + operation.path().len();
        match operation {
            Operation::Create { data, .. } => create(path, data.len(), acl),
            Operation::SetData { data, .. } => LENGTH + path + LENGTH + data.len() + NUMBER,
            Operation::Delete { .. } | Operation::Check { .. } => LENGTH + path + NUMBER,
        }
    });
    transaction(std::iter::once(LENGTH + condition.len() + NUMBER).chain(operations))
}

/// What a request takes that reads several nodes, beside those.
pub(super) const fn reads() -> usize {
    HEAD + OPERATION
}

/// What one of them takes.
pub(super) const fn read(path: usize) -> usize {
    OPERATION + LENGTH + path + 1
}

fn transaction(operations: impl Iterator<Item = usize>) -> usize {
    HEAD + OPERATION + operations.map(|bytes| OPERATION + bytes).sum::<usize>()
}

fn create(path: usize, data: usize, acl: &[zk::Acl]) -> usize {
    let rule = |rule: &zk::Acl| NUMBER + LENGTH + rule.scheme().len() + LENGTH + rule.id().len();
    LENGTH + path + LENGTH + data + LENGTH + acl.iter().map(rule).sum::<usize>() + NUMBER
}
