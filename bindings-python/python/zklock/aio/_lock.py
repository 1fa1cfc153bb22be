"""`zklock.aio.Lock`, and the locks that are nothing else."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, ParamSpec, TypeVar, final

from zklock import _zklock
from zklock._decorators import awaitable, check_any_body
from zklock._once import once_per_async
from zklock.aio._acquirable import Acquirable, numbers
from zklock.aio._awaitables import Answer
from zklock.aio._client import Client, client_of, source
from zklock.aio._lease import Lease
from zklock.aio._scope import Scope
from zklock.aio._tasks import outcome, represent, this_task

# An async function.
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Lock(Acquirable[Lease]):
    """Something that can be acquired: a `Mutex`, a half of a `ReadWriteLock`, or a `Semaphore`.

    >>> async with lock as lease:
    ...     await write_report(lease.fencing_token)

    See `zklock.Lock`, which says more. A lock decorates async functions:

    >>> @lock
    ... async def rebuild_the_index():
    ...     return lock.owned()
    >>> await rebuild_the_index()
    True
    """

    __slots__ = ("_lock",)

    def __init__(self, lock: _zklock.Lock, reentrant: bool = True) -> None:
        super().__init__(lock, Lease, reentrant)
        self._lock = lock

    @property
    def path(self) -> str:
        """The lock path."""
        return self._lock.path

    @property
    def client(self) -> Client:
        """The client on which the lock is. See `zklock.Lock.client`.

        >>> lock.client.state
        'connected'
        """
        return client_of(self._lock)

    @property
    def lease(self) -> Lease | None:
        """The calling task's newest lease of this object that has not been released, or None.

        With `reentrant=False`, and for a semaphore: the object's newest, whoever acquired it.
        """
        return self._newest()

    def owned(self) -> bool:
        """Whether the calling task holds the lock, through this object or another one. Sends nothing.

        >>> async with lock:
        ...     lock.owned()
        True

        With `reentrant=False`, and for a semaphore: whether this object holds it, whoever acquired it.
        """
        return _zklock.owned_by(self._lock, self._caller())

    def locked(self) -> Answer[bool]:
        """Whether any contender holds the lock or waits for it; for a semaphore, whether no permit is free.

        >>> await lock.locked()
        False

        One read. See `zklock.Lock.locked`. `if lock.locked():`, without `await`, raises `TypeError`.
        """
        return Answer(outcome(_zklock.start_locked(self._lock)), "locked()")

    def contenders(self) -> Coroutine[Any, Any, list[_zklock.Contender]]:
        """The contenders for the lock, in queue order. See `zklock.Lock.contenders`.

        >>> async with lock:
        ...     (await lock.contenders())[0].language
        'python'
        """
        return outcome(_zklock.start_contenders(self._lock))

    def __reduce__(self) -> tuple[Any, ...]:
        function, (what, *how) = self._lock.__reduce__()
        if isinstance(what, _zklock.ReadWriteLock):
            return function, (_again(ReadWriteLock, what), *how)
        return function, (type(self), *how)


@final
class Mutex(Lock):
    """A fair, exclusive lock. See `zklock.Mutex`, which describes the arguments.

    >>> async with aio.Mutex(client, "/locks/report") as lease:
    ...     await write_report(lease.fencing_token)

    With a hosts string for `client`, the process's one client for these hosts is used, created at the first
    acquire; None stands for the hosts that a client uses by default. It is the one that `zklock.Mutex` uses
    too: it does not belong to an event loop.

    With `reentrant=False`, an acquire by the task that holds it waits, or times out, and any task may release
    it, as with `asyncio.Lock`.
    """

    __slots__ = ("_mutex",)

    def __init__(
        self,
        client: Client | str | None,
        path: str,
        *,
        reentrant: bool = True,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
        max_hold: float | None = None,
        grace: float | None = None,
        max_waiters: int | None = None,
        cohort: int = 0,
        linger: float = 0.0,
        options: _zklock.ClientOptions | None = None,
    ) -> None:
        lock = _zklock.Mutex(
            source(client),
            path,
            reentrant=reentrant,
            label=label,
            naming=naming,
            max_hold=max_hold,
            grace=grace,
            max_waiters=max_waiters,
            cohort=cohort,
            linger=linger,
            options=options,
        )
        super().__init__(lock, reentrant)
        self._mutex = lock

    def once(
        self,
        key: str,
        body: Callable[[Lease], Awaitable[_T]],
        *,
        timeout: float | None = None,
        record: Literal["body", "start"] = "body",
    ) -> Coroutine[Any, Any, _T | None]:
        """Await `body(lease)`, unless this slot is recorded; then record the slot, and release the lock.

        >>> async def report(lease):
        ...     return "a report"
        >>> await lock.once("2026-11-26", report)
        'a report'
        >>> await lock.once("2026-11-26", report) is None
        True

        The loss of the lock cancels the body, as in a scope, and raises `LockLost`; nothing is recorded then.
        See `zklock.Mutex.once`, which describes the arguments.
        """
        slot, wait_limit = _zklock.Slot.key(key, record), _zklock.Timeout(True, timeout)
        check_any_body(body)
        return self._once(slot, body, wait_limit)

    def once_per(
        self, period: float, *, timeout: float | None = None, record: Literal["body", "start"] = "body"
    ) -> Callable[[Callable[_P, Coroutine[Any, Any, _T]]], Callable[_P, Coroutine[Any, Any, _T | None]]]:
        """A decorator of async functions: a call runs the function unless it has run in this period.

        >>> @lock.once_per(3600)
        ... async def clean_up():
        ...     return "cleaned up"
        >>> await clean_up()
        'cleaned up'
        >>> await clean_up() is None
        True

        See `zklock.Mutex.once_per`.
        """
        slot, wait_limit = _zklock.Slot.per(period, record), _zklock.Timeout(True, timeout)
        return once_per_async(lambda body: self._once(slot, body, wait_limit))

    async def _once(
        self,
        slot: _zklock.Slot,
        body: Callable[[Lease], Awaitable[_T]],
        wait_limit: _zklock.Timeout,
    ) -> _T | None:
        # The task that runs the body, and not the one that calls: tasks that a caller starts are kept apart.
        owner = this_task()
        turn = await outcome(_zklock.start_turn(self._mutex, owner, slot, wait_limit))
        if turn is None:
            return None
        lease = Lease(turn.lease)
        scope, site = Scope(lease), _zklock.Site(sys._getframe(), next(numbers))
        _zklock.push(self._mutex, owner, turn.lease, lease, (site, scope))
        try:
            value: _T = await awaitable(body(lease))
        except BaseException as error:
            _zklock.leave(self._mutex, owner, site, False, True)
            await scope.leave(error)
            raise
        _zklock.leave(self._mutex, owner, site, False, True)
        await scope.record(turn)
        return value


@final
class ReadWriteLock:
    """A fair, reentrant read/write lock. See `zklock.ReadWriteLock`, which says more.

    >>> catalogue = aio.ReadWriteLock(client, "/locks/catalogue")
    >>> async with catalogue.read_lock:
    ...     print("reading, with others")
    reading, with others

    A task that holds the write lock may take the read lock as well, and keeps it when it releases the write
    lock. The other way round is refused with `UpgradeRefused`.
    """

    __slots__ = ("__weakref__", "_lock", "_read_lock", "_write_lock")

    def __init__(
        self,
        client: Client | str | None,
        path: str,
        *,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
        max_hold: float | None = None,
        grace: float | None = None,
        max_waiters: int | None = None,
        cohort: int = 0,
        linger: float = 0.0,
        options: _zklock.ClientOptions | None = None,
    ) -> None:
        self._lock = _zklock.ReadWriteLock(
            source(client),
            path,
            label=label,
            naming=naming,
            max_hold=max_hold,
            grace=grace,
            max_waiters=max_waiters,
            cohort=cohort,
            linger=linger,
            options=options,
        )
        self._read_lock = Lock(self._lock.read_lock)
        self._write_lock = Lock(self._lock.write_lock)

    @property
    def path(self) -> str:
        """The lock path."""
        return self._lock.path

    @property
    def read_lock(self) -> Lock:
        """The half that several readers can hold together."""
        return self._read_lock

    @property
    def write_lock(self) -> Lock:
        """The half that only one writer can hold."""
        return self._write_lock

    def __reduce__(self) -> tuple[Any, ...]:
        function, (_, *how) = self._lock.__reduce__()
        return function, (ReadWriteLock, *how)

    def __repr__(self) -> str:
        return represent(self._lock)


def _again(kind: type[ReadWriteLock], inner: _zklock.ReadWriteLock) -> ReadWriteLock:
    """The asynchronous form of a lock's copy."""
    function, (_, *how) = inner.__reduce__()
    lock: ReadWriteLock = function(kind, *how)
    return lock
