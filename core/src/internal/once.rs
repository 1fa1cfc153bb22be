//! The steps of `Mutex::once`, for callers that run the body themselves. The *body* is a piece of
//! the program's code that must run only once for each *slot*, such as a day or an hour.

use crate::config::timeout::Timeout;
use crate::error::{Error, Result};
use crate::lease::owner::{Owner, OwnerId};
use crate::lock::any::AnyLock;
use crate::lock::once::turn;
use crate::queue::Kind;

pub use crate::lock::once::Record;
pub use crate::lock::once::Slot;
pub use crate::lock::once::once_slot::NumberedPeriod;
pub use crate::lock::once::record::{OnceRecord, RecordedBy, forget, read, record_node};
pub use crate::lock::once::turn::Turn;

/// Acquires the mutex for a slot. Returns `None` and releases the mutex if the slot is already
/// recorded as done. With [`Timeout::Try`], fails with
/// [`LockTimeout`](crate::ErrorKind::LockTimeout) if the lock is taken.
///
/// If the caller receives a [`Turn`], it runs its body. It then calls [`Turn::record`] if the body
/// succeeded, or [`Turn::abandon`] if the body failed. While the body runs, the caller watches
/// [`Turn::lease`].
///
/// Cancel safe: dropping the future leaves the queue or releases the lock. With [`Record::Start`],
/// the slot might already be recorded when the future is dropped.
///
/// # Errors
/// Same as [`Mutex::once_as`](crate::Mutex::once_as). Also
/// [`BadArgument`](crate::ErrorKind::BadArgument) for a lock that is not a mutex.
pub async fn begin(
    lock: &AnyLock,
    owner: &Owner,
    slot: &Slot,
    timeout: Timeout,
    record: Record,
) -> Result<Option<Turn>> {
    begin_for(lock, owner.id(), owner, slot, timeout, record).await
}

/// Like [`begin`], but reports show `caller` as the owner.
///
/// Cancel safe like [`begin`].
///
/// # Errors
/// Same as [`begin`].
pub async fn begin_for(
    lock: &AnyLock,
    owner: OwnerId,
    caller: &Owner,
    slot: &Slot,
    timeout: Timeout,
    record: Record,
) -> Result<Option<Turn>> {
    match lock {
        AnyLock::Lock(lock) if lock.kind() == Kind::Exclusive => {
            turn::begin(lock, (owner, caller), slot, timeout, record).await
        }
        _ => Err(Error::bad_argument("lock", "only a mutex runs a body once per slot")),
    }
}

/// Parses the time at which a slot is recorded as done: `body` or `start`.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument), naming `record`.
pub fn parse_record(record: &str) -> Result<Record> {
    match record {
        "body" => Ok(Record::AfterBody),
        "start" => Ok(Record::Start),
        _ => Err(Error::bad_argument("record", "must be 'body' or 'start'")),
    }
}
