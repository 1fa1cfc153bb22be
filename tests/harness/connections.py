"""The connections of a proxy: both ends of each, and the frames that pass between them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Literal

from harness import wire
from harness.traffic import Counts, Delivery, Flight, Traps

Direction = Literal["up", "down"]
""""up" is towards the server, "down" is towards the client."""

BOTH: frozenset[Direction] = frozenset(("up", "down"))

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ProxyState:
    """State that the connections of a proxy share. Only the event loop's thread accesses it."""

    def __init__(self, upstream: str, delay: float, *, opaque: bool = False) -> None:
        host, port = upstream.rsplit(":", 1)
        self.upstream = (host, int(port))
        self.delay = delay
        # True if the traffic is encrypted. The proxy then forwards raw chunks and cannot count requests.
        self.opaque = opaque
        # Number of frames that the proxy has held back in each direction, and the longest delay of a frame in
        # seconds.
        self.withheld: Counter[Direction] = Counter()
        self.slowest = 0.0
        # Session passwords by session id. With a password, a test can connect as a second client of that
        # session and close it.
        self.passwords: dict[int, bytes] = {}
        # Number of the last connection of each session.
        self.session_connections: dict[int, int] = {}
        self.holding: frozenset[Direction] = frozenset()
        self.counts = Counts()
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        # Use select(), because epoll rounds timeouts up to a millisecond, a fifth of the usual delay.
        self.loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        # True if the proxy closes new connections immediately.
        self.closes_new_connections = False
        # True if clients receive new sessions when they try to resume old ones.
        self.forgets_sessions = False
        self.drops = Traps()
        self.silences = Traps()
        # Black holes that start at a request or at a reply.
        self.withheld_requests = Traps()
        self.withheld_replies = Traps()
        # Recorded client frames, each with its connection's number; None while no test records frames.
        self.heard: list[tuple[int, bytes]] | None = None
        # Error code that replaces the results of transactions; 0 leaves them unchanged.
        self.transaction_error = 0
        self._number = 0

    def next_number(self) -> int:
        """Return the number of the next new connection."""
        self._number += 1
        return self._number


