//! Several locks taken as one.

use std::sync::Arc;

use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;
use zklock::{AnyLock, MultiLock};

use crate::bridge::Bridge;
use crate::error::{NODE, Result};
use crate::lease::NativeLease;
use crate::lock::NativeLock;

/// Several locks.
#[napi]
pub struct NativeMultiLock {
    lock: Arc<MultiLock>,
    order: Vec<u32>,
}

#[napi]
impl NativeMultiLock {
    /// Takes these locks as one. Sends nothing.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(constructor)]
    pub fn new(members: Vec<ClassInstance<'_, NativeLock>>) -> Result<Self> {
        let members: Vec<AnyLock> = members.iter().map(|member| member.lock.clone()).collect();
        let lock = MultiLock::new(members.clone())?;
        let place = |lock: &AnyLock| (0..).zip(&members).find(|(_, member)| is_same(member, lock));
        let order = lock.locks().iter().filter_map(place).map(|(index, _)| index).collect();
        Ok(Self { lock: Arc::new(lock), order })
    }

    /// The positions that the locks had among the members, in the order in which they are taken. One named twice is
    /// taken once.
    #[napi(getter)]
    pub fn order(&self) -> Vec<u32> {
        self.order.clone()
    }

    /// Starts to acquire all; ends with their leases, in order. A lock to which one of the leases `within` belongs is
    /// acquired by that lease's owner, the others by a new one.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn acquire(
        &self,
        bridge: &Bridge,
        timeout: Option<f64>,
        within: Vec<ClassInstance<'_, NativeLease>>,
    ) -> Result<i64> {
        let patience = NODE.patience(timeout)?;
        let within: Vec<_> = within.iter().map(|lease| &lease.lease).collect();
        let owners = self.lock.owners_within(&within)?;
        let lock = Arc::clone(&self.lock);
        bridge.start(async move { lock.acquire_as_each(&owners, patience).await.map(NativeLease::all) })
    }
}

fn is_same(one: &AnyLock, other: &AnyLock) -> bool {
    match (one, other) {
        (AnyLock::Lock(one), AnyLock::Lock(other)) => Arc::ptr_eq(one, other),
        (AnyLock::Semaphore(one), AnyLock::Semaphore(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}
