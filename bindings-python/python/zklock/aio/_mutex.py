"""`zklock.aio.Mutex`."""

from __future__ import annotations

from typing import Literal, final

from zklock import _zklock
from zklock.aio._client import Client, source
from zklock.aio._lock import Lock


@final
class Mutex(Lock):
    """A fair, exclusive lock. See `zklock.Mutex`, which describes the arguments.

    >>> async with aio.Mutex(client, "/locks/report") as lease:
    ...     await write_report(lease.fencing_token)

    With a hosts string for `client`, the process's one client for these hosts is used, created at the first
    acquire. It is the one that `zklock.Mutex` uses too: it does not belong to an event loop.

    With `reentrant=False`, an acquire by the task that holds it waits, or times out, and any task may release
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
        lock = _zklock.Mutex(source(client), path, reentrant=reentrant, label=label, naming=naming)
        super().__init__(lock, reentrant)