class Pipe:
    """One direction of a connection. It delivers frames in order, each after the delay."""

    def __init__(self, proxy: ProxyState, direction: Direction, deliver: Callable[[bytes], None]) -> None:
        self._proxy = proxy
        self._direction = direction
        self._deliver = deliver
        self._queue: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def push(self, frame: bytes) -> None:
        loop = self._proxy.loop
        if self._direction in self._proxy.holding:
            self._proxy.withheld[self._direction] += 1
        self._queue.append((loop.time() + self._proxy.delay, frame))
        self.pump()

    def pump(self) -> None:
        """Deliver the frames that are due.

        The whole queue uses one timer, because timers of the same instant fire in no particular order.
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
            if self._proxy.delay:
                self._proxy.slowest = max(self._proxy.slowest, loop.time() - due + self._proxy.delay)
            self._deliver(frame)

    def flush(self) -> None:
        """Deliver all queued frames immediately."""
        while self._queue:
            _, frame = self._queue.popleft()
            self._deliver(frame)

    def clear(self) -> None:
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Connection:
    """A client's connection to the proxy, and the connection to the server that the proxy opens for it."""

    def __init__(self, proxy: ProxyState, number: int) -> None:
        self._proxy = proxy
        self.number = number
        self.client: asyncio.Transport | None = None
        self.server: asyncio.Transport | None = None
        self._from_client = wire.Frames()
        self._from_server = wire.Frames()
        self._up = Pipe(proxy, "up", self._to_server)
        self._down = Pipe(proxy, "down", self._to_client)
        self._greeted = False
        self._answered = False
        # True if one end has closed and the other end does not know it yet.
        self._half = False
        self._early: list[bytes] = []
        self._outstanding: dict[int, str] = {}
        # Xid of the request whose reply starts a black hole.
        self._withheld_reply: int | None = None
        self._flight: Flight | None = None

    def client_data(self, data: bytes) -> None:
        self._proxy.counts.sent += len(data)
        if self._proxy.opaque:
            self._up.push(data)
            return
        for frame in self._from_client.feed(data):
            if self._proxy.heard is not None:
                self._proxy.heard.append((self.number, frame))
            if self._greeted:
                request = wire.request(frame)
                self._count(request)
                if self._proxy.withheld_requests.trigger(request.op, frame):
                    self._proxy.holding = BOTH
                if self._proxy.withheld_replies.trigger(request.op, frame):
                    self._withheld_reply = request.xid
            elif self._proxy.forgets_sessions:
                frame = wire.without_session(frame)
            self._greeted = True
            self._up.push(frame)

    def server_data(self, data: bytes) -> None:
        self._proxy.counts.received += len(data)
        if self._proxy.opaque:
            self._down.push(data)
            return
        for frame in self._from_server.feed(data):
            if not self._answered:
                self._answered = True
                session_id, password = wire.session(frame)
                self._proxy.passwords[session_id] = password
                self._proxy.session_connections[session_id] = self.number
            else:
                op = self._outstanding.get(wire.reply_xid(frame), "")
                if self._proxy.drops.trigger(op):
                    self.abort()
                    return
                if wire.reply_xid(frame) == self._withheld_reply:
                    self._proxy.holding = BOTH
                if self._proxy.transaction_error and op == "multi":
                    frame = wire.refused(frame, self._proxy.transaction_error)
                if self._proxy.silences.trigger(op):
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
        if self._proxy.opaque:
            self.client.write(frame)
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
        """React to the end of the client's or the server's connection.

        After an orderly close, the proxy first delivers the frames in transit. During a black hole (no data
        is forwarded), the other end does not learn of the close.
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
            self._proxy.loop.call_later(self._proxy.delay, self._finish)

    def _finish(self) -> None:
        """Deliver the due frames, then close the end that is still open.

        The timer of a due frame might not have fired yet. Do not reset the connection: after a reset, the
        client's next write would fail before the client has read the server's last frames.
        """
        if self._proxy.holding or self not in self._proxy.connections:
            self.ended()
            return
        self._up.flush()
        self._down.flush()
        if self.client is not None and not self.client.get_write_buffer_size():
            self.client.close()
            self.client = None
        if self.server is not None and not self.server.get_write_buffer_size():
            self.server.close()
            self.server = None
        self.abort()

    def healed(self) -> None:
        """End the black hole: deliver the held frames, and pass on the end of a stream.

        For example, if the server has closed its connection meanwhile, the client first reads all frames and
        then the end of the stream.
        """
        self.pump()
        for transport in (self.client, self.server):
            if self._half and transport is not None:
                # This end can also be closed by now.
                with contextlib.suppress(OSError):
                    transport.write_eof()


def _no_delay(transport: asyncio.BaseTransport) -> None:
    plug = transport.get_extra_info("socket")
    plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _unread(transport: asyncio.BaseTransport, why: Exception | None) -> bytes:
    """Return the bytes that a lost connection received and asyncio did not read.

    asyncio drops a socket at the first error, for example when it writes to a peer that has closed. The
    socket can still contain data that the peer sent before.
    """
    chunks = []
    if why is not None:
        with contextlib.suppress(OSError):
            while chunk := os.read(transport.get_extra_info("socket").fileno(), 65536):
                chunks.append(chunk)
    return b"".join(chunks)


class ClientEnd(asyncio.Protocol):
    def __init__(self, proxy: ProxyState) -> None:
        self._proxy = proxy
        self._connection = Connection(proxy, proxy.next_number())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._proxy.counts.arrivals.append(time.monotonic())
        if self._proxy.closes_new_connections:
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
                lambda: ServerEnd(self._connection), *self._proxy.upstream
            )
        except OSError:
            self._connection.abort()

    def data_received(self, data: bytes) -> None:
        self._connection.client_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if (transport := self._connection.client) is not None and (rest := _unread(transport, exc)):
            self._connection.client_data(rest)
        self._connection.ended()


class ServerEnd(asyncio.Protocol):
    def __init__(self, connection: Connection) -> None:
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
        if (transport := self._connection.server) is not None and (rest := _unread(transport, exc)):
            self._connection.server_data(rest)
        self._connection.ended()
