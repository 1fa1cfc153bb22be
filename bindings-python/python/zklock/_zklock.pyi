"""The extension module. What is public of it is exported by `zklock`; the rest serves `zklock.aio`."""

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, final

from typing_extensions import disjoint_base

_T = TypeVar("_T")

__all__ = [
    "Client",
    "Contender",
    "Histogram",
    "Hold",
    "Lease",
    "Leases",
    "Lock",
    "MultiLock",
    "Mutex",
    "Notice",
    "Owner",
    "Patience",
    "Pending",
    "ReadWriteLock",
    "Semaphore",
    "Stats",
    "Tls",
    "Transaction",
    "__version__",
    "is_held",
    "is_open",
    "lazy_client",
    "next_events",
    "owned_by",
    "shutdown",
    "start_acquire",
    "start_acquire_all",
    "start_acquire_many",
    "start_break_lock",
    "start_close",
    "start_commit",
    "start_connect",
    "start_contenders",
    "start_locked",
    "start_release",
    "start_revoke",
    "start_wait_lost",
]

__version__: str

@final
class Client:
    """A connection to a ZooKeeper ensemble, shared by the locks made on it.

        with zklock.Client("zk1:2181,zk2:2181/chroot") as client:
            lock = zklock.Mutex(client, "/locks/report")

    `hosts` is `host[:port]`, separated by commas, with an optional chroot at the end. Without it the
    environment variable `ZKLOCK_HOSTS` counts, else `127.0.0.1:2181`. Times are in seconds: after
    `session_timeout` without hearing from this process the servers free its locks. `label` is shown to
    operators in the data of the nodes.

    `auth` are credentials to show to the servers: pairs of scheme and credential, as
    `("digest", "user:password")`. `acl` says who may do what with the nodes that the client makes, parents
    too: `"open"` to everybody, the default; `"creator"`, for whoever shows the same credentials; or rules as
    ZooKeeper's own command line takes them, `"digest:user:hash:cdrwa,world:anyone:r"`. What is not permitted
    is `AuthFailed`. A server takes any password of the scheme `digest`; a wrong one shows at the nodes. Locks
    that are made with a hosts string show none.

    `sasl` is a user and password for DIGEST-MD5; a server that refuses them is `AuthFailed`, at once. `tls`
    encrypts the connections.

    Connects, or raises `ConnectionFailed` if no server answers within `connect_timeout`. Raises
    `BadArgument` for a malformed argument, before anything is sent.

    The client closes when nothing uses it any more, and at the end of the process. A child process that
    inherits it through fork makes its own: the inherited one raises `Forked`.
    """

    def __new__(
        cls,
        hosts: str | None = None,
        *,
        session_timeout: float = 10.0,
        connect_timeout: float = 10.0,
        auth: Sequence[tuple[str, str | bytes]] = (),
        acl: str | None = None,
        sasl: tuple[str, str] | None = None,
        tls: Tls | None = None,
        label: str | None = None,
    ) -> Self: ...
    @property
    def state(self) -> str:
        """`connecting`, `connected`, `suspended` (out of touch; the session may live on) or `closed`."""

    @property
    def session_id(self) -> int:
        """The current ZooKeeper session."""

    def on_state(self, callback: Callable[[str], object]) -> Notice:
        """Have `callback` called with the new state whenever it changes, from now on, until it is `closed`.

        It tells of the connection, not of locks: see `Lease.on_lost` for those. How it is called: as there.
        """

    def stats(self) -> Stats:
        """What the client did since it was made. Sends nothing, and works for a closed client too."""

    def revoke(self, node: str) -> None:
        """Ask a contender to give its lock up, as Curator's `Revoker` does.

        `node` is its node's full path below the client's chroot, as `Lease.node` gives it, and
        `f"{lock.path}/{contender.node}"`. A holder hears of it if it listens, as with `Lease.on_revoke`, and
        does as it likes.

        Raises `NotHeld` if there is no such node, `BadArgument` if it is not a contender's, `AuthFailed`,
        `ConnectionFailed`.
        """

    def break_lock(self, node: str) -> None:
        """Take a contender's lock, or its place in the queue, away: delete its node. For operators.

        A holder that is in touch with the server learns of its loss within moments, but perhaps after the
        next one was granted the lock. Raises as `revoke`.
        """

    def close(self) -> None:
        """Close the client: its leases are lost, its waiters fail, and its nodes go with its session.

        Waits until the server has acknowledged it, up to two seconds. Closing again does nothing.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Lease:
    """Proof of holding a lock, returned by a successful acquire.

    Every acquire gives a lease of its own. Those of one owner on one path share node, token and state; the
    last one released frees the lock. A lease that nothing refers to any more is released.
    """

    @property
    def path(self) -> str:
        """The lock path, as given when the lock was made."""

    @property
    def node(self) -> str:
        """The full path of the lock's node, below the client's chroot."""

    @property
    def fencing_token(self) -> int:
        """A number that grows from holder to holder over the life of the ensemble.

        Hand it to the resource that the lock guards, and let that refuse smaller ones: a process that was
        paused cannot know that it lost the lock.
        """

    @property
    def session_id(self) -> int:
        """The ZooKeeper session that owns the node."""

    @property
    def state(self) -> str:
        """`held`; `suspended` while the server is out of reach; `lost` for good; or `released`.

        A suspended lease is still good, for `remaining` seconds: it is held again when the server answers in
        time, and lost when it does not. Sends nothing.
        """

    @property
    def remaining(self) -> float:
        """For how many seconds nobody else can have the lock, whatever happens; 0 if lost or released.

        It ends half the session time-out after the last write that the server acknowledged, and is prolonged
        while the server answers. Sends nothing.
        """

    @property
    def loss_reason(self) -> str | None:
        """Why the lease is lost, or None: `term ended`, `session expired`, `node deleted`, `client closed`.

        In a forked child, `inherited through fork`. Sends nothing.
        """

    def check(self) -> None:
        """Return if the lock is held. Sends nothing.

        Raises `LockLost`, or `NotHeld` after a release.
        """

    def on_lost(self, callback: Callable[[Lease], object]) -> Notice:
        """Have `callback` called with the lease, once, when it is lost; soon, if it is already.

        It is called on the thread `zklock-deliver`, where all callbacks wait for one another: let it set an
        event or the like, and return. What it raises goes to `sys.unraisablehook`. Nothing is called once the
        lease is released. A callback that refers to the lease itself, not to its argument, keeps it held.
        """

    def on_revoke(self, callback: Callable[[Lease], object]) -> Notice:
        """Have `callback` called with the lease, once, when somebody asks for the lock to be given up.

        As with `Client.revoke`, or Curator's `Revoker`; a request that was made before this call counts. The
        lease stays held: to release it is the holder's part. How it is called: see `on_lost`.
        """

    def transaction(self) -> Transaction:
        """Begin a transaction that is carried out only while the lock is held. Sends nothing."""

    def wait_lost(self, timeout: float | None = -1) -> bool:
        """Wait until the lease is lost; False if it was released first, or after `timeout` seconds.

        Raises `BadArgument` for a time-out below zero, but for -1, which like None is for ever.
        """

    def release(self, wait: bool = True) -> None:
        """Release this level, from any thread, once. The last level of a hold frees the lock.

        Waits until the server has acknowledged it, or the session is over; with `wait=False` returns when
        the release is on its way. It never fails because of the network.

        Raises `NotHeld` the second time.
        """

@final
class Leases:
    """The leases of one acquire of several locks or permits, in the order in which they were taken.

        with semaphore.acquire_many(3) as leases:
            print([lease.fencing_token for lease in leases])

    Each may be released on its own. The end of a `with` block releases those that were not, and raises
    `LockLost` if one was lost. Leases that nothing refers to any more are released.
    """

    def check(self) -> None:
        """Return if all locks are held. Sends nothing.

        Raises `LockLost`, or `NotHeld` after the release of one.
        """

    def release(self, wait: bool = True) -> None:
        """Release those that were not released yet, from any thread, the last one first. See `Lease.release`.

        Raises `NotHeld` if all were.
        """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Lease: ...
    def __iter__(self) -> Iterator[Lease]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Contender:
    """One contender in the queue of a lock, as `Lock.contenders()` found it. Does not change."""

    @property
    def position(self) -> int:
        """Its place, from 0. The first holds; so do readers and permits behind it as far as there is room."""

    @property
    def node(self) -> str:
        """Its node's name within the lock path."""

    @property
    def reader(self) -> bool:
        """Whether it wants to hold together with other readers."""

    @property
    def session_id(self) -> int:
        """The ZooKeeper session that owns the node."""

    @property
    def fencing_token(self) -> int:
        """The fencing token that it has, or will have."""

    @property
    def host(self) -> str | None:
        """The name of its host; None, as all that follows, if it is not one of zklock's."""

    @property
    def pid(self) -> int | None:
        """Its process."""

    @property
    def language(self) -> str | None:
        """The language of its program: `python`, `node` or `rust`."""

    @property
    def label(self) -> str | None:
        """The label of its lock or client, or None if it has none."""

    @property
    def since(self) -> float | None:
        """Since when it contends, by its own clock, in seconds since 1970 as `time.time()` counts them."""

    @property
    def data(self) -> bytes:
        """The node's data as it is, whoever wrote it."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@disjoint_base
class Lock:
    """Something that can be acquired: a `Mutex`, a half of a `ReadWriteLock`, or a `Semaphore`.

        with lock as lease: ...
        with lock.hold(timeout=5) as lease: ...
        if lock.acquire(timeout=5):
            try:
                ...
            finally:
                lock.release()

    The *owner* of a lock, who may acquire it again, is the thread. An owner that acquired a lock n times
    releases it n times. The lock object may be shared by threads. Levels that were never released are when
    the object goes.
    """

    @property
    def path(self) -> str:
        """The lock path."""

    @property
    def lease(self) -> Lease | None:
        """The calling thread's newest lease of this object that was not released, or None.

        With `reentrant=False`: the object's, whoever acquired it.
        """

    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> bool:
        """Acquire the lock for the calling thread; False if it was not acquired in time, and only then.

        `timeout` is in seconds and covers connecting, queueing and waiting together. -1 or None waits as
        long as it takes: connection loss only lengthens the wait. 0 is the same as `blocking=False`: a lock
        that is taken is not queued for.

        Other threads run while this one waits. Ctrl-C is answered within 0.2 s and leaves the queue.

        Raises `BadArgument` for another negative time-out, for NaN, and for a time-out together with
        `blocking=False`; `UpgradeRefused` for a write lock whose read lock the caller holds;
        `ConnectionFailed` if no server was ever reached, or, without blocking, if none answers within the
        client's `connect_timeout`; `ClientClosed`, `AuthFailed`, `SequenceExhausted`, `Forked`.
        """

    def release(self, wait: bool = True) -> None:
        """Undo the calling thread's newest acquire of this object. See `Lease.release`.

        With `reentrant=False`: the object's newest acquire, whoever calls.

        Raises `NotHeld` if there is none.
        """

    def owned(self) -> bool:
        """Whether the calling thread holds the lock, through this object or another one. Sends nothing.

        With `reentrant=False`: whether this object holds it, whoever acquired it.
        """

    def locked(self) -> bool:
        """Whether anybody holds the lock or waits for it, as of now: it may have changed when this returns.

        Of a semaphore: whether no permit is free. One read, whoever holds it. Raises `ConnectionFailed` if no
        server answers within the client's `connect_timeout`.
        """

    def contenders(self) -> list[Contender]:
        """Who contends for the lock, in the order of the queue: those that hold it first.

        Two round trips, however many there are. Raises what `locked()` raises.
        """

    def hold(self, timeout: float | None = -1) -> Hold[Lease]:
        """A context manager that acquires within `timeout` seconds, or raises `LockTimeout`.

        Its message says whether the lock was taken or the servers were out of reach.
        """

    def __enter__(self) -> Lease: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Mutex(Lock):
    """A fair, exclusive lock, queued for as Curator's `InterProcessMutex` is.

        lock = zklock.Mutex(client, "/locks/report")
        with lock as lease:
            write_report(lease.fencing_token)

    `path` is absolute, below the client's chroot; missing directories are made when needed. Two lock
    objects on one client and path are one lock. Making one sends nothing.

    With a hosts string for `client` the process's one client for these hosts is used, made at the first
    acquire and closed at the end of the process. Such a lock works after a fork, too.

    With `reentrant=False` it is to `threading.Lock` what it is to `threading.RLock` otherwise: an acquire by
    the thread that holds it waits, or times out, and any thread may release it:

        lock = zklock.Mutex(client, "/locks/report", reentrant=False)
        lock.acquire()
        threading.Thread(target=lock.release).start()

    `label` is shown to operators in the data of the nodes. `naming` decides who else understands them:
    `"curator"`, or `"kazoo"` where kazoo services cannot set `extra_lock_patterns`.

    Raises `BadArgument` for a malformed argument.
    """

    def __new__(
        cls,
        client: Client | str,
        path: str,
        *,
        reentrant: bool = True,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
    ) -> Self: ...

@final
class ReadWriteLock:
    """A fair, reentrant read/write lock, queued for as Curator's `InterProcessReadWriteLock` is.

        lock = zklock.ReadWriteLock(client, "/locks/catalogue")
        with lock.read_lock:
            read()
        with lock.write_lock as lease:
            write(lease.fencing_token)

    Readers hold it together, a writer holds it alone. A reader that comes after a waiting writer waits
    behind it.

    A writer may take the read lock as well, and keeps that when it releases the write lock, with no other
    writer in between:

        with lock.write_lock:
            write()
            lock.read_lock.acquire()
        read()
        lock.read_lock.release()

    The other way round would have it wait for itself: a reader that asks for the write lock gets
    `UpgradeRefused` at once.

    The arguments are those of `Mutex`. Fencing tokens of readers that hold together are not comparable. A
    mutex and a read/write lock on one path are not one lock; give them different paths.
    """

    def __new__(
        cls,
        client: Client | str,
        path: str,
        *,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
    ) -> Self: ...
    @property
    def path(self) -> str:
        """The lock path."""

    @property
    def read_lock(self) -> Lock:
        """The half that is held together with other readers."""

    @property
    def write_lock(self) -> Lock:
        """The half that is held alone."""

@final
class Stats:
    """What a client did since it was made: a snapshot, of numbers that only grow.

    A *hold* begins with a grant and ends with its last release, or with its loss. Re-entry begins none, and
    counts nowhere: it costs nothing. Each permit of a semaphore is a hold.
    """

    @property
    def transport(self) -> str | None:
        """What carries the requests: `zklock`, or `stock` on sockets and timers of other crates.

        None before there was a session.
        """

    @property
    def acquisitions(self) -> int:
        """Holds that began."""

    @property
    def contended(self) -> int:
        """Those among them that had to wait for somebody."""

    @property
    def busy(self) -> int:
        """Tries that found the lock taken."""

    @property
    def timeouts(self) -> int:
        """Attempts whose time ran out."""

    @property
    def losses(self) -> int:
        """Holds that were lost, other than by closing the client."""

    @property
    def wait(self) -> Histogram:
        """How long the acquisitions took, from the call to the grant."""

    @property
    def hold(self) -> Histogram:
        """How long the holds lasted that have ended."""

    @property
    def requests(self) -> dict[str, int]:
        """Requests for locks, by what they were for: `create`, `list`, `watch`, `delete` and so on.

        Every kind is there, also those that were not sent. What a session sends for itself is not among
        them: its pings, its beginning and end, and setting or dropping watches on a server.
        """

@final
class Histogram:
    """How often something took how long, as a Prometheus histogram has it. Times are in seconds."""

    @property
    def count(self) -> int:
        """How often."""

    @property
    def sum(self) -> float:
        """How long together."""

    @property
    def max(self) -> float:
        """The longest of all."""

    @property
    def buckets(self) -> list[tuple[float, int]]:
        """Upper bounds, growing, each with how many took no longer than this.

        The bounds are 1, 2 and 5 of every power of ten from 100 µs to 1,000 s. What took longer is in
        `count` only.
        """

@final
class Semaphore(Lock):
    """A fair semaphore, queued for as Curator's `InterProcessSemaphoreV2` is: so many hold at the same time.

        slots = zklock.Semaphore(client, "/locks/upstream", 5)
        with slots as lease: ...
        with slots.acquire_many(3, timeout=10) as leases: ...

    Contenders take turns, and the one whose turn it is waits for its permits. So whoever wants many is not
    overtaken by those who want few, and no two can each keep a part of what both need.

    Permits have no owner: every acquire, of the same thread too, takes another one. `release()` gives back
    the newest permit that was acquired through this object with `acquire()`, whoever calls; unlike that of
    `threading.Semaphore` it cannot give back more than were taken. `lease` is the lease of that permit, and
    `owned()` tells whether there is one. A lease may also be released on its own, from any thread. Fencing
    tokens of permits that are held at the same time are not comparable.

    All contenders on a path must agree on the number of permits. Who finds that somebody there states
    another one, when it first uses the path or when it has to wait, gets `PermitsMismatch`. With
    `shared_count` the number is read instead from the node at that path, which is one of Curator's
    `SharedCount`: four bytes, the highest first. It is read at every acquire, and who waits learns of a
    change.

    `contenders()` lists a node for each permit that is held or is being waited for in turn (`leases/…`),
    then those that take turns (`locks/…`), of whom the first is the one that is waiting for its permits.

    Raises `BadArgument` for a malformed argument, and unless exactly one of `permits` and `shared_count` is
    given; at an acquire if there is no number at `shared_count`.
    """

    def __new__(
        cls,
        client: Client | str,
        path: str,
        permits: int | None = None,
        *,
        shared_count: str | None = None,
        label: str | None = None,
    ) -> Self: ...
    @property
    def permits(self) -> int | None:
        """The number of permits, or None if it is read from a node."""

    @property
    def shared_count(self) -> str | None:
        """The node that the number of permits is read from, or None if it is fixed."""

    def acquire_many(self, count: int, blocking: bool = True, timeout: float | None = -1) -> Leases:
        """Acquire `count` permits, all or none, and return their leases: a context manager, too.

        The arguments are those of `acquire`, but what cannot be had in time raises `LockTimeout`. The
        leases are the caller's: `release()` of the semaphore does not know of them. More permits than a
        shared number says are waited for.

        Raises `BadArgument` for no permits, or more than there are.
        """

@final
class MultiLock:
    """Several locks as one: all are acquired, or none.

        with zklock.MultiLock([accounts, ledger.write_lock]) as leases: ...

    Any kinds may be mixed. They are taken in one order that all zklock programs share: by ensemble, then by
    path from the root; so two of them cannot wait for each other. A lock that is named twice is taken once;
    of a read/write lock the write half is taken before the read half. The time-out is one for all. If one
    cannot be acquired those before it are released; if one is lost while another is waited for, all are
    released and acquired anew.

    The owner is the thread, as of its locks. Acquiring is refused with `BadArgument` for an owner that
    holds one of the locks but not one that comes before it: taking that now would break the order.

    Raises `BadArgument` for no locks; for one path through two clients, or as locks of two kinds; and for a
    lock named twice that does not re-enter.
    """

    def __new__(cls, locks: Iterable[Lock]) -> Self: ...
    @property
    def paths(self) -> list[str]:
        """The locks' paths, in the order in which they are taken."""

    @property
    def leases(self) -> Leases | None:
        """The calling thread's newest leases of this object that were not released, or None."""

    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> bool:
        """Acquire all for the calling thread; False if not all were acquired in time. See `Lock.acquire`."""

    def release(self, wait: bool = True) -> None:
        """Undo the calling thread's newest acquire of this object. See `Leases.release`.

        Raises `NotHeld` if there is none.
        """

    def hold(self, timeout: float | None = -1) -> Hold[Leases]:
        """A context manager that acquires all within `timeout` seconds, or raises `LockTimeout`."""

    def __enter__(self) -> Leases: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Hold(Generic[_T]):
    """What the locks' `hold()` returns. May be entered again."""

    def __enter__(self) -> _T: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Tls:
    """Encryption of a client's connections: files in PEM.

        zklock.Client("zk1:2281", tls=zklock.Tls("ca.pem", cert="me.pem", key="me.key"))

    `ca` are the certificates of the authorities that vouch for the servers. A server's certificate must be
    for the name or address by which it is reached. `cert` and `key` are shown to servers that ask who we are;
    they belong together. The files are read when a client is made, which raises `BadArgument` if it cannot.
    """

    def __new__(
        cls,
        ca: str | PathLike[str],
        *,
        cert: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
    ) -> Self: ...

