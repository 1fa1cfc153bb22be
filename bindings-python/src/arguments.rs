//! Arguments, checked before anything is sent.

use std::time::Duration;

use pyo3::prelude::*;
use zklock::{LockOptions, Naming};

use crate::errors::Failure;

/// The unit of times in Python.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Who may re-enter a lock; `zklock.aio` keeps one for each task.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Owner(pub(crate) zklock::Owner);

#[pymethods]
impl Owner {
    #[new]
    fn new() -> Self {
        Self(zklock::Owner::new())
    }
}

/// The owner that the calling thread is. Thread identifiers of the system are reused; these are not.
pub(crate) fn this_thread() -> zklock::Owner {
    thread_local! {
        static OWNER: zklock::Owner = zklock::Owner::new();
    }
    OWNER.with(|owner| *owner)
}

/// `blocking` and `timeout` of an acquire, checked.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Patience(pub(crate) zklock::Patience);

#[pymethods]
impl Patience {
    #[new]
    #[pyo3(signature = (blocking, timeout))]
    fn new(blocking: bool, timeout: Option<f64>) -> Result<Self, Failure> {
        patience(blocking, timeout).map(Self)
    }
}

/// `blocking` and `timeout` with the meanings that `threading.Lock.acquire` gives them.
pub(crate) fn patience(blocking: bool, timeout: Option<f64>) -> Result<zklock::Patience, Failure> {
    #[expect(clippy::float_cmp, reason = "exactly -1 is a word for having no time-out")]
    let timeout = timeout.filter(|timeout| *timeout != -1.0);
    match (blocking, timeout) {
        (true, None) => Ok(zklock::Patience::Forever),
        (true, Some(timeout)) => Ok(zklock::Patience::from_timeout(timeout, SECOND)?),
        (false, None) => Ok(zklock::Patience::Try),
        (false, Some(_)) => {
            Err(Failure::bad_argument("timeout: cannot be given together with blocking=False"))
        }
    }
}

/// How long to wait for something else than a lock; `None` is for ever.
pub(crate) fn wait_limit(timeout: Option<f64>) -> Result<Option<Duration>, Failure> {
    Ok(match patience(true, timeout)? {
        zklock::Patience::Forever => None,
        zklock::Patience::For(time) => Some(time),
        zklock::Patience::Try => Some(Duration::ZERO),
    })
}

/// How a lock behaves, from its arguments.
pub(crate) fn lock_options(label: Option<String>, naming: &str) -> Result<LockOptions, Failure> {
    let mut options = LockOptions::default();
    options.label = label;
    options.naming = match naming {
        "curator" => Naming::Curator,
        "kazoo" => Naming::Kazoo,
        _ => return Err(Failure::bad_argument("naming: must be \"curator\" or \"kazoo\"")),
    };
    Ok(options)
}
