"""`zklock.aio.Lease`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, final
from weakref import ref

from zklock import _zklock
from zklock._zklock import Notice
from zklock.aio._tasks import call_soon, outcome, represent
from zklock.aio._transaction import Transaction


@final
class Lease:
    """Proof of holding a lock, returned by a successful acquire. See `zklock.Lease`.

    >>> async with lock as lease:
    ...     await write_report(lease.fencing_token)
    """

    __slots__ = ("__weakref__", "_lease", "_owner")

    def __init__(self, lease: _zklock.Lease, owner: _zklock.Owner) -> None:
        self._lease = lease
        self._owner = owner

    @property
    def path(self) -> str:
        """The lock path, as given when the lock was created."""
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
        """`held`, `suspended`, `lost` for good, or `released`. Sends nothing. See `zklock.Lease.state`."""
        return self._lease.state

    @property
    def remaining(self) -> float:
        """For how many seconds no one else can get the lock. Sends nothing. See `zklock.Lease.remaining`."""
        return self._lease.remaining

    @property
    def loss_reason(self) -> str | None:
        """Why the lease is lost, or None. Sends nothing. See `zklock.Lease.loss_reason`."""
        return self._lease.loss_reason

    def check(self) -> None:
        """Return if the lock is held. Sends nothing.

        >>> async with lock as lease:
        ...     lease.check()

        Raises `LockLost`, or `NotHeld` after a release.
        """
        self._lease.check()

    def on_lost(self, callback: Callable[[Lease], object]) -> Notice:
        """Have the event loop call `callback` with the lease, once, when it is lost; soon, if it already is.

        >>> async with lock as lease:
        ...     notice = lease.on_lost(lambda lease: print("lost:", lease.loss_reason))

        Nothing is called once the lease is released. An `async with` block needs no callback: its task is
        cancelled.
        """
        return self._notify(self._lease.on_lost, callback)

    def on_revoke(self, callback: Callable[[Lease], object]) -> Notice:
        """Have the event loop call `callback` with the lease when another contender asks for the lock.

        >>> asked = asyncio.Event()
        >>> async with lock as lease:
        ...     notice = lease.on_revoke(lambda lease: asked.set())

        See `zklock.Lease.on_revoke`.
        """
        return self._notify(self._lease.on_revoke, callback)

    def transaction(self) -> Transaction:
        """Begin a transaction that is carried out only while the lock is held. Sends nothing.

        >>> async with lock as lease:
        ...     await lease.transaction().set_data("/state", b"done").commit()
        """
        return Transaction(self._lease.transaction())

    async def wait_lost(self, timeout: float | None = -1) -> bool:
        """Wait until the lease is lost; False if it was released first, or after `timeout` seconds.

        >>> async with lock as lease:
        ...     await lease.wait_lost(timeout=0.1)
        False
        """
        _zklock.Patience(True, timeout)
        ended = outcome(_zklock.start_wait_lost(self._lease))
        try:
            return await asyncio.wait_for(ended, None if timeout == -1 else timeout)
        except TimeoutError:
            return False

    def release(self, wait: bool = True) -> Coroutine[Any, Any, None]:
        """Release this level, from any task or thread, once. The last level of a hold frees the lock.

        >>> async with lock as lease:
        ...     await lease.release(wait=False)

        The release has begun when this returns; awaiting it waits until the server has acknowledged it, or
        not with `wait=False`. It never fails because of the network. Cancelling it does not undo it.

        Raises `NotHeld` the second time.
        """
        if wait:
            return outcome(_zklock.start_release(self._lease))
        self._lease.release(wait=False)
        return _nothing()

    def __repr__(self) -> str:
        return represent(self._lease)

    def _notify(
        self,
        register: Callable[[Callable[[_zklock.Lease], None]], Notice],
        callback: Callable[[Lease], object],
    ) -> Notice:
        event_loop = asyncio.get_running_loop()
        # A lease without other references is released.
        weak = ref(self)

        def call() -> None:
            lease = weak()
            if lease is not None:
                callback(lease)

        return register(lambda _: call_soon(event_loop, call))

    def _watch(self, lost: Callable[[Lease], object]) -> list[Notice]:
        return [self.on_lost(lost)]

    def _is_open(self) -> bool:
        return _zklock.is_open(self._lease)

    def _is_held(self) -> bool:
        return _zklock.is_held(self._lease)


async def _nothing() -> None:
    pass
