//! The exclusive lock.

use std::sync::Arc;

use napi_derive::napi;
use zklock::{Mutex, MutexOptions, Naming, Owner, Patience};

use crate::bridge::Bridge;
use crate::client::{MILLISECOND, NativeClient};
use crate::error::{Result, bad_argument, thrown};
use crate::lease::NativeLease;

/// A lock at a path.
#[napi]
pub struct NativeMutex {
    mutex: Arc<Mutex>,
}

#[napi]
impl NativeMutex {
    /// Sends nothing.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(constructor)]
    pub fn new(
        client: &NativeClient,
        path: String,
        label: Option<String>,
        naming: Option<String>,
    ) -> Result<Self> {
        let mut options = MutexOptions::default();
        options.label = label;
        options.naming = match naming.as_deref() {
            None | Some("curator") => Naming::Curator,
            Some("kazoo") => Naming::Kazoo,
            Some(_) => return Err(bad_argument("naming", "must be 'curator' or 'kazoo'")),
        };
        let mutex = Mutex::with_options(&*client.client, &path, options).map_err(|error| thrown(&error))?;
        Ok(Self { mutex: Arc::new(mutex) })
    }

    /// Starts to acquire, as the owner of `within` or as a new one; ends with a lease. No `timeout` waits for
    /// ever, zero tries.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn acquire(
        &self,
        bridge: &Bridge,
        timeout: Option<f64>,
        within: Option<&NativeLease>,
    ) -> Result<i64> {
        let patience =
            timeout.map_or(Ok(Patience::Forever), |timeout| Patience::from_timeout(timeout, MILLISECOND));
        let patience = patience.map_err(|error| thrown(&error))?;
        let owner = within.map_or_else(Owner::new, |lease| lease.lease.owner());
        let mutex = Arc::clone(&self.mutex);
        bridge.start(async move { mutex.acquire_as(owner, patience).await })
    }
}
