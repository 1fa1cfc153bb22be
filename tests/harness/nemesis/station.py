"""Where a worker runs: the process, its cable to the servers, and its wall clock."""

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
"""Seconds that a worker has to connect, whatever happened to the servers."""

CONNECTING = 10.0
"""Seconds after which a client that does not wait gives up connecting: what it does by default."""


@dataclass(frozen=True)
class Lock:
    """A lock that stations contend for."""

    name: str
    path: str
    kind: str
    permits: int | None = None
    naming: str = "curator"
    # Of several locks as one.
    members: tuple[Lock, ...] = ()
    # The reader's, of a writer.
    other_half: Lock | None = None

    @property
    def paths(self) -> list[str]:
        """Where its nodes are."""
        return [member.path for member in self.members] or [self.path]

    @property
    def is_exclusive(self) -> bool:
        """Whether an owner holds it alone, and may write what the lock guards."""
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
    # The rest of its term right after the grant, in seconds.
    remaining: float

    @property
    def held(self) -> Held:
        """The same, for the record."""
        return Held(self.worker.name, self.session, self.node, self.granted, self.token)

    @property
    def node_path(self) -> str:
        """Where its node is."""
        return f"{self.lock.path}/{self.node}"

    @property
    def is_lost(self) -> bool:
        """Whether the worker has reported that it is lost."""
        return self.lease in self.worker.lost


class Cable:
    """A client's connections to all servers, each through its own proxy."""

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
        """The connect string that leads through the proxies."""
        return ",".join(proxy.hosts for proxy in self._proxies.values())

    @property
    def passwords(self) -> dict[int, bytes]:
        """The passwords of the sessions that passed through."""
        # Copies: sessions may begin meanwhile.
        return {
            session: word
            for proxy in self._proxies.values()
            for session, word in proxy.passwords.copy().items()
        }

    @property
    def server_id(self) -> int | None:
        """The server that the client is connected to, if any."""
        return next((number for number, proxy in self._proxies.items() if proxy.connections), None)

    @property
    def withheld(self) -> Counter[Direction]:
        """How much was held back so far, in each direction."""
        return sum((proxy.withheld for proxy in self._proxies.values()), Counter())

    @property
    def slowest(self) -> float:
        """The longest time that something took that was delayed, in seconds."""
        return max(proxy.slowest for proxy in self._proxies.values())

    def silence(self, *directions: Direction) -> None:
        """Pass nothing on, in both directions or in one."""
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
        """Reset the connection, if there is one; the client may come back at once."""
        return sum([proxy.cut() for proxy in self._proxies.values()]) > 0

    def slow_down(self, delay: float) -> None:
        """Delay what is sent, in each direction."""
        for proxy in self._proxies.values():
            proxy.slowest = 0.0
            proxy.delay = delay

    def drop_reply(self, op: str) -> list[Trap]:
        """Swallow the reply to the next such request to a server, and cut its connection."""
        return [proxy.drop_reply(op) for proxy in self._proxies.values()]

    def mend(self) -> None:
        """Be a healthy cable again."""
        for proxy in self._proxies.values():
            proxy.delay = 0.0
            proxy.keep_replies()
            proxy.heal()
            # The counts are not used, and would pile up.
            proxy.reset()


class Station:
    """A succession of workers, all of one surface."""

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
        # The locks that its workers ask for: a peer asks only for the first with its names, a mutex.
        naming = "kazoo" if surface == "kazoo" else "curator"
        named = [lock for lock in locks if lock.naming == naming]
        self.locks = locks if self.is_ours else named[:1]
        self.is_encrypted = tls is not None
        self.cable = Cable(servers, encrypted=self.is_encrypted)
        self.clock = WallClock()
        # While set, holders keep holding.
        self.detained = threading.Event()
        # The holders that do, by the names of their owners.
        self.kept: dict[str, Grant] = {}
        # A peer that reported an error may have left anything behind, so it is ended.
        self.is_broken = threading.Event()
        self.workers: list[Worker] = []
        self._session_timeout = session_timeout
        self._tls = tls
        self._ready = threading.Condition()

    def __enter__(self) -> Self:
        self.cable.__enter__()
        self.replace()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.kill()
        self.cable.__exit__(kind, value, trace)
        self.clock.close()

    def __str__(self) -> str:
        return self.name

    @property
    def worker(self) -> Worker:
        """The current worker."""
        return self.workers[-1]

    def replace(self) -> None:
        """Start a worker, the first or the replacement for one that was killed. From the main thread only."""
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
                worker.connect(self.cable.hosts, session_timeout=self._session_timeout, tls=self._tls)
                return
            except WorkerError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL)

    def await_another(self, worker: Worker) -> bool:
        """Wait for the replacement of a worker that was killed; False if none comes."""
        with self._ready:
            return self._ready.wait_for(lambda: self.worker is not worker, STARTING)

    def await_holder(self, timeout: float) -> Grant | None:
        """An owner here that holds alone and keeps holding: the target of a fault."""
        deadline = time.monotonic() + timeout
        self.detained.set()
        while time.monotonic() < deadline:
            for grant in list(self.kept.values()):
                if grant.lock.is_exclusive and grant.worker is self.worker:
                    return grant
            time.sleep(POLL)
        return None
