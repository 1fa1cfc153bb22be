"""The same locks for asyncio.

    from zklock import aio

    async with aio.Mutex("zk1:2181,zk2:2181", "/locks/report") as lease:
        await write_report(lease.fencing_token)

The *owner* of a lock, who may acquire it again, is the task that calls `acquire()`. `asyncio.wait_for` and
`asyncio.create_task` may run the acquire in another task: the caller stays the owner. A child task is an
owner of its own, and waits for its parent's lock as any other does. Threads, too, are other owners.

Cancelling a task that waits leaves the queue. A lease that arrives in the same moment is released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, final
from weakref import WeakKeyDictionary, ref

from zklock import _zklock
from zklock._errors import Forked, LockLost, LockTimeout, NotHeld
from zklock._zklock import Notice

__all__ = [
    "Client",
    "Lease",
    "Leases",
    "Lock",
    "MultiLock",
    "Mutex",
    "ReadWriteLock",
    "Semaphore",
    "Transaction",
]

_T = TypeVar("_T")

# Not the tasks' ids or addresses, which are reused.
_owners: WeakKeyDictionary[asyncio.Task[Any], _zklock.Owner] = WeakKeyDictionary()


def _this_task() -> _zklock.Owner:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("the owner of a lock is a task: call this from within one")
    owner = _owners.get(task)
    if owner is None:
        owner = _owners[task] = _zklock.Owner()
    return owner


async def _outcome(pending: _zklock.Pending[_T]) -> _T:
    try:
        await pending
        return pending.take()
    finally:
        # Cancelled: leaves the queue, and releases a lease that has just arrived.
        pending.abandon()


def _call_soon(event_loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: Any) -> None:
    """Have an event loop call something, unless it is closed by now."""
    with suppress(RuntimeError):
        event_loop.call_soon_threadsafe(callback, *args)


async def _nothing() -> None:
    pass


@final
class Client:
    """A connection to a ZooKeeper ensemble, shared by the locks made on it.

        async with aio.Client("zk1:2181,zk2:2181/chroot") as client:
            lock = aio.Mutex(client, "/locks/report")

    Takes the arguments of `zklock.Client`, which describes them. Making one sends nothing: it connects with
    `await client.connect()`, with `async with client`, or when a lock is first used.
    """

    __slots__ = ("__weakref__", "_client")

    def __init__(
        self,
        hosts: str | None = None,
        *,
        session_timeout: float = 10.0,
        connect_timeout: float = 10.0,
        auth: Sequence[tuple[str, str | bytes]] = (),
        acl: str | None = None,
        sasl: tuple[str, str] | None = None,
        tls: _zklock.Tls | None = None,
        label: str | None = None,
    ) -> None:
        self._client = _zklock.lazy_client(
            hosts, session_timeout, connect_timeout, auth, acl, sasl, tls, label
        )

    @property
    def state(self) -> str:
        """`idle` before the first use, then `connecting`, `connected`, `suspended` or `closed`."""
        return self._client.state

    @property
    def session_id(self) -> int:
        """The current ZooKeeper session, 0 if there was none yet."""
        return self._client.session_id

    async def connect(self) -> Self:
        """Wait until there is a session, and return the client.

        Raises `ConnectionFailed` if no server answers within `connect_timeout` seconds.
        """
        await _outcome(_zklock.start_connect(self._client))
        return self

    def on_state(self, callback: Callable[[str], object]) -> Notice:
        """Have the event loop call `callback` with the new state whenever it changes.

        See `zklock.Client.on_state`.
        """
        event_loop = asyncio.get_running_loop()
        return self._client.on_state(lambda state: _call_soon(event_loop, callback, state))

    def stats(self) -> _zklock.Stats:
        """What the client did since it was made. See `zklock.Stats`. Sends nothing."""
        return self._client.stats()

    def revoke(self, node: str) -> Coroutine[Any, Any, None]:
        """Ask a contender to give its lock up. See `zklock.Client.revoke`."""
        return _outcome(_zklock.start_revoke(self._client, node))

    def break_lock(self, node: str) -> Coroutine[Any, Any, None]:
        """Take a contender's lock, or its place in the queue, away. See `zklock.Client.break_lock`."""
        return _outcome(_zklock.start_break_lock(self._client, node))

    def close(self) -> Coroutine[Any, Any, None]:
        """Close the client: its leases are lost, its waiters fail, and its nodes go with its session.

        The closing is on its way when this returns; awaiting it waits until the server has acknowledged it,
        up to two seconds. Closing again does nothing.
        """
        return _outcome(_zklock.start_close(self._client))

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Forked):
            await self.close()

    def __repr__(self) -> str:
        return f"<zklock.aio.Client {self.state}, session {self.session_id:#x}>"


