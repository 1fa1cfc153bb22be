//! Exports `once` and `oncePer`, which run a function once per slot: a key, or a period of time.

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

/// Represents one call of the function that was passed to `once`. The lock is held until the slot
/// is recorded or JavaScript drops this object.
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
    /// Returns the lease under which the body runs.
    #[napi]
    pub fn lease(&self) -> NativeLease {
        Arc::clone(&self.lease).into()
    }

    /// Starts an operation that records the slot and releases the lock. Call it after the body. The
    /// slot is not recorded again if it was already recorded before the body.
    ///
    /// # Errors
    /// `NOT_HELD` on the second call; `CONNECTION_FAILED` if the library's thread cannot
    /// be started.
    #[napi]
    pub fn record(&self, bridge: &Bridge) -> Result<i64> {
        let turn = self.turn.borrow_mut().take();
        let turn = turn.ok_or_else(|| error(ErrorKind::NotHeld, "this turn is over"))?;
        bridge.start(turn.record())
    }
}

#[napi]
impl NativeLock {
    /// Starts an operation that acquires the lock for a *turn* (one run of the body). It yields a
    /// turn, or nothing if the slot is already recorded. `slot` is a key, or the length of a period
    /// in milliseconds.
    ///
    /// Inside a scope, acquires the lock for the owner of the scope's lease, `around`. Otherwise
    /// the lock gets a new owner. `outermost` is the lease of the outermost scope. Other programs
    /// see its owner.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`; `CONNECTION_FAILED` if the library's thread cannot be started.
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
