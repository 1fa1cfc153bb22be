//! Semaphores.

use std::sync::Arc;

use napi_derive::napi;
use zklock::Semaphore;
use zklock::internal::{parse_count, parse_permits};

use crate::bridge::Bridge;
use crate::client::NativeClient;
use crate::error::{NODE, Result};
use crate::lease::NativeLease;
use crate::lock::{NativeLock, NativeLockOptions};

/// A semaphore at a path.
#[napi]
pub struct NativeSemaphore {
    semaphore: Arc<Semaphore>,
}

#[napi]
impl NativeSemaphore {
    /// A semaphore with a number of permits, or with as many as the node at a path states. Sends nothing.
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

    /// The semaphore as a lock that gives one lease.
    #[napi]
    pub fn as_lock(&self) -> NativeLock {
        Arc::clone(&self.semaphore).into()
    }

    /// Starts to acquire several permits; ends with their leases.
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
    ) -> Result<i64> {
        let (count, timeout) =
            (parse_count("count", count)?, NODE.bounded(NODE.timeout(timeout)?, connect_timeout)?);
        let semaphore = Arc::clone(&self.semaphore);
        bridge.start(async move { semaphore.acquire_many(count, timeout).await.map(NativeLease::all) })
    }
}
