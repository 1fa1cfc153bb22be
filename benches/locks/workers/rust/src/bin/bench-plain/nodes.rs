//! The nodes that these workers create.

use zookeeper_client::{Acls, CreateMode, CreateOptions};

pub(super) const NODE: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
pub(super) const NUMBERED: CreateOptions<'static> =
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
pub(super) const DIRECTORY: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

/// Beginning of the names of the baseline's nodes, as long as in zklock, so that the requests have the
/// same size.
pub(super) const PREFIX: &str = "_c_00000000-0000-0000-0000-000000000000-lock-";

/// The data of the baseline's nodes, about as long as that of zklock: the host, process and owner.
pub(super) const DATA: &[u8] = &[b'.'; 140];
