"""The common part of a lock and a `MultiLock`.

A *level* is one acquire of a lock by its owner. An owner can have several levels of a reentrant lock. A
*scope* is an `async with` block or the call of a decorated function. A scope acquires a level when it
begins, and releases that level when it ends.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Coroutine
from types import CoroutineType, TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, cast, final

from zklock import _zklock
from zklock._decorators import guarded_async
from zklock._errors import LockTimeout
from zklock.aio._awaitables import Answer, Begun
from zklock.aio._lease import Lease, Leases
from zklock.aio._scope import Scope, leave_scope
from zklock.aio._tasks import represent, this_task, this_task_if_any, this_task_or_callback

# The result of one acquire.
_L = TypeVar("_L", Lease, Leases)

# Parameters and result of an async function.
_P = ParamSpec("_P")
_R = TypeVar("_R")

# The owner that is passed for a lock that is not reentrant. Any task or thread can release such a lock.
_ANY_OWNER = _zklock.Owner()

# The timeout for default arguments, so that it is checked only once.
_FOREVER = _zklock.Timeout(True, None)
_ACKNOWLEDGED = _zklock.ReleaseTimeout(True, None)

# Numbers that identify scopes: one number for each `Hold` object, and one for each call of `once()`.
numbers = itertools.count(1)


class Acquirable(Generic[_L]):
    """Base class of all locks: a single lock of any kind, or several locks acquired together.

    >>> isinstance(lock, aio.Acquirable)
    True

    `Lock` and `MultiLock` derive from it. Use it in type annotations: an acquire of an `Acquirable[Lease]`
    returns one lease.
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
        """Acquire the lock for the calling task. Return False if the acquire timed out.

        >>> if await lock.acquire(timeout=5):
        ...     await lock.release()

        See `zklock.Lock.acquire` for the arguments and exceptions.
        """
        owner = this_task()
        wait_limit = _FOREVER
        if blocking is not True or timeout != -1 or connect_timeout is not None:
            wait_limit = _zklock.Timeout(blocking, timeout, connect_timeout)
        return Answer(self._acquire(owner, wait_limit), "acquire()")

    def release(self, wait: bool = True, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """Release the newest lease that the calling task acquired through this object.

        >>> if await lock.acquire(blocking=False):
        ...     await lock.release()

        With `reentrant=False`, release the newest lease of this object, from any task or thread. In a
        callback, release the newest lease of the task that scheduled the callback. A callback need not await
        the result: `loop.call_later(5, lock.release)`.

        Wait up to `timeout` seconds for the server's reply. See `Lease.release`. Raise `NotHeld` if there is
        nothing to release.
        """
        unlimited = wait is True and timeout is None
        wait_limit = _ACKNOWLEDGED if unlimited else _zklock.ReleaseTimeout(wait, timeout)
        return Begun(_zklock.release_newest(self._inner, self._caller(), wait_limit))

    def hold(self, timeout: float | None = -1, *, connect_timeout: float | None = None) -> Hold[_L]:
        """Return an async context manager that acquires within `timeout` seconds, or raises `LockTimeout`.

        >>> async with lock.hold(timeout=5):
        ...     print("held")
        held

        See `zklock.Lock.hold`.
        """
        return Hold(self, _zklock.Timeout(True, timeout, connect_timeout))

    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _R]], /
    ) -> Callable[_P, Coroutine[Any, Any, _R]]:
        """Decorate an async function: each call runs in its own scope."""
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
        """Return the owner for a call: the calling task, or `_ANY_OWNER` if the lock is not reentrant."""
        return this_task_or_callback() if self._reentrant else _ANY_OWNER

    def _newest(self) -> _L | None:
        newest: _L | None = _zklock.newest(self._inner, self._caller())
        return newest

    async def _take(self, owner: _zklock.Owner, wait_limit: _zklock.Timeout, site: _zklock.Site | None) -> _L:
        """Acquire a level. With `site`, also enter a scope at that site."""
        inner: Any = _zklock.start_acquire(self._inner, owner, wait_limit)
        if isinstance(inner, _zklock.Pending):
            inner = await inner
        lease = self._wrap(inner)
        scope = None if site is None else (site, Scope(lease))
        _zklock.push(self._inner, owner, inner, lease, scope)
        return lease

    async def _acquire(self, owner: _zklock.Owner, wait_limit: _zklock.Timeout) -> bool:
        # This does the same as `_take`, but without the cost of a second coroutine.
        try:
            inner: Any = _zklock.start_acquire(self._inner, owner, wait_limit)
            if isinstance(inner, _zklock.Pending):
                inner = await inner
        except LockTimeout as error:
            if error.reason == "full":
                raise
            return False
        _zklock.push(self._inner, owner, inner, self._wrap(inner), None)
        return True

    def _enter(self, wait_limit: _zklock.Timeout, site: _zklock.Site) -> CoroutineType[Any, Any, _L]:
        # Declare the precise type that an async function returns, because some type checkers distinguish it
        # from other coroutines.
        return cast("CoroutineType[Any, Any, _L]", self._take(this_task(), wait_limit, site))

    def _exit(
        self, raised: BaseException | None, site: _zklock.Site, only: bool
    ) -> CoroutineType[Any, Any, None]:
        # Call `leave` here and not in the coroutine, because the frame of the caller identifies the scope.
        scope = _zklock.leave(self._inner, this_task_if_any(), site, only, raised is not None)
        return leave_scope(scope, raised)


@final
class Hold(Generic[_L]):
    """The result of a lock's `hold()`: an async context manager, and a decorator of async functions.

    >>> five_seconds = lock.hold(timeout=5)
    >>> async with five_seconds as lease:
    ...     lease.state
    'held'
    >>> @five_seconds
    ... async def rebuild_the_index():
    ...     return lock.owned()
    >>> await rebuild_the_index()
    True

    A hold can be entered and called more than once.
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
        """Decorate an async function: each call runs in its own scope."""
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
