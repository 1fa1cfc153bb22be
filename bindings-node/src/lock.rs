//! Locks: a mutex, or a half of a read/write lock.

use std::sync::Arc;

use napi_derive::napi;
use zklock::{Lock, LockOptions, Mutex, Naming, Owner, Patience, ReadWriteLock};

use crate::bridge::Bridge;
use crate::client::{MILLISECOND, NativeClient};
use crate::error::{Result, bad_argument, thrown};
use crate::lease::NativeLease;

/// A lock at a path.
#[napi]
pub struct NativeLock {
    lock: Arc<Lock>,
}

#[napi]
impl NativeLock {
    /// A `mutex`, or the half of a read/write lock that is for `read` or for `write`. Sends nothing.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(constructor)]
    pub fn new(
        kind: String,
        client: &NativeClient,
        path: String,
        reentrant: bool,
        label: Option<String>,
        naming: Option<String>,
    ) -> Result<Self> {
        let mut options = LockOptions::default();
        options.reentrant = reentrant;
        options.label = label;
        options.naming = match naming.as_deref() {
            None | Some("curator") => Naming::Curator,
            Some("kazoo") => Naming::Kazoo,
            Some(_) => return Err(bad_argument("naming", "must be 'curator' or 'kazoo'")),
        };
        let client = &*client.client;
        let lock = match &*kind {
            "mutex" => Mutex::with_options(client, &path, options).map(Lock::from),
            "read" => ReadWriteLock::with_options(client, &path, options).map(|lock| lock.read_lock),
            "write" => ReadWriteLock::with_options(client, &path, options).map(|lock| lock.write_lock),
            _ => return Err(bad_argument("kind", "must be 'mutex', 'read' or 'write'")),
        };
        Ok(Self { lock: Arc::new(lock.map_err(|error| thrown(&error))?) })
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
        let lock = Arc::clone(&self.lock);
        bridge.start(async move { lock.acquire_as(owner, patience).await })
    }
}
