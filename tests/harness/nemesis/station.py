"""A station: a worker's process, its connections to the servers, and its wall clock."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from harness.connections import Direction
from harness.nemesis.record import Held
from harness.nemesis.wallclock import WallClock
from harness.proxy import Proxy
from harness.server import Server
from harness.surfaces import PEERS
from harness.traffic import Trap
from harness.worker import Worker, WorkerError

POLL = 0.02
STARTING = 60.0
"""Timeout in seconds for a worker to connect, even while the servers suffer a fault."""

CONNECTING = 10.0
"""Default connect timeout in seconds of a client that does not wait."""


@dataclass(frozen=True)
class Lock:
    """A lock that stations contend for."""

    name: str
    path: str
    kind: str
    permits: int | None = None
    naming: str = "curator"
    # The locks that a multi lock combines.
    members: tuple[Lock, ...] = ()
    # The reader's half, for a writer's half.
    other_half: Lock | None = None

    @property
    def paths(self) -> list[str]:
        """Directories of the lock's nodes."""
        return [member.path for member in self.members] or [self.path]

    @property
    def is_exclusive(self) -> bool:
        """Return whether only one owner at a time can hold this lock. Only such an owner writes the data."""
        return self.kind in {"mutex", "write"}


@dataclass(frozen=True)
class Grant:
    """A lock that a worker holds now."""

    worker: Worker
    lock: Lock
    lease: str
    node: str
    session: int
    token: int
    granted: int
    # Remaining term in seconds, right after the grant.
    remaining: float

    @property
    def held(self) -> Held:
        """The grant in the form for the record."""
        return Held(self.worker.name, self.session, self.node, self.granted, self.token)

    @property
    def node_path(self) -> str:
        """Path of the grant's node."""
        return f"{self.lock.path}/{self.node}"

    @property
    def is_lost(self) -> bool:
        """Return whether the worker has reported the loss of this lease."""
        return self.lease in self.worker.lost


class ProxiedConnections:
    """A client's connections to all servers. Each passes through its own proxy."""

    def __init__(self, servers: Sequence[Server], *, encrypted: bool) -> None:
        self._proxies = {
            server.server_id: Proxy(server.secure_hosts if encrypted else server.hosts, opaque=encrypted)
            for server in servers
        }
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for proxy in self._proxies.values():
            self._stack.enter_context(proxy)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def hosts(self) -> str:
        """Connect string of the proxies."""
        return ",".join(proxy.hosts for proxy in self._proxies.values())

    @property
    def passwords(self) -> dict[int, bytes]:
        """Passwords of the sessions whose handshakes passed through."""
        # A copy, because a session can start during the loop.
        return {
            session: word
            for proxy in self._proxies.values()
            for session, word in proxy.passwords.copy().items()
        }

    @property
    def server_id(self) -> int | None:
        """Id of the server to which the client is connected, or None."""
        return next((number for number, proxy in self._proxies.items() if proxy.connections), None)

    @property
    def withheld(self) -> Counter[Direction]:
        """Number of frames held back so far, in each direction."""
        return sum((proxy.withheld for proxy in self._proxies.values()), Counter())

    @property
    def slowest(self) -> float:
        """Longest delay so far, in seconds."""
        return max(proxy.slowest for proxy in self._proxies.values())

    def silence(self, *directions: Direction) -> None:
        """Forward nothing, in one direction or both."""
        for proxy in self._proxies.values():
            proxy.black_hole(*directions)

    def confine(self, server_id: int) -> None:
        """Let the client reach only one server, and wait until it is connected to it."""
        for number, proxy in self._proxies.items():
            if number != server_id:
                proxy.refuse()
        deadline = time.monotonic() + STARTING
        while self.server_id is None and time.monotonic() < deadline:
            time.sleep(POLL)

    def free(self) -> None:
        """Let the client reach all servers again."""
        for proxy in self._proxies.values():
            proxy.accept()

    def reset(self) -> bool:
        """Reset the connection, if there is one. The client can reconnect immediately."""
        return sum([proxy.cut() for proxy in self._proxies.values()]) > 0

    def slow_down(self, delay: float) -> None:
        """Delay the traffic in each direction."""
        for proxy in self._proxies.values():
            proxy.slowest = 0.0
            proxy.delay = delay

    def drop_reply(self, op: str) -> list[Trap]:
        """Drop the reply to the next `op` request to a server, and cut its connection."""
        return [proxy.drop_reply(op) for proxy in self._proxies.values()]

    def repair(self) -> None:
        """Undo all faults of the connections."""
        for proxy in self._proxies.values():
            proxy.delay = 0.0
            proxy.cancel_dropped_replies()
            proxy.heal()
            # The proxy's counts are not used here and would grow without limit.
            proxy.reset()


