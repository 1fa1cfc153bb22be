//! Exports locks with one lease per acquire.

use std::slice;

use napi::bindgen_prelude::{ClassInstance, Either};
use napi_derive::napi;
use zklock::internal::{GivenOptions, Requested, owners, reenter, request};
use zklock::{AnyLock, Mutex, ReadWriteLock};

use crate::bridge::Bridge;
use crate::client::NativeClient;
use crate::contender::NativeContender;
use crate::error::{NODE, Result};
use crate::lease::NativeLease;
use crate::owner::{NativeWait, caller};

/// The options of a lock of any kind.
#[napi(object, object_to_js = false)]
pub struct NativeLockOptions {
    pub reentrant: Option<bool>,
    pub label: Option<String>,
    pub naming: Option<String>,
    pub max_hold: Option<f64>,
    pub grace: Option<f64>,
    pub max_waiters: Option<f64>,
    pub cohort: Option<f64>,
    pub linger: Option<f64>,
}

impl From<NativeLockOptions> for GivenOptions {
    fn from(given: NativeLockOptions) -> Self {
        let NativeLockOptions { reentrant, label, naming, max_hold, grace, max_waiters, cohort, linger } =
            given;
        Self { reentrant, label, naming, max_hold, grace, max_waiters, cohort, linger }
    }
}

/// A lock at a path.
#[napi]
pub struct NativeLock {
    pub(crate) lock: AnyLock,
}

impl<L: Into<AnyLock>> From<L> for NativeLock {
    fn from(lock: L) -> Self {
        Self { lock: lock.into() }
    }
}

/// Creates a mutex. Sends nothing.
///
/// # Errors
/// `BAD_ARGUMENT`.
#[napi]
pub fn mutex(client: &NativeClient, path: String, options: NativeLockOptions) -> Result<NativeLock> {
    let options = NODE.lock_options(options.into())?;
    Ok(Mutex::with_options(&*client.client, &path, options)?.into())
}

/// Creates the read lock and the write lock of a read/write lock. Sends nothing.
///
/// # Errors
/// `BAD_ARGUMENT`.
#[napi(ts_return_type = "[NativeLock, NativeLock]")]
pub fn read_write_lock(
    client: &NativeClient,
    path: String,
    options: NativeLockOptions,
) -> Result<Vec<NativeLock>> {
    let options = NODE.lock_options(options.into())?;
    let lock = ReadWriteLock::with_options(&*client.client, &path, options)?;
    Ok(vec![lock.read_lock.into(), lock.write_lock.into()])
}

#[napi]
impl NativeLock {
    /// Acquires the lock for the owner of the lease `within`, or else of `around` (the lease of the
    /// surrounding scope). Without both, the lock gets a new owner. If the owner already holds the
    /// lock, returns a lease immediately. Otherwise starts an operation that yields a lease.
    /// Without a timeout the operation waits forever; with a timeout of zero it does not wait.
    ///
    /// `outermost` is the lease of the outermost scope. Other programs see its owner.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn acquire(
        &self,
        bridge: &Bridge,
        wait: Option<NativeWait>,
        within: Option<ClassInstance<'_, NativeLease>>,
        around: Option<ClassInstance<'_, NativeLease>>,
        outermost: Option<ClassInstance<'_, NativeLease>>,
    ) -> Result<Either<NativeLease, i64>> {
        let (timeout, name) = wait.unwrap_or_default().check()?;
        let [named, around, outermost] =
            [&within, &around, &outermost].map(|lease| lease.as_ref().map(|lease| &*lease.lease));
        let owner = &owners(slice::from_ref(&self.lock), named.as_slice(), around.as_slice())?[0];
        let caller = caller(owner, outermost.or(named), name);
        let pending = match request(&self.lock, owner.id(), &caller, timeout) {
            Ok(Requested::Granted(lease)) => return Ok(Either::A(lease.into())),
            Ok(Requested::Pending(pending)) => Ok(pending),
            // A refused re-entry is reported by the operation, like all other failures.
            Err(refusal) => Err(refusal),
        };
        bridge.start(async move { pending?.await.map(NativeLease::from) }).map(Either::B)
    }

    /// Re-enters the lock as the owner of the lease `around`, if possible. Stores the new lease
    /// inside `around`, and returns the number under which it is stored.
    #[napi]
    pub fn again(&self, around: &NativeLease) -> Option<u32> {
        let owner = owners(slice::from_ref(&self.lock), &[], &[&around.lease]).ok()?[0].id();
        around.keep_inner(reenter(&self.lock, owner).ok()??)
    }

    /// Starts an operation that yields the list of contenders.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn contenders(&self, bridge: &Bridge) -> Result<i64> {
        let lock = self.lock.clone();
        bridge.start(async move { lock.contenders().await.map(NativeContender::all) })
    }

    /// Starts an operation that yields `true` if the lock is taken.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn locked(&self, bridge: &Bridge) -> Result<i64> {
        let lock = self.lock.clone();
        bridge.start(async move { lock.locked().await })
    }
}
