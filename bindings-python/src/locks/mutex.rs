//! `zklock.Mutex`.

use pyo3::prelude::*;
use zklock::internal::GivenOptions;

use crate::args::arguments::{PYTHON, Timeout};
use crate::args::checked::{Flag, Integer, Number};
use crate::args::names;
use crate::args::names::{Label, Naming, Path, SlotKey};
use crate::args::text::Text;
use crate::client_options::LockClientOptions;
use crate::errors::Result;
use crate::locks::client_arg::Source;
use crate::locks::lock::Lock;
use crate::locks::once::Slot;
use crate::locks::pickle::{Recipe, keywords};

/// A fair, exclusive lock. Its queue is compatible with Curator's `InterProcessMutex`.
///
/// >>> lock = zklock.Mutex(client, "/locks/report")
/// >>> with lock as lease:
/// ...     write_report(lease.fencing_token)
///
/// `path` is absolute, below the client's chroot. Missing directories are created when needed. Two lock
/// objects with the same client and path are the same lock. The constructor sends nothing.
///
/// `client` can be a hosts string instead. The lock then uses the process's shared client for these hosts.
/// This client is created at the first acquire and closed at the end of the process. None means the default
/// hosts of `zklock.Client`. Such a lock also works after a fork. Its client has the settings in `options`,
/// or else those from the environment. Locks with the same hosts and equal options share it.
///
/// >>> options = zklock.ClientOptions(session_timeout=5)
/// >>> lock = zklock.Mutex("zk1:2181,zk2:2181", "/locks/report", options=options)
///
/// By default it works like `threading.RLock`. With `reentrant=False` it works like `threading.Lock`: even
/// the thread that holds it must wait when it acquires it again, and any thread can release it:
///
/// >>> baton = zklock.Mutex(client, "/locks/baton", reentrant=False)
/// >>> baton.acquire()
/// True
/// >>> threading.Thread(target=baton.release).start()
///
/// Operators can see `label` in the data of the lock nodes. `naming` sets the format of the node names:
/// `"curator"`, or `"kazoo"` if the other clients are kazoo services that cannot set `extra_lock_patterns`.
///
/// `max_hold` is the maximum time of a hold in seconds, counted from the grant. Re-entries do not extend it.
/// After that the lease is lost (`loss_reason` is `"held too long"`), and the next contender gets the lock.
/// Without this option, a program that hangs keeps its locks forever, because its heartbeats continue. The
/// program must stop its work after this loss as after any other, because zklock cannot stop it.
///
/// >>> lock = zklock.Mutex(client, "/locks/report", max_hold=3600)
///
/// `grace` is a time in seconds. The loss of a lease is reported this long before another contender can get
/// the lock, so that the program can stop its work first. If it releases the lease earlier, the lock is free
/// earlier. The maximum is a sixth of the session timeout that the server granted. There is no grace if an
/// operator breaks the lock, or if a hold exceeds `max_hold`.
///
/// >>> lock = zklock.Mutex(client, "/locks/report", grace=1)
///
/// `max_waiters` limits the length of the queue. If that many contenders already wait, an acquire fails
/// immediately: it raises `LockTimeout` with the reason `"full"`. Use it in a service that answers 503
/// instead of queueing. With 0 an acquire never waits behind another contender. Holders do not count as
/// waiters, and a re-entry is never refused. Each acquire reads the queue first, which takes one more round
/// trip. Acquires that arrive at the same moment read the same queue, so together they can exceed the limit.
/// The limit applies only to acquires of this lock object. An acquire that does not wait (`blocking=False`)
/// is not affected: it returns False, or `hold(0)` raises `LockTimeout` with the reason `"taken"`.
///
/// >>> lock = zklock.Mutex(client, "/locks/report", max_waiters=10)
///
/// `cohort` is the maximum number of consecutive holds by waiters of this client before the next node in the
/// queue gets the lock. Use it if many threads or tasks of one process contend for the lock. They share a
/// node: the thread that releases the lock hands it to the next one without a request. Waiters that share a
/// node create none of their own, so other clients do not see them. A contender of another client waits for
/// up to this many holds for each node ahead of it. Holds on one node have the same fencing token: compare
/// the pair `(lease.fencing_token, lease.handoffs)`. This option cannot be combined with `max_waiters`, which
/// counts nodes.
///
/// >>> lock = zklock.Mutex(client, "/locks/queue", cohort=64)
///
/// `linger` is the time in seconds for which the client keeps the lock's node after a release, while no other
/// client waits for the lock. Use it for a lock that one client acquires repeatedly, such as the read lock of
/// a configuration: the next acquire sends no request. The client deletes the node as soon as another
/// contender waits behind it. Until then, an acquire with `blocking=False` of another client finds the lock
/// taken. The time counts from the first release after a grant. As with `cohort`, holds on one node have the
/// same fencing token.
///
/// >>> settings = zklock.ReadWriteLock(client, "/locks/settings", linger=1)
///
/// Raise `BadArgument` for a malformed argument.
#[pyclass(frozen, extends = Lock, module = "zklock")]
pub(crate) struct Mutex;