@final
class Lease:
    """Proof of holding a lock, returned by a successful acquire. See `zklock.Lease`."""

    __slots__ = ("__weakref__", "_lease", "_owner")

    def __init__(self, lease: _zklock.Lease, owner: _zklock.Owner) -> None:
        self._lease = lease
        self._owner = owner

    @property
    def path(self) -> str:
        """The lock path, as given when the lock was made."""
        return self._lease.path

    @property
    def node(self) -> str:
        """The full path of the lock's node, below the client's chroot."""
        return self._lease.node

    @property
    def fencing_token(self) -> int:
        """A number that grows from holder to holder. See `zklock.Lease.fencing_token`."""
        return self._lease.fencing_token

    @property
    def session_id(self) -> int:
        """The ZooKeeper session that owns the node."""
        return self._lease.session_id

    @property
    def state(self) -> str:
        """`held`, `suspended`, `lost` for good, or `released`. See `zklock.Lease.state`. Sends nothing."""
        return self._lease.state

    @property
    def remaining(self) -> float:
        """For how many seconds nobody else can have the lock. See `zklock.Lease.remaining`. Sends nothing."""
        return self._lease.remaining

    @property
    def loss_reason(self) -> str | None:
        """Why the lease is lost, or None. See `zklock.Lease.loss_reason`. Sends nothing."""
        return self._lease.loss_reason

    def check(self) -> None:
        """Return if the lock is held. Sends nothing.

        Raises `LockLost`, or `NotHeld` after a release.
        """
        self._lease.check()

    def on_lost(self, callback: Callable[[Lease], object]) -> Notice:
        """Have the event loop call `callback` with the lease, once, when it is lost; soon, if it is already.

        Nothing is called once the lease is released. An `async with` block needs no callback: its task is
        cancelled.
        """
        return self._notify(self._lease.on_lost, callback)

    def on_revoke(self, callback: Callable[[Lease], object]) -> Notice:
        """Have the event loop call `callback` with the lease when somebody asks for the lock.

        See `zklock.Lease.on_revoke`.
        """
        return self._notify(self._lease.on_revoke, callback)

    def transaction(self) -> Transaction:
        """Begin a transaction that is carried out only while the lock is held. Sends nothing."""
        return Transaction(self._lease.transaction())

    async def wait_lost(self, timeout: float | None = -1) -> bool:
        """Wait until the lease is lost; False if it was released first, or after `timeout` seconds."""
        _zklock.Patience(True, timeout)
        ended = _outcome(_zklock.start_wait_lost(self._lease))
        try:
            return await asyncio.wait_for(ended, None if timeout == -1 else timeout)
        except TimeoutError:
            return False

    def _notify(
        self,
        register: Callable[[Callable[[_zklock.Lease], None]], Notice],
        callback: Callable[[Lease], object],
    ) -> Notice:
        event_loop = asyncio.get_running_loop()
        # A lease that nothing else refers to is released.
        weak = ref(self)

        def call() -> None:
            lease = weak()
            if lease is not None:
                callback(lease)

        return register(lambda _: _call_soon(event_loop, call))

    def release(self, wait: bool = True) -> Coroutine[Any, Any, None]:
        """Release this level, from any task or thread, once. The last level of a hold frees the lock.

        The release is on its way when this returns; awaiting it waits until the server has acknowledged it,
        or not with `wait=False`. It never fails because of the network. Cancelling it does not undo it.

        Raises `NotHeld` the second time.
        """
        if wait:
            return _outcome(_zklock.start_release(self._lease))
        self._lease.release(wait=False)
        return _nothing()

    def __repr__(self) -> str:
        return repr(self._lease).replace("zklock.", "zklock.aio.", 1)

    def _watch(self, lost: Callable[[Lease], object]) -> list[Notice]:
        return [self.on_lost(lost)]

    def _is_open(self) -> bool:
        return _zklock.is_open(self._lease)

    def _is_held(self) -> bool:
        return _zklock.is_held(self._lease)


