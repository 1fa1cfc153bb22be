//! Transactions.

use std::cell::RefCell;

use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use zklock::Transaction;

use crate::bridge::Bridge;
use crate::error::{Result, bad_argument};

/// A transaction that is being put together; none once it was committed.
#[napi]
pub struct NativeTransaction {
    transaction: RefCell<Option<Transaction>>,
}

impl NativeTransaction {
    pub(crate) fn new(transaction: Transaction) -> Self {
        Self { transaction: RefCell::new(Some(transaction)) }
    }

    fn take(&self) -> Result<Transaction> {
        let transaction = self.transaction.borrow_mut().take();
        transaction.ok_or_else(|| bad_argument("transaction", "was committed already; begin another"))
    }

    fn with(&self, add: impl FnOnce(Transaction) -> Transaction) -> Result<()> {
        let transaction = add(self.take()?);
        *self.transaction.borrow_mut() = Some(transaction);
        Ok(())
    }
}

#[napi]
impl NativeTransaction {
    /// # Errors
    /// `BAD_ARGUMENT` after `commit`, as all here.
    #[napi]
    pub fn create(&self, path: String, data: Uint8Array) -> Result<()> {
        self.with(|transaction| transaction.create(&path, &data))
    }

    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn set_data(&self, path: String, data: Uint8Array, version: Option<i32>) -> Result<()> {
        self.with(|transaction| transaction.set_data(&path, &data, version))
    }

    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn delete(&self, path: String, version: Option<i32>) -> Result<()> {
        self.with(|transaction| transaction.delete(&path, version))
    }

    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn check(&self, path: String, version: i32) -> Result<()> {
        self.with(|transaction| transaction.check(&path, version))
    }

    /// Starts to carry it out.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`, and `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn commit(&self, bridge: &Bridge) -> Result<i64> {
        bridge.start(self.take()?.commit())
    }
}
