//! Exports multi-locks: several locks that are acquired together.

use std::sync::Arc;

use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;
use zklock::internal::{acquire_each, owners};
use zklock::{AnyLock, MultiLock};

use crate::bridge::Bridge;
use crate::error::Result;
use crate::lease::{NativeLease, core_leases};
use crate::lock::NativeLock;
use crate::owner::{NativeWait, caller};

/// Several locks that are acquired together.
#[napi]
pub struct NativeMultiLock {
    lock: Arc<MultiLock>,
    order: Vec<u32>,
}

#[napi]
impl NativeMultiLock {
    /// Combines these locks. Sends nothing.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(constructor)]
    pub fn new(members: Vec<ClassInstance<'_, NativeLock>>) -> Result<Self> {
        let members: Vec<AnyLock> = members.iter().map(|member| member.lock.clone()).collect();
        let lock = MultiLock::new(members.clone())?;
        let place = |lock: &AnyLock| (0..).zip(&members).find(|(_, member)| member.same_lock(lock));
        let order = lock.locks().iter().filter_map(place).map(|(index, _)| index).collect();
        Ok(Self { lock: Arc::new(lock), order })
    }

    /// The order of acquisition, as indexes into the list of members. A lock that occurs twice in
    /// the list is acquired once.
    #[napi(getter)]
    pub fn order(&self) -> Vec<u32> {
        self.order.clone()
    }

    /// Starts an operation that acquires all locks, and yields their leases in the order of
    /// acquisition. If `within` or `around` (the leases of the surrounding scopes) contains a lease
    /// of a lock, the owner of that lease re-enters the lock. The other locks get a new owner.
    ///
    /// `outermost` is the lease of the outermost scope. Other programs see its owner.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn acquire(
        &self,
        bridge: &Bridge,
        wait: NativeWait,
        within: Vec<ClassInstance<'_, NativeLease>>,
        around: Vec<ClassInstance<'_, NativeLease>>,
        outermost: Option<ClassInstance<'_, NativeLease>>,
    ) -> Result<i64> {
        let (timeout, name) = wait.check()?;
        let named = core_leases(&within);
        let owners = owners(self.lock.locks(), &named, &core_leases(&around))?;
        let flow = outermost.as_ref().map(|lease| &*lease.lease).or(named.first().copied());
        // Outside scopes, one new owner acquires all locks.
        let caller = caller(&owners[0], flow, name);
        let lock = Arc::clone(&self.lock);
        bridge.start(async move {
            acquire_each(&lock, &owners, Some(&caller), timeout).await.map(NativeLease::all)
        })
    }
}
