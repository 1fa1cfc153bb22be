//! `zklock.Semaphore`.

use std::sync::Arc;

use pyo3::prelude::*;
use zklock::Permits;

use crate::arguments::{Patience, lock_options, patience};
use crate::errors::Failure;
use crate::leases::Leases;
use crate::lock::Lock;
use crate::pending::Pending;
use crate::source::Source;
use crate::wait::block_on;

/// A fair semaphore: so many permits are held at the same time.
///
///     with zklock.Semaphore(client, "/locks/upstream", 5) as lease: ...
#[pyclass(frozen, extends = Lock, module = "zklock")]
pub(crate) struct Semaphore(Arc<zklock::Semaphore>);

#[pymethods]
impl Semaphore {
    #[new]
    #[pyo3(
        signature = (client, path, permits=None, *, shared_count=None, label=None)
    )]
    fn new(
        client: Source,
        path: &str,
        permits: Option<i64>,
        shared_count: Option<String>,
        label: Option<String>,
    ) -> Result<PyClassInitializer<Self>, Failure> {
        let permits = match (permits, shared_count) {
            (Some(permits), None) => Permits::Fixed(number("permits", permits)?),
            (None, Some(path)) => Permits::SharedCount(path),
            _ => {
                let problem = "permits: give either the number or, with shared_count, where it is to be read";
                return Err(Failure::bad_argument(problem));
            }
        };
        let options = lock_options(label, "curator")?;
        let inner = Arc::new(zklock::Semaphore::with_options(client.0, path, permits, options)?);
        let lock = Lock::new(Arc::clone(&inner), "Semaphore").reentrant(false);
        Ok(PyClassInitializer::from(lock).add_subclass(Self(inner)))
    }

    /// The number of permits, or None if it is read from a node.
    #[getter]
    fn permits(&self) -> Option<u32> {
        match self.0.permits() {
            Permits::Fixed(permits) => Some(*permits),
            Permits::SharedCount(_) => None,
        }
    }

    /// The node that the number of permits is read from, or None if it is fixed.
    #[getter]
    fn shared_count(&self) -> Option<&str> {
        match self.0.permits() {
            Permits::Fixed(_) => None,
            Permits::SharedCount(path) => Some(path),
        }
    }

    /// Acquire several permits, all or none; raise `LockTimeout` if not in time.
    #[pyo3(
        signature = (count, blocking=true, timeout=-1.0),
        text_signature = "($self, count, blocking=True, timeout=-1)"
    )]
    fn acquire_many(
        &self,
        py: Python<'_>,
        count: i64,
        blocking: bool,
        timeout: Option<f64>,
    ) -> Result<Leases, Failure> {
        let (count, patience) = (number("count", count)?, patience(blocking, timeout)?);
        let leases = block_on(py, self.0.acquire_many(count, patience))??;
        Ok(Leases::new(py, leases)?)
    }
}

/// A number of permits. What is too small or too large for one is refused like every other wrong number.
fn number(argument: &str, number: i64) -> Result<u32, Failure> {
    let problem = || Failure::bad_argument(&format!("{argument}: {number} is no number of permits"));
    u32::try_from(number).map_err(|_| problem())
}

/// Begin to acquire several permits.
#[pyfunction]
pub(crate) fn start_acquire_many(
    py: Python<'_>,
    semaphore: &Bound<'_, Semaphore>,
    count: i64,
    patience: &Bound<'_, Patience>,
) -> Result<Pending, Failure> {
    let (semaphore, count) = (Arc::clone(&semaphore.get().0), number("count", count)?);
    let patience = patience.get().0;
    Pending::start(py, async move { semaphore.acquire_many(count, patience).await })
}
