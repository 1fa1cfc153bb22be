"""What a lock and a MultiLock have in common: owners, levels and scopes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Coroutine
from types import CoroutineType, TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, cast, final

from zklock import _zklock
from zklock._decorators import guarded_async
from zklock._errors import LockTimeout
from zklock.aio._awaitables import Answer
from zklock.aio._lease import Lease, Leases
from zklock.aio._scope import Scope, left
from zklock.aio._tasks import outcome, represent, this_task, this_task_if_any, this_task_or_callback

# The result of one acquire.
_L = TypeVar("_L", Lease, Leases)

# An async function.
_P = ParamSpec("_P")
_R = TypeVar("_R")

# For whose levels it does not matter who asks.
_ANYBODY = _zklock.Owner()

# What no argument stands for, checked once.
_FOREVER = _zklock.Timeout(True, None)
_ACKNOWLEDGED = _zklock.ReleaseTimeout(True, None)

# Tell the scopes of a hold from those of its lock and of other holds.
numbers = itertools.count(1)


class Acquirable(Generic[_L]):
    """What every lock is: a lock of any kind, or several locks taken as one.

    >>> isinstance(lock, aio.Acquirable)
    True

    The base of `Lock` and `MultiLock`, for annotations: `Acquirable[Lease]` gives leases one at a time.
    """

    __slots__ = ("__weakref__", "_inner", "_reentrant", "_wrap")

    def __init__(
        self, inner: _zklock.Acquirable[Any], wrap: Callable[[Any], _L], reentrant: bool = True
    ) -> None:
        self._inner: _zklock.Acquirable[Any] = inner
        self._wrap: Callable[[Any], _L] = wrap
        self._reentrant = reentrant

    def acquire(
        self, blocking: bool = True, timeout: float | None = -1, *, connect_timeout: float | None = None
    ) -> Coroutine[Any, Any, bool]:
        """Acquire for the calling task; False if that was not possible in time.

        >>> if await lock.acquire(timeout=5):
        ...     await lock.release()

        Arguments and exceptions are those of `zklock.Lock.acquire`.
        """
        owner = this_task()
        wait_limit = _FOREVER
        if blocking is not True or timeout != -1 or connect_timeout is not None:
            wait_limit = _zklock.Timeout(blocking, timeout, connect_timeout)
        return Answer(self._acquire(owner, wait_limit), "acquire()")

    def release(self, wait: bool = True, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """Undo the calling task's newest acquire of this object, waiting up to `timeout` seconds.

        >>> if await lock.acquire(blocking=False):
        ...     await lock.release()

        With `reentrant=False`, undo the object's newest acquire, whoever calls, even a thread. A callback
        acts for the task that scheduled it, and need not await this: `loop.call_later(5, lock.release)`.

        See `Lease.release`. Raises `NotHeld` if there is none.
        """
        unlimited = wait is True and timeout is None
        wait_limit = _ACKNOWLEDGED if unlimited else _zklock.ReleaseTimeout(wait, timeout)
        lease: _L = _zklock.take_newest(self._inner, self._caller())
        return lease._release(wait_limit)

    def hold(self, timeout: float | None = -1, *, connect_timeout: float | None = None) -> Hold[_L]:
        """An asynchronous context manager that acquires within `timeout` seconds, or raises `LockTimeout`.

        >>> async with lock.hold(timeout=5):
        ...     print("held")
        held

        See `zklock.Lock.hold`.
        """
        return Hold(self, _zklock.Timeout(True, timeout, connect_timeout))

    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _R]], /
    ) -> Callable[_P, Coroutine[Any, Any, _R]]:
        """As a decorator of async functions: every call is in a scope of its own."""
        decorated: Callable[_P, Coroutine[Any, Any, _R]] = guarded_async(self, function)
        return decorated

    def __aenter__(self) -> CoroutineType[Any, Any, _L]:
        return self._enter(_FOREVER, _zklock.Site(sys._getframe(1)))

    def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> CoroutineType[Any, Any, None]:
        return self._exit(value, _zklock.Site(sys._getframe(1)), False)

    def __repr__(self) -> str:
        return represent(self._inner)

    def _caller(self) -> _zklock.Owner:
        """Whose levels a call concerns: the calling task's, or without re-entry every owner's."""
        return this_task_or_callback() if self._reentrant else _ANYBODY

    def _newest(self) -> _L | None:
        newest: _L | None = _zklock.newest(self._inner, self._caller())
        return newest

    async def _take(self, owner: _zklock.Owner, wait_limit: _zklock.Timeout, site: _zklock.Site | None) -> _L:
        """Acquire, perhaps as a scope that is entered there."""
        inner: Any = _zklock.start_acquire(self._inner, owner, wait_limit)
        if isinstance(inner, _zklock.Pending):
            inner = await outcome(inner)
        lease = self._wrap(inner)
        scope = None if site is None else (site, Scope(lease))
        _zklock.push(self._inner, owner, inner, lease, scope)
        return lease

    async def _acquire(self, owner: _zklock.Owner, wait_limit: _zklock.Timeout) -> bool:
        # As `_take` does it, without a second coroutine.
        try:
            inner: Any = _zklock.start_acquire(self._inner, owner, wait_limit)
            if isinstance(inner, _zklock.Pending):
                inner = await outcome(inner)
        except LockTimeout as error:
            if error.reason == "full":
                raise
            return False
        _zklock.push(self._inner, owner, inner, self._wrap(inner), None)
        return True

    def _enter(self, wait_limit: _zklock.Timeout, site: _zklock.Site) -> CoroutineType[Any, Any, _L]:
        # The type of what an async function returns, which some checkers tell from that of other coroutines.
        return cast("CoroutineType[Any, Any, _L]", self._take(this_task(), wait_limit, site))

    def _exit(
        self, raised: BaseException | None, site: _zklock.Site, only: bool
    ) -> CoroutineType[Any, Any, None]:
        # Now: the frame that calls this says which scope it means.
        return left(_zklock.leave(self._inner, this_task_if_any(), site, only, raised is not None), raised)


@final
class Hold(Generic[_L]):
    """What the locks' `hold()` returns: an asynchronous context manager, and a decorator of async functions.

    >>> five_seconds = lock.hold(timeout=5)
    >>> async with five_seconds as lease:
    ...     lease.state
    'held'
    >>> @five_seconds
    ... async def rebuild_the_index():
    ...     return lock.owned()
    >>> await rebuild_the_index()
    True

    Can be entered, and called, more than once.
    """

    __slots__ = ("_entered", "_lock", "_number", "_wait_limit")

    def __init__(self, lock: Acquirable[_L], wait_limit: _zklock.Timeout) -> None:
        self._lock: Acquirable[_L] = lock
        self._wait_limit = wait_limit
        self._number = next(numbers)
        self._entered = 0

    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _R]], /
    ) -> Callable[_P, Coroutine[Any, Any, _R]]:
        """As a decorator of async functions: every call is in a scope of its own."""
        decorated: Callable[_P, Coroutine[Any, Any, _R]] = guarded_async(self, function)
        return decorated

    def __repr__(self) -> str:
        return f"<zklock.aio.Hold of {self._lock!r}>"

    def __aenter__(self) -> CoroutineType[Any, Any, _L]:
        self._entered += 1
        return self._lock._enter(self._wait_limit, _zklock.Site(sys._getframe(1), self._number))

    def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> CoroutineType[Any, Any, None]:
        site = _zklock.Site(sys._getframe(1), self._number)
        return self._lock._exit(value, site, self._entered == 1)
