//! What one acquire returns: a lease, or several. A binding treats both alike.

use std::pin::Pin;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::leases::Leases;

/// The acknowledgement of a release.
pub(super) type Released = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// A lease, or several.
pub trait Acquired: Send + Sync {
    /// Succeeds while all of it is held.
    ///
    /// # Errors
    /// As [`Lease::check`].
    fn check(&self) -> Result<()>;

    /// Whether all of it is held.
    fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Whether there is something left to release. If the lock was lost, there is; for a lease that a forked child
    /// inherited, there is not.
    fn is_open(&self) -> bool;

    /// The first loss, if there is one.
    fn loss(&self) -> Option<Error>;

    /// Releases what has not been released yet. The release has begun when this returns.
    fn release(&self) -> Released;

    /// Like [`release`](Self::release), without waiting for the acknowledgement.
    ///
    /// # Errors
    /// As [`Lease::release`].
    fn release_in_background(&self) -> Result<()>;
}

impl Acquired for Lease {
    fn check(&self) -> Result<()> {
        Self::check(self)
    }

    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    fn loss(&self) -> Option<Error> {
        self.check().err().filter(|error| error.kind() == ErrorKind::LockLost)
    }

    fn release(&self) -> Released {
        Box::pin(Self::release(self))
    }

    fn release_in_background(&self) -> Result<()> {
        Self::release_in_background(self)
    }
}

impl Acquired for Leases<Arc<Lease>> {
    fn check(&self) -> Result<()> {
        Self::check(self)
    }

    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    fn loss(&self) -> Option<Error> {
        self.iter().find_map(|lease| lease.loss())
    }

    fn release(&self) -> Released {
        Box::pin(Self::release(self))
    }

    fn release_in_background(&self) -> Result<()> {
        Self::release_in_background(self)
    }
}
