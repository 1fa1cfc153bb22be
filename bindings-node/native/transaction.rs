//! Exports transactions.

use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use zklock::Transaction;
use zklock::internal::{TransactionBuilder, parse_version};

use crate::bridge::Bridge;
use crate::error::Result;

/// A transaction under construction. Unusable once it was committed.
#[napi]
pub struct NativeTransaction {
    draft: TransactionBuilder,
}

impl NativeTransaction {
    pub(crate) fn new(transaction: Transaction) -> Self {
        Self { draft: TransactionBuilder::new(transaction) }
    }

    fn add(&self, add: impl FnOnce(Transaction) -> Transaction) -> Result<()> {
        Ok(self.draft.add(add)?)
    }
}

#[napi]
impl NativeTransaction {
    /// Adds an operation that creates a node.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`. Every method of this class also fails after `commit`.
    #[napi]
    pub fn create(&self, path: String, data: Uint8Array) -> Result<()> {
        self.add(|transaction| transaction.create(&path, &data))
    }

    /// Adds an operation that writes a node's data.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn set_data(&self, path: String, data: Uint8Array, version: Option<f64>) -> Result<()> {
        let version = version.map(parse_version).transpose()?;
        self.add(|transaction| transaction.set_data(&path, &data, version))
    }

    /// Adds an operation that deletes a node.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn delete(&self, path: String, version: Option<f64>) -> Result<()> {
        let version = version.map(parse_version).transpose()?;
        self.add(|transaction| transaction.delete(&path, version))
    }

    /// Adds an operation that checks a node's version.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn check(&self, path: String, version: f64) -> Result<()> {
        let version = parse_version(version)?;
        self.add(|transaction| transaction.check(&path, version))
    }

    /// Starts an operation that commits the transaction.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`, and `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn commit(&self, bridge: &Bridge) -> Result<i64> {
        bridge.start(self.draft.take()?.commit())
    }
}
