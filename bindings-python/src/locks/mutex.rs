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

/// A fair, exclusive lock that queues as Curator's `InterProcessMutex` does.
///
/// >>> lock = zklock.Mutex(client, "/locks/report")
/// >>> with lock as lease:
/// ...     write_report(lease.fencing_token)
///
/// `path` is absolute, below the client's chroot; missing directories are created when needed. Two lock
/// objects on one client and path are one lock. Creating one sends nothing.
///
/// With a hosts string for `client`, the process's one client for these hosts is used, created at the
/// first acquire and closed at the end of the process; None stands for the hosts that
/// `zklock.Client` uses by default. Such a lock works after a fork too. Its client has the options of
/// `options`, or else those of the environment; locks with the same hosts and equal options share it.
///
/// >>> options = zklock.ClientOptions(session_timeout=5)
/// >>> lock = zklock.Mutex("zk1:2181,zk2:2181", "/locks/report", options=options)
///
/// By default it works as `threading.RLock` does. With `reentrant=False` it works as `threading.Lock`
/// does: an acquire by the thread that holds it waits, or times out, and any thread may release it:
///
/// >>> baton = zklock.Mutex(client, "/locks/baton", reentrant=False)
/// >>> baton.acquire()
/// True
/// >>> threading.Thread(target=baton.release).start()
///
/// `label` is shown to operators in the data of the nodes. `naming` decides which other clients
/// understand the nodes: `"curator"`, or `"kazoo"` where kazoo services cannot set
/// `extra_lock_patterns`.
///
/// `max_hold` is for how long the lock may be held, in seconds from the grant on, however often it is
/// entered again. Then the lease is lost (`loss_reason` is `"held too long"`) and the next contender gets
/// the lock. Without it a program that hangs keeps its locks for ever, for the heartbeat goes on. Stop on
/// this loss as on any other: nothing else ends what the program does under the lock.
///
/// >>> lock = zklock.Mutex(client, "/locks/report", max_hold=3600)
///
/// `grace` is how long before the end of its term the lease is reported lost, in seconds: its body can stop
/// before the next contender gets the lock, because the node is kept until the lease is released or that
/// term ends. At most a sixth of the session time-out that the server granted. A lock that is broken, or
/// held for longer than `max_hold`, has no grace.
///
/// >>> lock = zklock.Mutex(client, "/locks/report", grace=1)
///
/// `max_waiters` is how many contenders may wait for the lock at most when this one joins them. An acquire
/// that would have to wait behind this many is refused at once, with `LockTimeout` for the reason `"full"`:
/// for a service that answers 503 rather than queue. With 0 it never waits behind anybody. Holders are no
/// waiters, and one that enters the lock again is never refused. An acquire reads the queue first, which
/// costs a round trip more; those that arrive at the same moment read the same queue, so the limit holds
/// but for those. It is a limit of this lock object. A try (`blocking=False`) does not wait in any case:
/// it returns False, or in `hold` raises for the reason `"taken"`.
///
/// >>> lock = zklock.Mutex(client, "/locks/report", max_waiters=10)
///
/// `cohort` is how many holds may follow each other on one node within this process's client, before the
/// queue of all clients gets its turn: for a lock that many threads or tasks of one process contend for. The
/// thread that releases the lock hands it to the next one without a request. Waiters that will be served so
/// create no nodes, so other clients do not see them, and a contender of another client waits for up to this
/// many holds for each node before its own. Holds on one node share their fencing token: compare the pair
/// `(lease.fencing_token, lease.handoffs)`. Not together with `max_waiters`, which counts nodes.
///
/// >>> lock = zklock.Mutex(client, "/locks/queue", cohort=64)
///
/// `linger` is for how long the lock's node is kept after a release, in seconds, while nobody else waits for
/// it: for a lock that one client takes again and again, such as the read lock of a configuration. Taking it
/// again sends no request. The client gives the node up as soon as a contender joins that has to wait for it;
/// until then a try of another client finds the lock taken. The time counts from the first release after a
/// grant. As with `cohort`, holds on one node share their fencing token.
///
/// >>> settings = zklock.ReadWriteLock(client, "/locks/settings", linger=1)
///
/// Raises `BadArgument` for a malformed argument.
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

    /// Call `body` with the lease, unless this slot is recorded; then record the slot, and release.
    ///
    /// >>> lock.once("2026-11-26", lambda lease: "a report")
    /// 'a report'
    /// >>> lock.once("2026-11-26", lambda lease: "a report") is None
    /// True
    ///
    /// Returns what `body` returns, and None if the slot was recorded already. `key` names the slot: 1 to
    /// 256 bytes without control characters. The lock has one record, of its last slot, which all processes
    /// share: a node beside the lock directory, with `.once` appended to its path. Keys are slots, not
    /// idempotency keys (A, B, A runs A twice).
    ///
    /// A body that raises records nothing, nor does one whose process crashes or whose lock is lost: the slot
    /// runs again. With `record="start"` the slot is recorded before the body, which runs at most once then.
    /// `timeout` is in seconds, for the lock; None and -1 wait as long as it takes. Inside `with lock:` it
    /// enters the lock again. The body must not release the lease.
    ///
    /// Raises what `body` raises; `LockTimeout`; `LockLost` if the lock was lost before the slot was
    /// recorded; `AuthFailed` if the record may not be read, before the body, or not be written, after it;
    /// `BadArgument` for a malformed argument, or for a record that this library has not written; otherwise
    /// what `acquire()` raises.
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

    /// A decorator: a call runs the function unless it has run in this period, in whichever process.
    ///
    /// >>> @lock.once_per(3600)
    /// ... def clean_up():
    /// ...     return "cleaned up"
    /// >>> clean_up()
    /// 'cleaned up'
    /// >>> clean_up() is None
    /// True
    ///
    /// A call returns what the function returns, or None if the period is recorded already. `period` is in
    /// seconds, at least 1. Periods are counted from the beginning of 1970 by the local clock, so one of a
    /// day begins at midnight UTC; the period that counts is the one in which the lock is acquired. Where a
    /// clock is behind, it refuses to go back: the function runs only in a later period than the recorded
    /// one.
    ///
    /// Otherwise a call is as `once()`. In the function, `lock.lease` is the lease.
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
