"""`zklock.aio.Lock`, `zklock.aio.Mutex` and `zklock.aio.ReadWriteLock`."""

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

# Parameters and result of an async function.
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Lock(Acquirable[Lease]):
    """The base class of every lock: a `Mutex`, a `Semaphore`, or the read or write lock of a `ReadWriteLock`.

    >>> async with lock as lease:
    ...     await write_report(lease.fencing_token)

    See `zklock.Lock` for the details. A lock can also decorate async functions:

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
        """The client of the lock. See `zklock.Lock.client`.

        >>> lock.client.state
        'connected'
        """
        return client_of(self._lock)

    @property
    def lease(self) -> Lease | None:
        """The calling task's newest unreleased lease of this object, or None.

        With `reentrant=False`, and for a semaphore: the newest lease of this object, from any task.
        """
        return self._newest()

    def owned(self) -> bool:
        """Return whether the calling task holds the lock, through any lock object. Send no request.

        >>> async with lock:
        ...     lock.owned()
        True

        With `reentrant=False`, and for a semaphore: return whether any task holds it through this object.
        """
        return _zklock.owned_by(self._lock, self._caller())

    def locked(self) -> Answer[bool]:
        """Return whether any contender holds the lock or waits for it.

        >>> await lock.locked()
        False

        For a semaphore, return whether no permit is free. This is a single read. See `zklock.Lock.locked`.
        Without `await`, `if lock.locked():` raises `TypeError`.
        """
        return Answer(outcome(_zklock.start_locked(self._lock)), "locked()")

    def contenders(self) -> Coroutine[Any, Any, list[_zklock.Contender]]:
        """Return the contenders for the lock, in queue order. See `zklock.Lock.contenders`.

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
    """A fair, exclusive lock. See `zklock.Mutex` for the arguments.

    >>> async with aio.Mutex(client, "/locks/report") as lease:
    ...     await write_report(lease.fencing_token)

    `client` can be a hosts string instead. The lock then uses the process's shared client for these hosts,
    which is created at the first acquire. None means the default hosts of a client. The shared client does
    not belong to an event loop: `zklock.Mutex` uses the same one.

    With `reentrant=False` it works like `asyncio.Lock`: even the task that holds it must wait when it
    acquires it again, and any task can release it.
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
        """Await `body(lease)` unless `key` is already recorded. Then record it, and release the lock.

        >>> async def report(lease):
        ...     return "a report"
        >>> await lock.once("2026-11-26", report)
        'a report'
        >>> await lock.once("2026-11-26", report) is None
        True

        A loss of the lock cancels the body, as in a scope, and raises `LockLost`. Nothing is recorded then.
        See `zklock.Mutex.once` for the arguments.
        """
        slot, wait_limit = _zklock.Slot.key(key, record), _zklock.Timeout(True, timeout)
        check_any_body(body)
        return self._once(slot, body, wait_limit)

    def once_per(
        self, period: float, *, timeout: float | None = None, record: Literal["body", "start"] = "body"
    ) -> Callable[[Callable[_P, Coroutine[Any, Any, _T]]], Callable[_P, Coroutine[Any, Any, _T | None]]]:
        """Return a decorator of async functions: a call runs the function at most once per period.

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
        # The owner is the task that runs the body. So two calls of `once()` that run as separate tasks, for
        # example in `asyncio.gather`, exclude each other.
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
    """A fair, reentrant read/write lock. See `zklock.ReadWriteLock` for the details.

    >>> catalogue = aio.ReadWriteLock(client, "/locks/catalogue")
    >>> async with catalogue.read_lock:
    ...     print("reading, with others")
    reading, with others

    A task that holds the write lock can also acquire the read lock. It keeps the read lock when it releases
    the write lock. A task that holds only the read lock and requests the write lock gets `UpgradeRefused`.
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
    """Return a copy of a lock, in its asynchronous form."""
    function, (_, *how) = inner.__reduce__()
    lock: ReadWriteLock = function(kind, *how)
    return lock
