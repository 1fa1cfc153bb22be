"""`zklock.aio.Client`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, final

from zklock import _zklock
from zklock._errors import Forked
from zklock._zklock import NodeData, Notice
from zklock.aio._awaitables import Begun
from zklock.aio._tasks import call_soon, outcome, represent, running_loop

if TYPE_CHECKING:
    from zklock._zklock import _ClientState


@final
class Client:
    """A connection to a ZooKeeper ensemble. All locks created on the client share it.

    >>> async with aio.Client("zk1:2181,zk2:2181/chroot") as client:
    ...     lock = aio.Mutex(client, "/locks/report")

    See `zklock.Client` for the arguments. The constructor sends nothing. The client connects with `await
    client.connect()`, with `async with client`, or when a lock is first used. A process that inherits the
    client through fork connects separately.
    """

    __slots__ = ("__weakref__", "_client")

    def __init__(
        self,
        hosts: str | None = None,
        *,
        session_timeout: float | None = None,
        connect_timeout: float = 10.0,
        auth: Sequence[tuple[str, str | bytes]] | None = None,
        auth_file: str | PathLike[str] | None = None,
        acl: str | None = None,
        parent_acl: str | None = None,
        sasl: tuple[str, str] | None = None,
        tls: _zklock.Tls | None = None,
        label: str | None = None,
        identify: bool = True,
        max_frame: int = 16777216,
    ) -> None:
        self._client = _zklock.lazy_client(
            hosts,
            session_timeout,
            connect_timeout,
            auth,
            auth_file,
            acl,
            parent_acl,
            sasl,
            tls,
            label,
            identify,
            max_frame,
        )

    @property
    def state(self) -> _ClientState:
        """The state: `idle` before the first use, then `connecting`, `connected`, `suspended` or `closed`."""
        return self._client.state

    @property
    def session_id(self) -> int:
        """The current ZooKeeper session, or 0 if there has been none yet."""
        return self._client.session_id

    @property
    def session_timeout(self) -> float:
        """The session timeout in seconds: the requested timeout until a server has granted one."""
        return self._client.session_timeout

    @property
    def hosts(self) -> str:
        """The servers and the chroot, as a connect string in which every server has its port."""
        return self._client.hosts

    async def connect(self) -> Self:
        """Wait until there is a session, and return the client.

        >>> client = await aio.Client("zk1:2181,zk2:2181").connect()

        Raise `ConnectionFailed` if no server answers within `connect_timeout` seconds.
        """
        await outcome(_zklock.start_connect(self._client))
        return self

    def on_state(self, callback: Callable[[_ClientState], object]) -> Notice:
        """Make the event loop call `callback` with the new state at each change.

        >>> notice = client.on_state(lambda state: print("now", state))

        An async function is run as a task. See `zklock.Client.on_state`.
        """
        event_loop = running_loop()
        return self._client.on_state(
            _zklock.NotifyEventLoop(lambda state: call_soon(event_loop, callback, state))
        )

    def stats(self) -> _zklock.Stats:
        """Return the statistics of the client since it was created. Send no request. See `zklock.Stats`.

        >>> client.stats().acquisitions
        0
        """
        return self._client.stats()

    def health(self) -> _zklock.Health:
        """Return the current state of the client, with its waiters and holds. Send no request.

        >>> client.health().state
        'connected'

        See `zklock.Client.health`.
        """
        return self._client.health()

    def revoke(self, node: str) -> Coroutine[Any, Any, None]:
        """Ask a contender to give up its lock. See `zklock.Client.revoke`.

        >>> async with lock as lease:
        ...     await client.revoke(lease.node)
        """
        return outcome(_zklock.start_revoke(self._client, node))

    def break_lock(self, node: str) -> Coroutine[Any, Any, None]:
        """Take away a contender's lock or its position in the queue. See `zklock.Client.break_lock`.

        >>> for contender in await lock.contenders():
        ...     if contender.host == "retired.example.org":
        ...         await client.break_lock(contender.node)
        """
        return outcome(_zklock.start_break_lock(self._client, node))

    def get(self, path: str) -> Coroutine[Any, Any, NodeData | None]:
        """Return the data and version of a node, or None if there is no node. See `zklock.Client.get`.

        >>> await client.get("/report/state") is None
        True
        """
        return outcome(_zklock.start_get(self._client, path))

    def set_shared_count(self, path: str, count: int) -> Coroutine[Any, Any, None]:
        """Set the number of permits of all semaphores with this `shared_count`.

        >>> await client.set_shared_count("/settings/upstream", 5)
        >>> shared = "/settings/upstream"
        >>> slots = aio.Semaphore(client, "/locks/upstream", shared_count=shared)

        See `zklock.Client.set_shared_count`.
        """
        return outcome(_zklock.start_set_shared_count(self._client, path, count))

    def close(self, drain: float | None = None) -> Coroutine[Any, Any, None]:
        """Close the client: its leases are lost, its waiters fail, and its nodes are removed.

        >>> await client.close()

        When the call returns, the close has begun. Await the result to wait for the server's acknowledgement,
        for two seconds at most. A second call waits for the same close.

        >>> await client.close(drain=10)

        With `drain`, the client first waits until it holds nothing, for at most that many seconds. Until then
        its leases stay valid, and their owners can re-enter. Every other acquire raises `ClientClosed`. If
        the call is cancelled, the client continues to drain. See `zklock.Client.close`.
        """
        return Begun(_zklock.start_close(self._client, drain))

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Forked):
            await self.close()

    def __repr__(self) -> str:
        return represent(self._client)


def client_of(lock: _zklock.Lock) -> Client:
    """Return the client of a lock."""
    client = Client.__new__(Client)
    client._client = lock.client
    return client


def source(client: Client | str | None) -> _zklock.Client | str | None:
    """Return the argument `client` for the blocking form of a lock."""
    if isinstance(client, _zklock.Client):
        raise TypeError("client must be a zklock.aio.Client or a hosts string, not zklock.Client")
    return client._client if isinstance(client, Client) else client