class Station:
    """A succession of workers of the same surface."""

    _numbers = itertools.count(1)

    def __init__(
        self,
        surface: str,
        servers: Sequence[Server],
        locks: Sequence[Lock],
        session_timeout: float,
        tls: Mapping[str, str] | None = None,
    ) -> None:
        self.surface = surface
        self.name = f"{surface}@{next(self._numbers)}"
        self.is_ours = surface not in PEERS
        # A peer (a worker of another library) acquires only one lock, which uses its node names.
        naming = "kazoo" if surface == "kazoo" else "curator"
        named = [lock for lock in locks if lock.naming == naming]
        self.locks = locks if self.is_ours else named[:1]
        self.is_encrypted = tls is not None
        self.connections = ProxiedConnections(servers, encrypted=self.is_encrypted)
        self.clock = WallClock()
        # While this is set, holders keep holding.
        self.detained = threading.Event()
        # Grants that are kept, by owner.
        self.kept: dict[str, Grant] = {}
        # Set when a peer reports an error. The state of the peer is then unknown, so the campaign kills it.
        self.is_broken = threading.Event()
        self.workers: list[Worker] = []
        self._session_timeout = session_timeout
        self._tls = tls
        self._ready = threading.Condition()

    def __enter__(self) -> Self:
        self.connections.__enter__()
        self.replace()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.kill()
        self.connections.__exit__(kind, value, trace)
        self.clock.close()

    def __str__(self) -> str:
        return self.name

    @property
    def worker(self) -> Worker:
        """The current worker."""
        return self.workers[-1]

    def replace(self) -> None:
        """Start the first worker, or replace one that was killed. Call this from the main thread only."""
        env: Mapping[str, str] = self.clock.env if self.is_ours else {}
        worker = Worker(self.surface, env=dict(env))
        self._connect(worker)
        for lock in self.locks:
            if lock.members:
                worker.multi([member.name for member in lock.members], lock=lock.name)
                continue
            options: dict[str, Any] = {} if lock.permits is None else {"permits": lock.permits}
            if lock.naming != "curator":
                options["naming"] = lock.naming
            worker.lock(lock.path, lock=lock.name, kind=lock.kind, **options)
        self.is_broken.clear()
        with self._ready:
            self.workers.append(worker)
            self._ready.notify_all()

    def _connect(self, worker: Worker) -> None:
        deadline = time.monotonic() + STARTING
        while True:
            try:
                worker.connect(self.connections.hosts, session_timeout=self._session_timeout, tls=self._tls)
                return
            except WorkerError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL)

    def await_another(self, worker: Worker) -> bool:
        """Wait until a killed worker is replaced. Return False if this does not happen in time."""
        with self._ready:
            return self._ready.wait_for(lambda: self.worker is not worker, STARTING)

    def await_holder(self, timeout: float) -> Grant | None:
        """Wait for an owner that holds a lock exclusively, and make it keep the lock.

        A fault then attacks this holder.
        """
        deadline = time.monotonic() + timeout
        self.detained.set()
        while time.monotonic() < deadline:
            for grant in list(self.kept.values()):
                if grant.lock.is_exclusive and grant.worker is self.worker:
                    return grant
            time.sleep(POLL)
        return None
