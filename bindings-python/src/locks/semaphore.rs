//! `zklock.Semaphore`.

use std::sync::Arc;

use pyo3::prelude::*;
use zklock::Permits;
use zklock::internal::{GivenOptions, acquire_permits, parse_count, parse_permits};

use crate::args::arguments::{Blocking, PYTHON, Timeout, bounded_timeout};
use crate::args::checked::{Integer, Number};
use crate::args::names;
use crate::args::names::{Label, Path, SharedCount};
use crate::args::text::Text;
use crate::bridge::asyncio_tasks;
use crate::bridge::block_on::block_to_own;
use crate::bridge::gevent::Caller;
use crate::bridge::owner::Owner;
use crate::bridge::pending::{IntoPython, Pending};
use crate::client_options::LockClientOptions;
use crate::errors::Result;
use crate::locks::client_arg::Source;
use crate::locks::lock::Lock;
use crate::locks::pickle::{Recipe, keywords};
use crate::locks::scope::caller_of;

/// A fair semaphore. Its queue is compatible with Curator's `InterProcessSemaphoreV2`.
///
/// >>> semaphore = zklock.Semaphore(client, "/locks/upstream", 5)
/// >>> with semaphore as lease:
/// ...     lease.state
/// 'held'
///
/// A fixed number of permits can be held at the same time. Contenders queue, and only the first contender in
/// the queue takes permits. So a small request cannot overtake a larger one, and two contenders cannot block
/// each other by each holding some of the permits that both need.
///
/// Permits have no owner: every acquire takes another permit, even in the same thread. `release()` returns
/// the newest permit that any thread acquired through this object with `acquire()`. Unlike
/// `threading.Semaphore`, it cannot return more permits than were taken. `lease` is the lease of that newest
/// permit, and `owned()` returns whether there is one. A lease can also be released directly, from any
/// thread. Do not compare the fencing tokens of permits that are held at the same time.
///
/// All contenders on a path must agree on the number of permits. A contender that finds another number, when
/// it first uses the path or when it has to wait, raises `PermitsMismatch`. With `shared_count` the number is
/// read from the node at that path, which is a Curator `SharedCount`: four bytes, big-endian. Every acquire
/// reads it, and waiters notice a change.
///
/// With `blocking=False` or a timeout of 0, an acquire does not wait for a permit. But it can wait up to two
/// seconds for another contender that is taking permits at that moment.
///
/// `contenders()` first lists the nodes below `leases/`: one for each permit that is held, or that the first
/// contender in the queue is taking. Then it lists the nodes below `locks/`, which are the queue of
/// contenders that do not have their permits yet.
///
/// `max_hold` (in seconds) and `max_waiters` work as in `Mutex`. `max_hold` limits the hold of each permit
/// separately. `max_waiters` counts all contenders in the queue.
///
/// Raise `BadArgument` for a malformed argument, and if both or neither of `permits` and `shared_count` are
/// given. An acquire raises it if there is no number at `shared_count`.
#[pyclass(frozen, extends = Lock, module = "zklock")]
pub(crate) struct Semaphore(Arc<zklock::Semaphore>);

#[pymethods]
impl Semaphore {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "by keyword")]
    #[pyo3(
        signature = (client, path, permits=None, *, shared_count=None, label=None, max_hold=None, grace=None, max_waiters=None, options=None)
    )]
    fn new(
        py: Python<'_>,
        client: Source,
        path: Text<Path>,
        permits: Option<Integer<names::Permits>>,
        shared_count: Option<Text<SharedCount>>,
        label: Option<Text<Label>>,
        max_hold: Option<Number<names::MaxHold>>,
        grace: Option<Number<names::Grace>>,
        max_waiters: Option<Integer<names::MaxWaiters>>,
        options: Option<LockClientOptions>,
    ) -> Result<PyClassInitializer<Self>> {
        let shared_count = shared_count.map(String::from);
        let [max_hold, grace] = [max_hold.map(|seconds| seconds.0), grace.map(|seconds| seconds.0)];
        let permits = permits.map(|permits| permits.0);
        let max_waiters = max_waiters.map(|waiters| waiters.to_number());
        let given = GivenOptions {
            label: label.map(String::from),
            max_hold,
            grace,
            max_waiters,
            ..Default::default()
        };
        let keywords = keywords(py, &given)?;
        keywords.set_item("permits", permits)?;
        keywords.set_item("shared_count", &shared_count)?;
        let source = client.with_options(options, &keywords)?;
        let recipe = Recipe::new(client.given(), &path, keywords);
        let permits = parse_permits(permits, shared_count)?;
        let options = PYTHON.lock_options(given)?;
        let inner = Arc::new(zklock::Semaphore::with_options(source, &path, permits, options)?);
        Ok(Lock::new(Arc::clone(&inner), "Semaphore", false, recipe).add_subclass(Self(inner)))
    }

    /// The number of permits, or None if it is read from a node.
    #[getter]
    fn permits(&self) -> Option<u32> {
        match self.0.permits() {
            Permits::Fixed(permits) => Some(*permits),
            Permits::SharedCount(_) => None,
        }
    }

    /// The node from which the number of permits is read, or None if the number is fixed.
    #[getter]
    fn shared_count(&self) -> Option<&str> {
        match self.0.permits() {
            Permits::Fixed(_) => None,
            Permits::SharedCount(path) => Some(path),
        }
    }

    /// Acquire `count` permits, all or none. Return a context manager with their leases.
    ///
    /// >>> with semaphore.acquire_many(3, timeout=10) as leases:
    /// ...     leases[2].state
    /// 'held'
    ///
    /// See `acquire` for the arguments. Unlike `acquire`, a timeout raises `LockTimeout`. The semaphore's own
    /// `release()` does not release these leases. If the number at `shared_count` is smaller than `count`,
    /// the call waits until that number has grown.
    ///
    /// Raise `BadArgument` for zero permits, or for more permits than the semaphore has.
    #[pyo3(
        signature = (count, blocking=Blocking(true), timeout=Number::of(-1.0), *, connect_timeout=None),
        text_signature = "($self, count, blocking=True, timeout=-1, *, connect_timeout=None)"
    )]
    fn acquire_many(
        &self,
        py: Python<'_>,
        count: Integer<names::Count>,
        blocking: Blocking,
        timeout: Option<Number<names::Timeout>>,
        connect_timeout: Option<Number<names::ConnectTimeout>>,
    ) -> Result<Py<PyAny>> {
        let timeout = bounded_timeout(blocking.0, timeout, connect_timeout)?;
        let count = parse_count("count", count.0)?;
        asyncio_tasks::admit(py)?;
        let (semaphore, caller) = (Arc::clone(&self.0), Caller::find(py)?.named(py)?);
        let acquired = async move { acquire_permits(&semaphore, &caller, count, timeout).await };
        Ok(block_to_own(py, acquired)??.into_python(py)?)
    }
}

/// Start to acquire several permits.
#[pyfunction]
pub(crate) fn start_acquire_many(
    py: Python<'_>,
    semaphore: &Semaphore,
    owner: Option<&Owner>,
    count: Integer<names::Count>,
    timeout: &Timeout,
) -> Result<Pending> {
    let (semaphore, count) = (Arc::clone(&semaphore.0), parse_count("count", count.0)?);
    let (caller, timeout) = (caller_of(py, owner)?, timeout.0);
    Pending::start(py, async move { acquire_permits(&semaphore, &caller, count, timeout).await })
}
