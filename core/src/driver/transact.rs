//! Writes of the application that are guarded by a lock's node.

use zookeeper_client as zk;
use zookeeper_client::{Acls, CreateMode};

use super::metered::Metered;
use super::requests::ANY_VERSION;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::RequestKind;
use crate::transaction::Operation;

/// Carries operations out if a node, the guard, stands. The node's name is its own for ever, so it does not matter which
/// session asks.
pub(super) async fn transact(
    client: &Metered,
    guard: &str,
    chroot: &str,
    acl: &[zk::Acl],
    operations: &[Operation],
) -> Result<()> {
    let mut writer = client.ask(RequestKind::Transaction).new_multi_writer();
    let prepared = writer
        .add_check_version(guard, ANY_VERSION)
        .and_then(|()| operations.iter().try_for_each(|operation| add(&mut writer, chroot, acl, operation)));
    if let Err(error) = prepared {
        return Err(Error::new(ErrorKind::TransactionFailed, format!("nothing was written: {error}")));
    }
    match writer.commit().await {
        Ok(_) => Ok(()),
        Err(zk::MultiWriteError::OperationFailed { index: 0, source: zk::Error::NoNode }) => {
            let message = format!("the lock's node {guard} is gone, and the lock lost; nothing was written");
            Err(Error::new(ErrorKind::LockLost, message))
        }
        Err(zk::MultiWriteError::OperationFailed { index, source }) => {
            let what = index.checked_sub(1).and_then(|index| operations.get(index));
            let what = what.map_or_else(|| format!("check {guard}"), ToString::to_string);
            let message = format!("nothing was written, because of {what}: {source}");
            Err(Error::new(ErrorKind::TransactionFailed, message))
        }
        Err(zk::MultiWriteError::RequestFailed { .. }) => Err(Error::unanswered()),
    }
}

fn add(
    writer: &mut zk::MultiWriter<'_>,
    chroot: &str,
    acl: &[zk::Acl],
    operation: &Operation,
) -> Result<(), zk::Error> {
    let path = format!("{chroot}{}", operation.path());
    match operation {
        Operation::Create { data, .. } => {
            writer.add_create(&path, data, &CreateMode::Persistent.with_acls(Acls::new(acl)))
        }
        Operation::SetData { data, version, .. } => writer.add_set_data(&path, data, *version),
        Operation::Delete { version, .. } => writer.add_delete(&path, *version),
        Operation::Check { version, .. } => writer.add_check_version(&path, *version),
    }
}