@final
class Transaction:
    """Writes to ZooKeeper that are carried out together, and only if the lock's node stands at that moment.

        lease.transaction().set_data("/report/state", b"done", version=3).delete("/report/draft").commit()

    So they need no fencing token: a holder that was paused, and whose lock went to somebody else, changes
    nothing. Paths are absolute, below the client's chroot. Nodes are created persistent, with the client's
    access control list. Every method but `commit` returns the transaction.
    """

    def create(self, path: str, data: bytes = b"") -> Self:
        """Create a node."""

    def set_data(self, path: str, data: bytes, version: int | None = None) -> Self:
        """Write a node's data, if it is of this version; of any, without."""

    def delete(self, path: str, version: int | None = None) -> Self:
        """Delete a node, if it is of this version; of any, without."""

    def check(self, path: str, version: int) -> Self:
        """Have the whole transaction fail unless a node is of this version."""

    def commit(self) -> None:
        """Carry all out, or none. Waits for the answer for up to the client's `connect_timeout`.

        Raises `LockLost` if the lock is not held any more, or `TransactionFailed` if one of the operations
        cannot be carried out, as the message says: nothing was written then. `ConnectionFailed` if no answer
        came: nobody knows. `NotHeld` after a release, `BadArgument` for a malformed path or a second commit.
        Interrupted, it may have been carried out or not.
        """

