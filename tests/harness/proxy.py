"""A TCP proxy that knows ZooKeeper's frames: delays, cuts, swallows, and counts without a clock.

*Flight*: a request that arrives while no other request of its connection is outstanding opens a new flight.
As every client waits for something before it opens one, the number of flights is the number of causal round
trips, however slow the machine is. Pings count neither as requests nor as flights.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from harness import wire
from harness.ports import free_port

T = TypeVar("T")

Direction = Literal["up", "down"]
"""To the server, to the client."""

BOTH: frozenset[Direction] = frozenset(("up", "down"))

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Flight:
    """Requests of one connection that were in flight together. Stamps are CLOCK_MONOTONIC seconds."""

    connection: int
    opened: float
    requests: list[str] = field(default_factory=list)
    # When the last reply was passed to the client; None while any is missing.
    closed: float | None = None


@dataclass(frozen=True)
class Delivery:
    """A watch event that was passed to a client."""

    connection: int
    at: float


@dataclass
class Counts:
    """What went through since the last reset."""

    requests: Counter[str] = field(default_factory=Counter)
    flights: list[Flight] = field(default_factory=list)
    events: list[Delivery] = field(default_factory=list)
    # When clients connected. CLOCK_MONOTONIC seconds.
    arrivals: list[float] = field(default_factory=list)

    @property
    def total(self) -> int:
        """All requests."""
        return sum(self.requests.values())


class Trap:
    """One reply to which something is to happen, and whether it has happened."""

    def __init__(self, op: str, skip: int = 0) -> None:
        self.op = op
        # This many replies pass first.
        self.skip = skip
        self._done = threading.Event()

    def mark(self) -> None:
        """Note that it has happened."""
        self._done.set()

    def wait(self, timeout: float = 10.0) -> None:
        """Return once it has happened."""
        if not self._done.wait(timeout):
            raise AssertionError(f"no reply to {self.op} came within {timeout} s")


class _Traps:
    """The traps of one kind that are set."""

    def __init__(self) -> None:
        self._set: list[Trap] = []

    def set(self, op: str, skip: int = 0) -> Trap:
        """Set one."""
        trap = Trap(op, skip)
        self._set.append(trap)
        return trap

    def clear(self) -> None:
        """Remove all that have not sprung."""
        self._set.clear()

    def spring(self, op: str) -> bool:
        """Whether the reply to such a request springs one. Asked once for each reply."""
        for trap in self._set:
            if trap.op == op and trap.skip == 0:
                self._set.remove(trap)
                trap.mark()
                return True
            trap.skip -= int(trap.op == op)
        return False


class _Pipe:
    """One direction of a connection: frames go in at once and come out after the delay, in order."""

    def __init__(self, proxy: Proxy, direction: Direction, deliver: Callable[[bytes], None]) -> None:
        self._proxy = proxy
        self._direction = direction
        self._deliver = deliver
        self._queue: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def push(self, frame: bytes) -> None:
        loop = self._proxy.loop
        self._queue.append((loop.time() + self._proxy.delay, frame))
        self.pump()

    def pump(self) -> None:
        """Pass on what is due.

        One timer for the whole queue, because equal timers fire in no particular order.
        """
        loop = self._proxy.loop
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and self._direction not in self._proxy.holding:
            due, frame = self._queue[0]
            if due > loop.time():
                self._timer = loop.call_at(due, self.pump)
                return
            self._queue.popleft()
            self._deliver(frame)

    def clear(self) -> None:
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Connection:
    """A client's connection, and the corresponding one to the server."""

    def __init__(self, proxy: Proxy, number: int) -> None:
        self._proxy = proxy
        self.number = number
        self.client: asyncio.Transport | None = None
        self.server: asyncio.Transport | None = None
        self._from_client = wire.Frames()
        self._from_server = wire.Frames()
        self._up = _Pipe(proxy, "up", self._to_server)
        self._down = _Pipe(proxy, "down", self._to_client)
        self._greeted = False
        self._answered = False
        # One end is gone, and the other has not been told yet.
        self._half = False
        self._early: list[bytes] = []
        self._outstanding: dict[int, str] = {}
        self._flight: Flight | None = None

    def client_data(self, data: bytes) -> None:
        for frame in self._from_client.feed(data):
            if self._greeted:
                self._count(wire.request(frame))
            elif self._proxy.forgetful:
                frame = wire.greeting_anew(frame)
            self._greeted = True
            self._up.push(frame)

    def server_data(self, data: bytes) -> None:
        for frame in self._from_server.feed(data):
            if not self._answered:
                self._answered = True
                session_id, password = wire.session(frame)
                self._proxy.passwords[session_id] = password
                self._proxy.session_connections[session_id] = self.number
            else:
                op = self._outstanding.get(wire.reply_xid(frame), "")
                if self._proxy.drops.spring(op):
                    self.abort()
                    return
                if self._proxy.silences.spring(op):
                    self._down.push(frame)
                    self._proxy.holding = BOTH
                    continue
            self._down.push(frame)

    def _count(self, request: wire.Request) -> None:
        if request.op == "ping":
            return
        counts = self._proxy.counts
        counts.requests[request.op] += 1
        if not self._outstanding or self._flight is None:
            self._flight = Flight(self.number, time.monotonic())
            counts.flights.append(self._flight)
        self._flight.requests.append(request.op)
        self._outstanding[request.xid] = request.op

    def _to_server(self, frame: bytes) -> None:
        if self.server is not None:
            self.server.write(frame)
        elif not self._half:
            self._early.append(frame)

    def _to_client(self, frame: bytes) -> None:
        if self.client is None:
            return
        xid = wire.reply_xid(frame)
        if xid == wire.EVENT_XID:
            self._proxy.counts.events.append(Delivery(self.number, time.monotonic()))
        elif (
            self._outstanding.pop(xid, None) is not None
            and not self._outstanding
            and self._flight is not None
        ):
            self._flight.closed = time.monotonic()
        self.client.write(frame)

    def server_connected(self, transport: asyncio.Transport) -> None:
        self.server = transport
        for frame in self._early:
            transport.write(frame)
        self._early.clear()

    def pump(self) -> None:
        self._up.pump()
        self._down.pump()

    def abort(self) -> None:
        """Reset both ends."""
        self._proxy.connections.discard(self)
        self._up.clear()
        self._down.clear()
        for transport in (self.client, self.server):
            if transport is not None:
                plug = transport.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                transport.abort()
        self.client = self.server = None

    def ended(self) -> None:
        """One end is gone. If it ended in an orderly way, what is still on its way is passed on first.

        Through a black hole the other end does not learn of it.
        """
        if self not in self._proxy.connections:
            return
        if self._proxy.holding:
            self._half = True
            if self.client is not None and self.client.is_closing():
                self.client = None
            if self.server is not None and self.server.is_closing():
                self.server = None
        else:
            self._proxy.loop.call_later(self._proxy.delay, self.abort)

    def healed(self) -> None:
        """The black hole ends: what it held comes out, and then the news that the other end is gone.

        The receiver of that hangs up, after reading everything before it.
        """
        self.pump()
        for transport in (self.client, self.server):
            if self._half and transport is not None:
                # It may be gone by now too.
                with contextlib.suppress(OSError):
                    transport.write_eof()


