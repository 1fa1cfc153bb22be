"""`zklock.aio.Leases`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, final

from zklock import _zklock
from zklock._errors import Forked, NotHeld
from zklock._zklock import Notice
from zklock.aio._lease import Lease


@final
class Leases:
    """The leases of one acquire of several locks or permits. See `zklock.Leases`.

    >>> async with await semaphore.acquire_many(3) as leases:
    ...     len(leases)
    3
    """

    __slots__ = ("__weakref__", "_leases", "_owner")

    def __init__(self, leases: _zklock.Leases, owner: _zklock.Owner) -> None:
        self._leases = tuple(Lease(lease, owner) for lease in leases)
        self._owner = owner

    def check(self) -> None:
        """Return if all locks are held. See `zklock.Leases.check`.

        >>> async with await semaphore.acquire_many(3) as leases:
        ...     leases.check()
        """
        for lease in self._leases:
            lease.check()

    def release(self, wait: bool = True) -> Coroutine[Any, Any, None]:
        """Release those that have not been released yet. See `zklock.Leases.release` and `Lease.release`.

        >>> leases = await semaphore.acquire_many(3)
        >>> await leases.release()
        """
        released = [lease.release(wait) for lease in reversed(self._leases) if lease._is_open()]
        if not released:
            # In a forked child the caller is not at fault.
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