#[pymethods]
impl Mutex {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "by keyword")]
    #[pyo3(
        signature = (
            client, path, *, reentrant=Flag::of(true), label=None, naming=Text::of("curator"), max_hold=None, grace=None,
            max_waiters=None, cohort=Integer::of(0), linger=Number::of(0.0), options=None
        ),
        text_signature = "(client, path, *, reentrant=True, label=None, naming='curator', max_hold=None, grace=None, max_waiters=None, cohort=0, linger=0.0, options=None)"
    )]
    fn new(
        py: Python<'_>,
        client: Source,
        path: Text<Path>,
        reentrant: Flag<names::Reentrant>,
        label: Option<Text<Label>>,
        naming: Text<Naming>,
        max_hold: Option<Number<names::MaxHold>>,
        grace: Option<Number<names::Grace>>,
        max_waiters: Option<Integer<names::MaxWaiters>>,
        cohort: Integer<names::Cohort>,
        linger: Number<names::Linger>,
        options: Option<LockClientOptions>,
    ) -> Result<PyClassInitializer<Self>> {
        let given = GivenOptions {
            reentrant: Some(reentrant.0),
            label: label.map(String::from),
            naming: Some(naming.into()),
            max_hold: max_hold.map(|seconds| seconds.0),
            grace: grace.map(|seconds| seconds.0),
            max_waiters: max_waiters.map(|waiters| waiters.to_number()),
            cohort: (cohort.0 != 0).then(|| cohort.to_number()),
            linger: (linger.0 != 0.0).then_some(linger.0),
        };
        let keywords = keywords(py, &given)?;
        let source = client.with_options(options, &keywords)?;
        let recipe = Recipe::new(client.given(), &path, keywords);
        let inner = zklock::Mutex::with_options(source, &path, PYTHON.lock_options(given)?)?;
        Ok(Lock::new(inner, "Mutex", reentrant.0, recipe).add_subclass(Self))
    }

    /// Call `body(lease)` under the lock, unless the slot `key` is already recorded. Then record the slot.
    ///
    /// >>> lock.once("2026-11-26", lambda lease: "a report")
    /// 'a report'
    /// >>> lock.once("2026-11-26", lambda lease: "a report") is None
    /// True
    ///
    /// Return the result of `body`, or None if the slot was already recorded. `key` has 1 to 256 bytes, and
    /// no control characters. All processes share the record of a lock. It is a node next to the lock
    /// directory, with `.once` appended to the directory's path. Only the last slot is recorded, so the calls
    /// A, B, A run A twice: do not use idempotency keys as slots.
    ///
    /// If the body raises an exception, the process crashes, or the lock is lost, nothing is recorded, and a
    /// later call runs the slot again. With `record="start"` the slot is recorded before the body, which then
    /// runs at most once. `timeout` for the lock is in seconds; with None and -1 the call waits without a
    /// limit. Inside `with lock:` the call re-enters the lock. The body must not release the lease.
    ///
    /// Raise:
    ///
    /// - any exception of `body`;
    /// - `LockTimeout`;
    /// - `LockLost` if the lock was lost before the slot was recorded;
    /// - `AuthFailed` if the client has no permission to read the record (before the body) or to write it
    ///   (after the body);
    /// - `BadArgument` for a malformed argument, or for a record that this library has not written;
    /// - the other exceptions of `acquire()`.
    #[pyo3(
        signature = (key, body, *, timeout=None, record=Text::of("body")),
        text_signature = "($self, key, body, *, timeout=None, record='body')"
    )]
    fn once<'py>(
        slf: &Bound<'py, Self>,
        key: Text<SlotKey>,
        body: &Bound<'py, PyAny>,
        timeout: Option<Number<names::Timeout>>,
        record: Text<names::Record>,
    ) -> Result<Bound<'py, PyAny>> {
        let (slot, timeout) = (Slot::key(key, record)?, Timeout::waiting(timeout)?);
        Ok(slf.py().import("zklock._once")?.call_method1("once", (slf, slot, body, timeout))?)
    }

    /// Return a decorator: a call runs the function at most once per period, across all processes.
    ///
    /// >>> @lock.once_per(3600)
    /// ... def clean_up():
    /// ...     return "cleaned up"
    /// >>> clean_up()
    /// 'cleaned up'
    /// >>> clean_up() is None
    /// True
    ///
    /// A call returns the result of the function, or None if the period is already recorded. `period` is in
    /// seconds, at least 1. Periods are counted from the beginning of 1970 by the local clock, so a period of
    /// one day begins at midnight UTC. The period in which the lock is acquired counts. The function runs
    /// only if this period is later than the recorded one, so it does not run on a host whose clock is too
    /// far behind.
    ///
    /// In all other respects a call works like `once()`. In the function, `lock.lease` is the lease.
    #[pyo3(
        signature = (period, *, timeout=None, record=Text::of("body")),
        text_signature = "($self, period, *, timeout=None, record='body')"
    )]
    fn once_per<'py>(
        slf: &Bound<'py, Self>,
        period: Number<names::Period>,
        timeout: Option<Number<names::Timeout>>,
        record: Text<names::Record>,
    ) -> Result<Bound<'py, PyAny>> {
        let (slot, timeout) = (Slot::per(period, record)?, Timeout::waiting(timeout)?);
        Ok(slf.py().import("zklock._once")?.call_method1("once_per", (slf, slot, timeout))?)
    }
}