@final
class Transaction:
    """Writes to ZooKeeper that are carried out only while a lock is held. See `zklock.Transaction`.

    await lease.transaction().set_data("/report/state", b"done").commit()
    """

    __slots__ = ("_transaction",)

    def __init__(self, transaction: _zklock.Transaction) -> None:
        self._transaction = transaction

    def create(self, path: str, data: bytes = b"") -> Self:
        """Create a node."""
        self._transaction.create(path, data)
        return self

    def set_data(self, path: str, data: bytes, version: int | None = None) -> Self:
        """Write a node's data, if it is of this version; of any, without."""
        self._transaction.set_data(path, data, version)
        return self

    def delete(self, path: str, version: int | None = None) -> Self:
        """Delete a node, if it is of this version; of any, without."""
        self._transaction.delete(path, version)
        return self

    def check(self, path: str, version: int) -> Self:
        """Have the whole transaction fail unless a node is of this version."""
        self._transaction.check(path, version)
        return self

    def commit(self) -> Coroutine[Any, Any, None]:
        """Carry all out, or none. Exceptions are those of `zklock.Transaction.commit`.

        Cancelled, it may have been carried out or not.
        """
        return _outcome(_zklock.start_commit(self._transaction))


@final
class Leases:
    """The leases of one acquire of several locks or permits. See `zklock.Leases`.

    async with await semaphore.acquire_many(3) as leases:
        print([lease.fencing_token for lease in leases])
    """

    __slots__ = ("__weakref__", "_leases", "_owner")

    def __init__(self, leases: _zklock.Leases, owner: _zklock.Owner) -> None:
        self._leases = tuple(Lease(lease, owner) for lease in leases)
        self._owner = owner

    def check(self) -> None:
        """Return if all locks are held. See `zklock.Leases.check`."""
        for lease in self._leases:
            lease.check()

    def release(self, wait: bool = True) -> Coroutine[Any, Any, None]:
        """Release those that were not released yet. See `zklock.Leases.release` and `Lease.release`."""
        released = [lease.release(wait) for lease in reversed(self._leases) if lease._is_open()]
        if not released:
            # In a forked child it is not the caller who is wrong.
            self.check()
            raise NotHeld("these leases have been released already")
        return _all(released)

    def __len__(self) -> int:
        return len(self._leases)

    def __getitem__(self, index: int, /) -> Lease:
        return self._leases[index]

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(NotHeld, Forked):
            await self.release()

    def __repr__(self) -> str:
        return f"<zklock.aio.Leases {', '.join(lease.path for lease in self._leases)}>"

    def _watch(self, lost: Callable[[Lease], object]) -> list[Notice]:
        return [lease.on_lost(lost) for lease in self]

    def _is_open(self) -> bool:
        return any(lease._is_open() for lease in self._leases)

    def _is_held(self) -> bool:
        return all(lease._is_held() for lease in self._leases)


async def _all(released: list[Coroutine[Any, Any, None]]) -> None:
    for one in released:
        await one


# What one acquire gives.
_L = TypeVar("_L", Lease, Leases)


class _Scope(Generic[_L]):
    """The body of an `async with` block. Its task is cancelled on a loss, as `asyncio.timeout` does it."""

    __slots__ = ("__weakref__", "_cancelled", "_cancelling", "_notices", "_open", "_owner", "_task", "lease")

    def __init__(self, lease: _L, owner: _zklock.Owner) -> None:
        self.lease: _L = lease
        self._owner = owner
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._open = True
        self._cancelled = False
        # A scope that is left behind goes with its lock object, and releases its lease.
        weak = ref(self)

        def lost(_: Lease) -> None:
            scope = weak()
            if scope is not None:
                scope._cancel()

        self._notices = lease._watch(lost)

    def _cancel(self) -> None:
        if self._open and not self._cancelled and self._task is not None:
            self._cancelled = True
            self._task.cancel()

    async def leave(self, raised: BaseException | None) -> None:
        """Release the lease. If it was lost, raise that, unless something else matters more."""
        self._open = False
        for notice in self._notices:
            notice.cancel()
        loss = self._loss()
        # The body may have released it, and a forked child does not own it.
        with suppress(NotHeld, Forked):
            await self.lease.release()
        # Cancelled by us alone: from outside nobody asked for it.
        ours = False
        if self._cancelled and self._task is not None:
            ours = self._task.uncancel() <= self._cancelling and isinstance(raised, asyncio.CancelledError)
        noticed = isinstance(raised, LockLost)
        if loss is not None and (raised is None or ours or (isinstance(raised, Exception) and not noticed)):
            raise loss from raised

    def _loss(self) -> LockLost | None:
        try:
            self.lease.check()
        except LockLost as loss:
            return loss
        except (NotHeld, Forked):
            pass
        return None


