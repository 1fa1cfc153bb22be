//! Once per slot.

use std::cell::RefCell;
use std::slice;
use std::sync::Arc;

use napi::bindgen_prelude::{ClassInstance, Either};
use napi_derive::napi;
use zklock::ErrorKind;
use zklock::internal::once::{self, Slot, Turn, parse_record};
use zklock::internal::{error, owners};

use crate::bridge::Bridge;
use crate::error::{NODE, Result};
use crate::lease::NativeLease;
use crate::lock::NativeLock;
use crate::owner::{NativeWait, caller};

/// One run of a slot's body, under the lock. When JavaScript drops it, the lock is released.
#[napi]
pub struct NativeTurn {
    turn: RefCell<Option<Turn>>,
    lease: Arc<zklock::Lease>,
}

impl From<Turn> for NativeTurn {
    fn from(turn: Turn) -> Self {
        let lease = Arc::clone(turn.lease());
        Self { turn: RefCell::new(Some(turn)), lease }
    }
}

#[napi]
impl NativeTurn {
    /// The lease under which the body runs.
    #[napi]
    pub fn lease(&self) -> NativeLease {
        Arc::clone(&self.lease).into()
    }

    /// Starts to record the slot, unless that was done first, and to release the lock.
    ///
    /// # Errors
    /// `NOT_HELD` the second time; `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn record(&self, bridge: &Bridge) -> Result<i64> {
        let turn = self.turn.borrow_mut().take();
        let turn = turn.ok_or_else(|| error(ErrorKind::NotHeld, "this turn is over"))?;
        bridge.start(turn.record())
    }
}

#[napi]
impl NativeLock {
    /// Starts to acquire for a turn, as the owner of the lease `around`, or as a new one; ends with a turn, or with nothing
    /// if the slot is recorded already. `slot`: a key, or the length of a period in milliseconds. Others are told of the
    /// owner of the `outermost` scope's lease.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`; `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn once(
        &self,
        bridge: &Bridge,
        slot: Either<String, f64>,
        record: String,
        wait: NativeWait,
        around: Option<ClassInstance<'_, NativeLease>>,
        outermost: Option<ClassInstance<'_, NativeLease>>,
    ) -> Result<i64> {
        let slot = match slot {
            Either::A(key) => Slot::key(key)?,
            Either::B(period) => Slot::per(NODE.duration("period", period)?)?,
        };
        let (record, (timeout, name)) = (parse_record(&record)?, wait.check()?);
        let [around, outermost] =
            [&around, &outermost].map(|lease| lease.as_ref().map(|lease| &*lease.lease));
        let owner = &owners(slice::from_ref(&self.lock), &[], around.as_slice())?[0];
        let (owner, caller) = (owner.id(), caller(owner, outermost, name));
        let lock = self.lock.clone();
        bridge.start(async move {
            let turn = once::begin_for(&lock, owner, &caller, &slot, timeout, record).await?;
            Ok(turn.map(NativeTurn::from))
        })
    }
}
