//! Semaphores.

use std::sync::Arc;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use zklock::binding::{parse_count, parse_permits};
use zklock::{Semaphore, SemaphoreOptions};

use crate::bridge::Bridge;
use crate::client::NativeClient;
use crate::error::{NODE, Result};
use crate::lease::NativeLease;
use crate::lock::NativeLock;

/// A semaphore at a path.
#[napi]
pub struct NativeSemaphore {
    semaphore: Arc<Semaphore>,
}

#[napi]
impl NativeSemaphore {
    /// A semaphore with this many permits, or as many as the node at a path says. Sends nothing.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(constructor)]
    pub fn new(
        client: &NativeClient,
        path: String,
        permits: Either<f64, String>,
        label: Option<String>,
    ) -> Result<Self> {
        let permits = match permits {
            Either::A(number) => parse_permits(Some(number), None),
            Either::B(path) => parse_permits(None::<f64>, Some(path)),
        }?;
        let mut options = SemaphoreOptions::default();
        options.label = label;
        let semaphore = Semaphore::with_options(&*client.client, &path, permits, options);
        Ok(Self { semaphore: Arc::new(semaphore?) })
    }

    /// The same, as a lock with one lease per acquire.
    #[napi]
    pub fn as_lock(&self) -> NativeLock {
        NativeLock { lock: Arc::clone(&self.semaphore).into() }
    }

    /// Starts to acquire several permits; ends with their leases.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn acquire_many(&self, bridge: &Bridge, count: f64, timeout: Option<f64>) -> Result<i64> {
        let (count, patience) = (parse_count("count", count)?, NODE.patience(timeout)?);
        let semaphore = Arc::clone(&self.semaphore);
        bridge.start(async move { semaphore.acquire_many(count, patience).await.map(NativeLease::all) })
    }
}