@final
class Notice:
    """A callback that was asked for, with `Lease.on_lost`, `Lease.on_revoke` or `Client.on_state`."""

    def cancel(self) -> None:
        """Have nothing called any more. A call that has begun goes on."""

@final
class Owner:
    """Who may re-enter a lock; `zklock.aio` keeps one for each task."""

    def __new__(cls) -> Self: ...

@final
class Patience:
    """`blocking` and `timeout` of an acquire, checked."""

    def __new__(cls, blocking: bool, timeout: float | None) -> Self: ...

@final
class Pending(Awaitable[None], Generic[_T]):
    """An operation under way. Awaiting it waits for the outcome; `take()` then gives it, once."""

    def __await__(self) -> Generator[Any, Any]: ...
    def take(self) -> _T: ...
    def abandon(self) -> None: ...

def lazy_client(
    hosts: str | None,
    session_timeout: float,
    connect_timeout: float,
    auth: Sequence[tuple[str, str | bytes]],
    acl: str | None,
    sasl: tuple[str, str] | None,
    tls: Tls | None,
    label: str | None,
) -> Client: ...
def start_connect(client: Client) -> Pending[None]: ...
def start_close(client: Client) -> Pending[None]: ...
def start_revoke(client: Client, node: str) -> Pending[None]: ...
def start_break_lock(client: Client, node: str) -> Pending[None]: ...
def start_acquire(lock: Lock, owner: Owner, patience: Patience) -> Pending[Lease]: ...
def start_acquire_all(lock: MultiLock, owner: Owner, patience: Patience) -> Pending[Leases]: ...
def start_acquire_many(semaphore: Semaphore, count: int, patience: Patience) -> Pending[Leases]: ...
def start_contenders(lock: Lock) -> Pending[list[Contender]]: ...
def start_locked(lock: Lock) -> Pending[bool]: ...
def start_release(lease: Lease) -> Pending[None]: ...
def start_commit(transaction: Transaction) -> Pending[None]: ...
def start_wait_lost(lease: Lease) -> Pending[bool]: ...
def is_held(lease: Lease) -> bool: ...
def is_open(lease: Lease) -> bool: ...
def owned_by(lock: Lock, owner: Owner | None) -> bool: ...
def next_events(
    verbosity: int,
) -> tuple[list[tuple[str, str, str, int, float, str, list[tuple[str, str]]]], int] | None: ...
def shutdown() -> None: ...
