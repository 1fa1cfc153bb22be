"""`zklock.aio.Lease` and `zklock.aio.Leases`: the results of an acquire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, final
from weakref import ref

from zklock import _zklock
from zklock._errors import Forked, NotHeld
from zklock._zklock import Notice
from zklock.aio._awaitables import Begun
from zklock.aio._tasks import call, call_soon, outcome, represent, running_loop
from zklock.aio._transaction import Transaction

if TYPE_CHECKING:
    from zklock._zklock import _LeaseState, _LockMode, _LossReason

_I = TypeVar("_I", _zklock.Lease, _zklock.Leases)


class Level(Generic[_I]):
    """Base class of a lease and of several leases."""

    __slots__ = ("__weakref__", "_inner")

    def __init__(self, inner: _I) -> None:
        self._inner: _I = inner

    def check(self) -> None:
        """Check that the lock is held. For several leases, check all of them. Send no request.

        >>> async with lock as lease:
        ...     lease.check()

        Raise `LockLost` if it is lost, and `NotHeld` after a release.
        """
        self._inner.check()

    def release(self, wait: bool = True, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """Undo this acquire, from any task or thread, once. The last release of a hold frees the lock.

        >>> async with lock as lease:
        ...     await lease.release(wait=False)

        For several leases, release those that have not been released yet, the last one first.

        The release has begun when this returns. Await it to wait until the server has acknowledged the
        release, but no longer than `timeout` seconds, and no longer than the value of `remaining` at the
        call: at most half the session timeout. After that time the await returns normally, and the release
        continues in the background. With `wait=False` that happens immediately. It never fails because of the
        network. The release continues even if the await is cancelled. A callback need not await it.

        If another client had already deleted the lock's node or closed the session, `state` is `lost`
        afterwards.

        Raise `NotHeld` on the second call. Raise `BadArgument` for a timeout below zero (except -1, which
        means no timeout), and for a timeout together with `wait=False`.
        """
        return self._release(_zklock.ReleaseTimeout(wait, timeout))

    def _release(self, wait_limit: _zklock.ReleaseTimeout) -> Coroutine[Any, Any, None]:
        return Begun(_zklock.start_release(self._inner, wait_limit))

    def __repr__(self) -> str:
        return represent(self._inner)


class Lease(Level[_zklock.Lease]):
    """Proof of holding a lock, returned by a successful acquire. See `zklock.Lease`.

    >>> async with lock as lease:
    ...     await write_report(lease.fencing_token)
    """

    __slots__ = ()

    @property
    def path(self) -> str:
        """The lock path, as given when the lock was created."""
        return self._inner.path

    @property
    def node(self) -> str:
        """The full path of the lock's node, below the client's chroot."""
        return self._inner.node

    @property
    def mode(self) -> _LockMode:
        """The mode of the hold: `mutex`, `read`, `write`, `permit` or `leadership`."""
        return self._inner.mode

    @property
    def fencing_token(self) -> int:
        """A number that increases with each new holder. See `zklock.Lease.fencing_token`."""
        return self._inner.fencing_token

    @property
    def handoffs(self) -> int:
        """The number of earlier holds that used the same node. See `zklock.Lease.handoffs`."""
        return self._inner.handoffs

    @property
    def session_id(self) -> int:
        """The ZooKeeper session that owns the node."""
        return self._inner.session_id

    @property
    def session_timeout(self) -> float:
        """The session timeout that the server granted, in seconds. See `zklock.Lease.session_timeout`."""
        return self._inner.session_timeout

    @property
    def state(self) -> _LeaseState:
        """One of `held`, `suspended`, `lost` and `released`. See `zklock.Lease.state`.

        Sends no request.
        """
        return self._inner.state

    @property
    def remaining(self) -> float:
        """The time in seconds during which no other client can get the lock. See `zklock.Lease.remaining`.

        Sends no request.
        """
        return self._inner.remaining

    @property
    def loss_reason(self) -> _LossReason | None:
        """The reason for the loss, or None. Sends no request. See `zklock.Lease.loss_reason`."""
        return self._inner.loss_reason

    def on_lost(self, callback: Callable[[Lease], object]) -> Notice:
        """Make the event loop call `callback` once with the lease when the lease is lost.

        >>> async with lock as lease:
        ...     notice = lease.on_lost(lambda lease: print("lost:", lease.loss_reason))

        If the lease is already lost, the callback is called soon. An async function is run as a task. After
        the release of the lease, the callback is not called. An `async with` block needs no callback, because
        a loss cancels its task.
        """
        return self._notify(self._inner.on_lost, callback)

    def on_revoke(self, callback: Callable[[Lease], object]) -> Notice:
        """Make the event loop call `callback` with the lease when the holder is asked to give up the lock.

        >>> asked = asyncio.Event()
        >>> async with lock as lease:
        ...     notice = lease.on_revoke(lambda lease: asked.set())

        See `zklock.Lease.on_revoke`.
        """
        return self._notify(self._inner.on_revoke, callback)

    def transaction(self) -> Transaction:
        """Create a transaction that is executed only while the lock is held. Send no request.

        >>> async with lock as lease:
        ...     await lease.transaction().set_data("/state", b"done").commit()
        """
        return Transaction(self._inner.transaction())

    async def wait_lost(self, timeout: float | None = -1) -> bool:
        """Wait until the lease is lost. Return False if it is released first, or after `timeout` seconds.

        >>> async with lock as lease:
        ...     await lease.wait_lost(timeout=0.1)
        False
        """
        _zklock.Timeout(True, timeout)
        ended = outcome(_zklock.start_wait_lost(self._inner))
        try:
            return await asyncio.wait_for(ended, None if timeout == -1 else timeout)
        except TimeoutError:
            return False

    def _notify(
        self,
        register: Callable[[Callable[[_zklock.Lease], object]], Notice],
        callback: Callable[[Lease], object],
    ) -> Notice:
        event_loop = running_loop()
        # Keep only a weak reference, because a lease without other references must be released.
        weak = ref(self)

        def tell() -> None:
            lease = weak()
            if lease is not None:
                call(callback, lease)

        return register(_zklock.NotifyEventLoop(lambda _: call_soon(event_loop, tell)))


@final
class Leases(Level[_zklock.Leases]):
    """The leases of one acquire of several locks or permits. See `zklock.Leases`.

    >>> async with await semaphore.acquire_many(3) as leases:
    ...     len(leases)
    3
    """

    __slots__ = ("_leases",)

    def __init__(self, inner: _zklock.Leases) -> None:
        super().__init__(inner)
        self._leases = tuple(Lease(lease) for lease in inner)

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
        leaving = _zklock.Leaving(self._inner)
        with suppress(NotHeld, Forked):
            await self.release()
        leaving.end(value, False)
