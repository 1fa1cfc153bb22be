"""What a lock and a MultiLock have in common: owners, levels and scopes."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, final

from zklock import _zklock
from zklock._errors import LockTimeout, NotHeld
from zklock.aio._scope import L, Scope
from zklock.aio._tasks import this_task


class Acquirable(Generic[L]):
    """A lock, or several locks taken as one."""

    __slots__ = ("__weakref__", "_levels", "_reentrant", "_scopes")

    def __init__(self, reentrant: bool) -> None:
        self._reentrant = reentrant
        # What `release()` undoes, and what the ends of `async with` blocks undo.
        self._levels: list[L] = []
        self._scopes: list[Scope[L]] = []

    async def _start(self, owner: _zklock.Owner, patience: _zklock.Patience) -> L:
        """Acquire a level for `owner`."""
        raise NotImplementedError

    def _check_owned(self) -> bool:
        """Whether the caller owns it; raises in a forked child."""
        raise NotImplementedError

    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> Coroutine[Any, Any, bool]:
        """Acquire for the calling task; False if that was not possible in time.

        >>> if await lock.acquire(timeout=5):
        ...     await lock.release()

        Arguments and exceptions are those of `zklock.Lock.acquire`.
        """
        return self._acquire(this_task(), _zklock.Patience(blocking, timeout))

    def release(self, wait: bool = True) -> Coroutine[Any, Any, None]:
        """Undo the calling task's newest acquire of this object. See `Lease.release`.

        >>> if await lock.acquire(blocking=False):
        ...     await lock.release()

        With `reentrant=False`, undo the object's newest acquire, whoever calls, even a callback or a thread.

        Raises `NotHeld` if there is none.
        """
        lease = self._newest()
        if lease is not None:
            # Without re-entry another thread may be faster.
            with suppress(ValueError):
                self._levels.remove(lease)
            return lease.release(wait)
        # In a forked child the caller is not at fault.
        self._check_owned()
        if self._reentrant:
            raise NotHeld(f"this task has not acquired {self!r} through this object")
        raise NotHeld(f"{self!r} is not held through this object")

    def hold(self, timeout: float | None = -1) -> Hold[L]:
        """An asynchronous context manager that acquires within `timeout` seconds, or raises `LockTimeout`.

        >>> async with lock.hold(timeout=5):
        ...     print("held")
        held
        """
        return Hold(self, _zklock.Patience(True, timeout))

    def __aenter__(self) -> Coroutine[Any, Any, L]:
        return self._enter(this_task(), _zklock.Patience(True, None))

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(value)

    def _caller(self) -> _zklock.Owner | None:
        """Whose levels a call concerns: the calling task's, or without re-entry every owner's."""
        return this_task() if self._reentrant else None

    def _newest(self) -> L | None:
        owner = self._caller()
        # One by one: another thread may add its own in the meantime.
        for lease in [lease for lease in self._levels if not lease._is_open()]:
            with suppress(ValueError):
                self._levels.remove(lease)
        return _newest(self._levels, owner)

    async def _take(self, owner: _zklock.Owner, patience: _zklock.Patience) -> L:
        lease = await self._start(owner, patience)
        self._levels.append(lease)
        return lease

    async def _acquire(self, owner: _zklock.Owner, patience: _zklock.Patience) -> bool:
        try:
            await self._take(owner, patience)
        except LockTimeout:
            return False
        return True

    async def _enter(self, owner: _zklock.Owner, patience: _zklock.Patience) -> L:
        lease = await self._take(owner, patience)
        self._scopes.append(Scope(lease, owner))
        return lease

    async def _exit(self, raised: BaseException | None) -> None:
        # Some test fixtures leave a scope in a different task from the one that entered it.
        scope = _newest(self._scopes, this_task()) or next(reversed(self._scopes), None)
        if scope is None:
            return
        self._scopes.remove(scope)
        with suppress(ValueError):
            self._levels.remove(scope.lease)
        await scope.leave(raised)


class _Owned(Protocol):
    """What one owner has acquired, or entered."""

    _owner: _zklock.Owner


_O = TypeVar("_O", bound=_Owned)


def _newest(owned: list[_O], owner: _zklock.Owner | None) -> _O | None:
    return next((one for one in reversed(owned) if owner is None or one._owner is owner), None)


@final
class Hold(Generic[L]):
    """What the locks' `hold()` returns. Can be entered more than once."""

    __slots__ = ("_lock", "_patience")

    def __init__(self, lock: Acquirable[L], patience: _zklock.Patience) -> None:
        self._lock: Acquirable[L] = lock
        self._patience = patience

    def __aenter__(self) -> Coroutine[Any, Any, L]:
        return self._lock._enter(this_task(), self._patience)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lock._exit(value)
