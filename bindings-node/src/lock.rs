//! Locks with one lease per acquire.

use napi_derive::napi;
use zklock::binding::{bad_argument, parse_naming};
use zklock::{AnyLock, Mutex, MutexOptions, Naming, Owner, ReadWriteLock, ReadWriteLockOptions};

use crate::bridge::Bridge;
use crate::client::NativeClient;
use crate::contender::NativeContender;
use crate::error::{NODE, Result};
use crate::lease::NativeLease;

/// A lock at a path.
#[napi]
pub struct NativeLock {
    pub(crate) lock: AnyLock,
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
        let naming = naming.map_or(Ok(Naming::default()), |name| parse_naming(&name))?;
        let client = &*client.client;
        let lock = match &*kind {
            "mutex" => {
                let mut options = MutexOptions::default();
                (options.reentrant, options.label, options.naming) = (reentrant, label, naming);
                Mutex::with_options(client, &path, options).map(AnyLock::from)
            }
            "read" | "write" => {
                let mut options = ReadWriteLockOptions::default();
                (options.label, options.naming) = (label, naming);
                let half =
                    |lock: ReadWriteLock| if kind == "read" { lock.read_lock } else { lock.write_lock };
                ReadWriteLock::with_options(client, &path, options).map(half).map(AnyLock::from)
            }
            _ => return Err(bad_argument("kind", "must be 'mutex', 'read' or 'write'").into()),
        };
        Ok(Self { lock: lock? })
    }

    /// Starts to acquire, as the owner of `within` or as a new one; ends with a lease. No `timeout` means waiting for
    /// ever, zero means a try.
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
        let patience = NODE.patience(timeout)?;
        let owner = within.map_or_else(Owner::new, |lease| lease.lease.owner());
        let lock = self.lock.clone();
        bridge.start(async move { lock.acquire_as(owner, patience).await.map(NativeLease::from) })
    }

    /// Starts to ask for the contenders; ends with a list.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn contenders(&self, bridge: &Bridge) -> Result<i64> {
        let lock = self.lock.clone();
        bridge.start(async move { lock.contenders().await.map(NativeContender::all) })
    }

    /// Starts to ask whether the lock is taken; ends with the answer.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn locked(&self, bridge: &Bridge) -> Result<i64> {
        let lock = self.lock.clone();
        bridge.start(async move { lock.locked().await })
    }
}
