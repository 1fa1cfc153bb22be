//! The levels of a lock object.

use std::sync::Arc;

use pyo3::prelude::*;
use zklock::internal::{AcquiredStack, OwnerId};

use crate::bridge::owner::OwnerEndListener;
use crate::locks::scope::Scope;
use crate::modules::is_only_reference;

pub(crate) type LockLevels = AcquiredStack<Handle, Scope>;

impl OwnerEndListener for LockLevels {
    fn owner_ended(&self, py: Python<'_>, owner: OwnerId, kind: &'static str) {
        // Report only leases to which the program has no reference. It can still release the other leases.
        // If it drops one of these without a release, the finalizer of the lease warns.
        let left = self.left_by(owner, |handle| match handle {
            Handle::Made(lease) => is_only_reference(py, lease),
            Handle::Bare(_) => true,
        });
        for acquired in left {
            acquired.owner_ended(kind);
        }
    }
}

/// The Python object of a level.
pub(crate) enum Handle {
    /// The Python object exists: a lease, or leases.
    Made(Py<PyAny>),
    /// A lease whose Python object is created on request. Most re-entries never need the object, because
    /// `acquire()` does not return the lease.
    Bare(Arc<zklock::Lease>),
}

impl Handle {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Made(lease) => Self::Made(lease.clone_ref(py)),
            Self::Bare(lease) => Self::Bare(Arc::clone(lease)),
        }
    }
}
