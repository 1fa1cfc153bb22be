//! Exports semaphores.

use std::sync::Arc;

use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;
use zklock::internal::{acquire_permits, parse_count, parse_permits};
use zklock::{Owner, Semaphore};

use crate::bridge::Bridge;
use crate::client::NativeClient;
use crate::error::{NODE, Result};
use crate::lease::NativeLease;
use crate::lock::{NativeLock, NativeLockOptions};
use crate::owner::caller;

/// A semaphore at a path.
#[napi]
pub struct NativeSemaphore {
    semaphore: Arc<Semaphore>,
}

#[napi]
impl NativeSemaphore {
    /// Creates a semaphore. The number of permits is fixed, or is read from the node at a path.
    /// Sends nothing.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(constructor)]
    pub fn new(
        client: &NativeClient,
        path: String,
        permits: Option<f64>,
        shared_count: Option<String>,
        options: NativeLockOptions,
    ) -> Result<Self> {
        let permits = parse_permits(permits, shared_count)?;
        let semaphore =
            Semaphore::with_options(&*client.client, &path, permits, NODE.lock_options(options.into())?);
        Ok(Self { semaphore: Arc::new(semaphore?) })
    }

    /// Returns the semaphore as a lock whose acquire yields one lease.
    #[napi]
    pub fn as_lock(&self) -> NativeLock {
        Arc::clone(&self.semaphore).into()
    }

    /// Starts an operation that acquires several permits and yields their leases. Other programs
    /// see the owner of `outermost`, the lease of the outermost scope. Without a scope they see a
    /// new owner.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn acquire_many(
        &self,
        bridge: &Bridge,
        count: f64,
        timeout: Option<f64>,
        connect_timeout: Option<f64>,
        outermost: Option<ClassInstance<'_, NativeLease>>,
    ) -> Result<i64> {
        let (count, timeout) =
            (parse_count("count", count)?, NODE.bounded(NODE.timeout(timeout)?, connect_timeout)?);
        let outermost = outermost.as_ref().map(|lease| &*lease.lease);
        let (semaphore, caller) = (Arc::clone(&self.semaphore), caller(&Owner::new(), outermost, None));
        bridge.start(async move {
            acquire_permits(&semaphore, &caller, count, timeout).await.map(NativeLease::all)
        })
    }
}