class _Acquirable(Generic[_L]):
    """What is common to a lock and to several locks as one: owners, levels and scopes."""

    __slots__ = ("__weakref__", "_levels", "_reentrant", "_scopes")

    def __init__(self, reentrant: bool) -> None:
        self._reentrant = reentrant
        # What `release()` undoes, and what the ends of `async with` blocks undo.
        self._levels: list[_L] = []
        self._scopes: list[_Scope[_L]] = []

    async def _start(self, owner: _zklock.Owner, patience: _zklock.Patience) -> _L:
        """Acquire a level for `owner`."""
        raise NotImplementedError

    def _check_owned(self) -> bool:
        """Whether the caller owns it; raises in a forked child."""
        raise NotImplementedError

    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> Coroutine[Any, Any, bool]:
        """Acquire the lock for the calling task; False if it was not acquired in time.

        Arguments and exceptions are those of `zklock.Lock.acquire`.
        """
        return self._acquire(_this_task(), _zklock.Patience(blocking, timeout))

    def release(self, wait: bool = True) -> Coroutine[Any, Any, None]:
        """Undo the calling task's newest acquire of this object. See `Lease.release`.

        With `reentrant=False`: the object's newest acquire, whoever calls, a callback or a thread too.

        Raises `NotHeld` if there is none.
        """
        lease = self._newest()
        if lease is not None:
            # Without re-entry another thread may be faster.
            with suppress(ValueError):
                self._levels.remove(lease)
            return lease.release(wait)
        # In a forked child it is not the caller who is wrong.
        self._check_owned()
        who = "this task has" if self._reentrant else "nobody has"
        raise NotHeld(f"{who} not acquired {self!r} through this object")

    def hold(self, timeout: float | None = -1) -> _Hold[_L]:
        """An asynchronous context manager that acquires within `timeout` seconds, or raises `LockTimeout`."""
        return _Hold(self, _zklock.Patience(True, timeout))

    def __aenter__(self) -> Coroutine[Any, Any, _L]:
        return self._enter(_this_task(), _zklock.Patience(True, None))

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(value)

    def _caller(self) -> _zklock.Owner | None:
        """Whose levels a call is about: the calling task's, or without re-entry all."""
        return _this_task() if self._reentrant else None

    def _newest(self) -> _L | None:
        owner = self._caller()
        # One by one: another thread may add its own in the meantime.
        for lease in [lease for lease in self._levels if not lease._is_open()]:
            with suppress(ValueError):
                self._levels.remove(lease)
        return _newest(self._levels, owner)

    async def _take(self, owner: _zklock.Owner, patience: _zklock.Patience) -> _L:
        lease = await self._start(owner, patience)
        self._levels.append(lease)
        return lease

    async def _acquire(self, owner: _zklock.Owner, patience: _zklock.Patience) -> bool:
        try:
            await self._take(owner, patience)
        except LockTimeout:
            return False
        return True

    async def _enter(self, owner: _zklock.Owner, patience: _zklock.Patience) -> _L:
        lease = await self._take(owner, patience)
        self._scopes.append(_Scope(lease, owner))
        return lease

    async def _exit(self, raised: BaseException | None) -> None:
        # Test fixtures are known to leave a scope in another task than the one that entered it.
        scope = _newest(self._scopes, _this_task()) or next(reversed(self._scopes), None)
        if scope is None:
            return
        self._scopes.remove(scope)
        with suppress(ValueError):
            self._levels.remove(scope.lease)
        await scope.leave(raised)