def _no_delay(transport: asyncio.BaseTransport) -> None:
    plug = transport.get_extra_info("socket")
    plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _ClientEnd(asyncio.Protocol):
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._connection = _Connection(proxy, proxy.next_number())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._proxy.counts.arrivals.append(time.monotonic())
        if self._proxy.turning_away:
            transport.abort()
            return
        _no_delay(transport)
        self._connection.client = transport
        self._proxy.connections.add(self._connection)
        task = self._proxy.loop.create_task(self._dial())
        self._proxy.tasks.add(task)
        task.add_done_callback(self._proxy.tasks.discard)

    async def _dial(self) -> None:
        try:
            await self._proxy.loop.create_connection(
                lambda: _ServerEnd(self._connection), *self._proxy.upstream
            )
        except OSError:
            self._connection.abort()

    def data_received(self, data: bytes) -> None:
        self._connection.client_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.ended()


class _ServerEnd(asyncio.Protocol):
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        _no_delay(transport)
        if self._connection.client is None:
            transport.abort()
        else:
            self._connection.server_connected(transport)

    def data_received(self, data: bytes) -> None:
        self._connection.server_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.ended()


class Proxy:
    """The proxy, on a thread of its own. Every public method may be called from any other thread."""

    def __init__(self, upstream: str, *, delay: float = 0.0) -> None:
        host, port = upstream.rsplit(":", 1)
        self.upstream = (host, int(port))
        self.port = free_port()
        # Session passwords by session id: they let a test kill a session for real, as a second client would.
        self.passwords: dict[int, bytes] = {}
        # The connection that each session used last.
        self.session_connections: dict[int, int] = {}
        self.delay = delay
        # Everything below belongs to the loop's thread.
        self.holding: frozenset[Direction] = frozenset()
        self.counts = Counts()
        self.connections: set[_Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        # select() takes microseconds where epoll rounds up to a millisecond, a fifth of the usual delay.
        self.loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        # Whether new clients are hung up on.
        self.turning_away = False
        # Whether clients get new sessions instead of those that they want to resume.
        self.forgetful = False
        self.drops = _Traps()
        self.silences = _Traps()
        self._number = 0
        self._listener: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._main, name="proxy", daemon=True)

    @property
    def hosts(self) -> str:
        """The connect string that leads through the proxy. `refuse` and `accept` do not change it."""
        return f"127.0.0.1:{self.port}"

    @property
    def upstream_hosts(self) -> str:
        """The connect string of the server behind it."""
        return "{}:{}".format(*self.upstream)

    def carries(self, session: int) -> bool:
        """Whether a session's last connection through here still exists."""
        number = self.session_connections.get(session)
        return self._call(lambda: any(connection.number == number for connection in self.connections))

    def newest_session(self) -> int:
        """The session that began last."""
        # The server answers a client that asks for an expired session with the number 0.
        return [session for session in self.passwords if session != 0][-1]

    def __enter__(self) -> Self:
        self._thread.start()
        self.accept()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def _call(self, function: Callable[[], T]) -> T:
        async def wrapped() -> T:
            return function()

        return self._run(wrapped())

    def next_number(self) -> int:
        """A number for a new connection."""
        self._number += 1
        return self._number

    def accept(self) -> None:
        """Listen, for the first time or again, and serve."""

        async def listen() -> None:
            self.turning_away = False
            if self._listener is None:
                self._listener = await self.loop.create_server(
                    lambda: _ClientEnd(self), "127.0.0.1", self.port, reuse_address=True
                )

        self._run(listen())

    def refuse(self) -> None:
        """Cut every connection and refuse new ones."""

        def end() -> None:
            self._deafen()
            self._cut()

        self._call(end)

    def turn_away(self) -> None:
        """Cut every connection, and hang up on new clients. They are counted; refused connections are not."""

        def end() -> None:
            self.turning_away = True
            self._cut()

        self._call(end)

    def forget_sessions(self) -> None:
        """Give returning clients new sessions, as servers that keep no sessions do.

        Apache ZooKeeper would say instead that a session has expired.
        """

        def forget() -> None:
            self.forgetful = True

        self._call(forget)

    def refuse_new(self) -> None:
        """Refuse new connections. Existing ones are left as they are."""
        self._call(self._deafen)

    def _deafen(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _cut(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    def cut(self) -> None:
        """Reset every connection; clients may come back at once."""
        self._call(self._cut)

    def black_hole(self, *directions: Direction) -> None:
        """Pass nothing on, in both directions or in one. New connections are accepted, and are silent too."""

        def hold() -> None:
            self.holding = frozenset(directions) or BOTH

        self._call(hold)

    def heal(self) -> None:
        """End the black hole: what was held is passed on, as TCP would repeat it."""

        def pass_on() -> None:
            self.holding = frozenset()
            for connection in list(self.connections):
                connection.healed()

        self._call(pass_on)

    def drop_reply(self, op: str) -> Trap:
        """Let the next such request reach the server, but swallow its reply and cut the connection."""
        return self._call(lambda: self.drops.set(op))

    def black_hole_behind(self, op: str, *, skip: int = 0) -> Trap:
        """Pass on the reply to the next such request, or to a later one, and nothing after it."""
        return self._call(lambda: self.silences.set(op, skip))

    def keep_replies(self) -> None:
        """Stop swallowing replies, including those asked for that have not come yet."""
        self._call(self.drops.clear)

    def reset(self) -> None:
        """Start counting at zero."""

        def clear() -> None:
            self.counts = Counts()

        self._call(clear)

    def snapshot(self) -> Counts:
        """What was counted since the last reset."""

        def copy() -> Counts:
            counts = self.counts
            return Counts(
                Counter(counts.requests), list(counts.flights), list(counts.events), list(counts.arrivals)
            )

        return self._call(copy)
