//! Defines [`TransactionBuilder`], which collects the operations of a transaction.

use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::lease::transaction::Transaction;

/// A transaction that is being built.
#[derive(Debug)]
pub struct TransactionBuilder<T = Transaction>(
    /// `None` after the transaction was committed.
    Mutex<Option<T>>,
);

impl<T> TransactionBuilder<T> {
    /// Starts with this transaction.
    pub fn new(transaction: T) -> Self {
        Self(Mutex::new(Some(transaction)))
    }

    /// Adds operations.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if [`take`](Self::take) was called before.
    pub fn add(&self, add: impl FnOnce(T) -> T) -> Result<()> {
        let mut draft = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *draft = Some(add(draft.take().ok_or_else(committed)?));
        Ok(())
    }

    /// Returns the transaction, which the caller commits. No operation can be added after that.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) on the second call.
    pub fn take(&self) -> Result<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(committed)
    }
}

fn committed() -> Error {
    Error::bad_argument("transaction", "was already committed; begin a new one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_takes_no_more() {
        let draft = TransactionBuilder::new(vec![1]);
        draft.add(|all| [all, vec![2]].concat()).unwrap();
        assert_eq!(draft.take().unwrap(), [1, 2]);
        for refused in [draft.add(|all| all).unwrap_err(), draft.take().unwrap_err()] {
            assert_eq!(refused.argument(), Some("transaction"));
        }
    }
}
