//! Semaphores.

use std::sync::Arc;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use zklock::{LockOptions, Permits, Semaphore};

use crate::bridge::Bridge;
use crate::client::NativeClient;
use crate::error::{Result, bad_argument};
use crate::lease::NativeLease;
use crate::lock::{NativeLock, patience};

/// A semaphore at a path.
#[napi]
pub struct NativeSemaphore {
    semaphore: Arc<Semaphore>,
}

#[napi]
impl NativeSemaphore {
    /// A semaphore with so many permits, or as many as the node at a path says. Sends nothing.
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
            Either::A(number) => Permits::Fixed(number_of("permits", number)?),
            Either::B(path) => Permits::SharedCount(path),
        };
        let mut options = LockOptions::default();
        options.label = label;
        let semaphore = Semaphore::with_options(&*client.client, &path, permits, options);
        Ok(Self { semaphore: Arc::new(semaphore?) })
    }

    /// The same as a lock that gives one lease.
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
        let (count, patience) = (number_of("count", count)?, patience(timeout)?);
        let semaphore = Arc::clone(&self.semaphore);
        bridge.start(async move { semaphore.acquire_many(count, patience).await.map(NativeLease::all) })
    }
}

/// A number of permits, as JavaScript has numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number in the range"
)]
fn number_of(argument: &str, number: f64) -> Result<u32> {
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        Ok(number as u32)
    } else {
        Err(bad_argument(argument, &format!("{number} is no number of permits")))
    }
}
