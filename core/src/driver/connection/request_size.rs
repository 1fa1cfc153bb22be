//! Computes the size in bytes of requests that can exceed the server's limit.

use zookeeper_client as zk;

use crate::config::size_limits::{HEAD, LENGTH, REQUEST};
use crate::lease::transaction::WriteOperation;
use crate::queue::NodeName;

/// Size of the header of an operation in a transaction: its kind, the end flag, and an unused error
/// code. One more header follows the last operation.
const OPERATION: usize = 9;

/// Size of a node's flags or of a version.
const NUMBER: usize = 4;

/// Returns the size of a transaction that creates empty nodes at these paths with these access
/// control lists.
pub(in crate::driver) fn creates(levels: &[(&str, &[zk::Acl])]) -> usize {
    transaction(levels.iter().map(|(path, acl)| create(path.len(), 0, acl)))
}

/// Returns the size of a transaction that checks that the `condition` node exists and then carries
/// out these operations.
pub(in crate::driver) fn conditional(
    condition: &str,
    chroot: &str,
    operations: &[WriteOperation],
    acl: &[zk::Acl],
) -> usize {
    let operations = operations.iter().map(|operation| {
        let path = chroot.len() + operation.path().len();
        match operation {
            WriteOperation::Create { data, .. } => create(path, data.len(), acl),
            WriteOperation::SetData { data, .. } => LENGTH + path + LENGTH + data.len() + NUMBER,
            WriteOperation::Delete { .. } | WriteOperation::Check { .. } => LENGTH + path + NUMBER,
        }
    });
    transaction(std::iter::once(LENGTH + condition.len() + NUMBER).chain(operations))
}

/// Returns how many of these nodes, counted from the first, one request can read.
pub(in crate::driver) fn readable(directory: &str, names: &[NodeName]) -> usize {
    let mut bytes = HEAD + OPERATION;
    let fits = |name: &&NodeName| {
        bytes += OPERATION + LENGTH + directory.len() + 1 + name.as_str().len() + 1;
        bytes <= REQUEST
    };
    names.iter().take_while(fits).count()
}

fn transaction(operations: impl Iterator<Item = usize>) -> usize {
    HEAD + OPERATION + operations.map(|bytes| OPERATION + bytes).sum::<usize>()
}

fn create(path: usize, data: usize, acl: &[zk::Acl]) -> usize {
    let rule = |rule: &zk::Acl| NUMBER + LENGTH + rule.scheme().len() + LENGTH + rule.id().len();
    LENGTH + path + LENGTH + data + LENGTH + acl.iter().map(rule).sum::<usize>() + NUMBER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_nodes_are_readable_as_one_request_can_name_to_the_byte() {
        let names = ["lock-0000000000", "_c_00000000-0000-0000-0000-000000000000-lock-0000000001"];
        let bytes = names.iter().map(|name| name.len()).sum::<usize>();
        let names = names.map(|name| NodeName::parse(name).expect("a node's name"));
        let left = REQUEST - HEAD - OPERATION - 2 * (OPERATION + LENGTH + 2) - bytes;
        assert_eq!(left % 2, 0, "a directory of half that length fills the request");
        assert_eq!(readable(&"d".repeat(left / 2), &names), 2);
        assert_eq!(readable(&"d".repeat(left / 2 + 1), &names), 1);
        assert_eq!(readable(&"d".repeat(REQUEST), &names), 0);
    }
}