class Lock(_Acquirable[Lease]):
    """Something that can be acquired: a `Mutex`, a half of a `ReadWriteLock`, or a `Semaphore`.

    See `zklock.Lock`, which says more.

    async with lock as lease: ...
    async with lock.hold(timeout=5) as lease: ...
    if await lock.acquire(timeout=5):
        try:
            ...
        finally:
            await lock.release()
    """

    __slots__ = ("_lock",)

    def __init__(self, lock: _zklock.Lock, reentrant: bool = True) -> None:
        super().__init__(reentrant)
        self._lock = lock

    @property
    def path(self) -> str:
        """The lock path."""
        return self._lock.path

    @property
    def lease(self) -> Lease | None:
        """The calling task's newest lease of this object that was not released, or None.

        With `reentrant=False`, and of a semaphore: the object's, whoever acquired it.
        """
        return self._newest()

    def owned(self) -> bool:
        """Whether the calling task holds the lock, through this object or another one. Sends nothing.

        With `reentrant=False`, and of a semaphore: whether this object holds it, whoever acquired it.
        """
        owned = self._check_owned()
        return owned if self._reentrant else any(lease._is_held() for lease in self._levels)

    def locked(self) -> Coroutine[Any, Any, bool]:
        """Whether anybody holds the lock or waits for it; of a semaphore, whether no permit is free.

        One read. See `zklock.Lock.locked`.
        """
        return _outcome(_zklock.start_locked(self._lock))

    def contenders(self) -> Coroutine[Any, Any, list[_zklock.Contender]]:
        """Who contends for the lock, in the order of the queue. See `zklock.Lock.contenders`."""
        return _outcome(_zklock.start_contenders(self._lock))

    def __repr__(self) -> str:
        return repr(self._lock).replace("zklock.", "zklock.aio.", 1)

    async def _start(self, owner: _zklock.Owner, patience: _zklock.Patience) -> Lease:
        return Lease(await _outcome(_zklock.start_acquire(self._lock, owner, patience)), owner)

    def _check_owned(self) -> bool:
        return _zklock.owned_by(self._lock, self._caller())


@final
class Mutex(Lock):
    """A fair, exclusive lock. See `zklock.Mutex`, which describes the arguments.

        lock = aio.Mutex(client, "/locks/report")
        async with lock as lease:
            await write_report(lease.fencing_token)

    With a hosts string for `client` the process's one client for these hosts is used, made at the first
    acquire. It is the same one that `zklock.Mutex` uses: it does not belong to an event loop.

    With `reentrant=False` an acquire by the task that holds it waits, or times out, and any task may release
    it, as with `asyncio.Lock`.
    """

    __slots__ = ()

    def __init__(
        self,
        client: Client | str,
        path: str,
        *,
        reentrant: bool = True,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
    ) -> None:
        lock = _zklock.Mutex(_source(client), path, reentrant=reentrant, label=label, naming=naming)
        super().__init__(lock, reentrant)


@final
class ReadWriteLock:
    """A fair, reentrant read/write lock. See `zklock.ReadWriteLock`, which says more.

        lock = aio.ReadWriteLock(client, "/locks/catalogue")
        async with lock.read_lock:
            await read()
        async with lock.write_lock as lease:
            await write(lease.fencing_token)

    A task that holds the write lock may take the read lock as well, and keeps that when it releases the
    write lock. The other way round is refused with `UpgradeRefused`.
    """

    __slots__ = ("__weakref__", "_lock", "_read_lock", "_write_lock")

    def __init__(
        self,
        client: Client | str,
        path: str,
        *,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
    ) -> None:
        self._lock = _zklock.ReadWriteLock(_source(client), path, label=label, naming=naming)
        self._read_lock = Lock(self._lock.read_lock)
        self._write_lock = Lock(self._lock.write_lock)

    @property
    def path(self) -> str:
        """The lock path."""
        return self._lock.path

    @property
    def read_lock(self) -> Lock:
        """The half that is held together with other readers."""
        return self._read_lock

    @property
    def write_lock(self) -> Lock:
        """The half that is held alone."""
        return self._write_lock

    def __repr__(self) -> str:
        return repr(self._lock).replace("zklock.", "zklock.aio.", 1)


@final
class Semaphore(Lock):
    """A fair semaphore: so many permits are held at the same time. See `zklock.Semaphore`, which says more.

        slots = aio.Semaphore(client, "/locks/upstream", 5)
        async with slots as lease: ...
        async with await slots.acquire_many(3, timeout=10) as leases: ...

    Permits have no owner: every acquire takes another one, and `release()` gives back the newest that was
    acquired through this object with `acquire()`, whoever calls.
    """

    __slots__ = ("_semaphore",)

    def __init__(
        self,
        client: Client | str,
        path: str,
        permits: int | None = None,
        *,
        shared_count: str | None = None,
        label: str | None = None,
    ) -> None:
        self._semaphore = _zklock.Semaphore(
            _source(client), path, permits, shared_count=shared_count, label=label
        )
        super().__init__(self._semaphore, reentrant=False)

    @property
    def permits(self) -> int | None:
        """The number of permits, or None if it is read from a node."""
        return self._semaphore.permits

    @property
    def shared_count(self) -> str | None:
        """The node that the number of permits is read from, or None if it is fixed."""
        return self._semaphore.shared_count

    def acquire_many(
        self, count: int, blocking: bool = True, timeout: float | None = -1
    ) -> Coroutine[Any, Any, Leases]:
        """Acquire `count` permits, all or none, and return their leases.

        These are an asynchronous context manager, too.
        Arguments and exceptions are those of `zklock.Semaphore.acquire_many`.
        """
        return self._acquire_many(_this_task(), count, _zklock.Patience(blocking, timeout))

    async def _acquire_many(self, owner: _zklock.Owner, count: int, patience: _zklock.Patience) -> Leases:
        return Leases(await _outcome(_zklock.start_acquire_many(self._semaphore, count, patience)), owner)


@final
class MultiLock(_Acquirable[Leases]):
    """Several locks as one: all are acquired, or none. See `zklock.MultiLock`, which says more.

    async with aio.MultiLock([accounts, ledger.write_lock]) as leases: ...
    """

    __slots__ = ("_lock", "_members")

    def __init__(self, locks: Iterable[Lock]) -> None:
        super().__init__(reentrant=True)
        self._members = [_inner(lock) for lock in locks]
        self._lock = _zklock.MultiLock(self._members)

    @property
    def paths(self) -> list[str]:
        """The locks' paths, in the order in which they are taken."""
        return self._lock.paths

    @property
    def leases(self) -> Leases | None:
        """The calling task's newest leases of this object that were not released, or None."""
        return self._newest()

    def __repr__(self) -> str:
        return repr(self._lock).replace("zklock.", "zklock.aio.", 1)

    async def _start(self, owner: _zklock.Owner, patience: _zklock.Patience) -> Leases:
        return Leases(await _outcome(_zklock.start_acquire_all(self._lock, owner, patience)), owner)

    def _check_owned(self) -> bool:
        return all(_zklock.owned_by(member, self._caller()) for member in self._members)


def _inner(lock: Lock) -> _zklock.Lock:
    if not isinstance(lock, Lock):
        raise TypeError(f"locks must be locks of zklock.aio, not {type(lock).__qualname__}")
    return lock._lock


def _source(client: Client | str) -> _zklock.Client | str:
    if isinstance(client, _zklock.Client):
        raise TypeError("client must be a zklock.aio.Client or a hosts string, not zklock.Client")
    return client._client if isinstance(client, Client) else client


class _Owned(Protocol):
    """What an owner acquired, or entered."""

    _owner: _zklock.Owner


_O = TypeVar("_O", bound=_Owned)


def _newest(owned: list[_O], owner: _zklock.Owner | None) -> _O | None:
    return next((one for one in reversed(owned) if owner is None or one._owner is owner), None)


@final
class _Hold(Generic[_L]):
    """What the locks' `hold()` returns. May be entered again."""

    __slots__ = ("_lock", "_patience")

    def __init__(self, lock: _Acquirable[_L], patience: _zklock.Patience) -> None:
        self._lock: _Acquirable[_L] = lock
        self._patience = patience

    def __aenter__(self) -> Coroutine[Any, Any, _L]:
        return self._lock._enter(_this_task(), self._patience)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lock._exit(value)
