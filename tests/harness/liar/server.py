"""The lying server: accepts connections, records them, and answers each request truthfully or with a lie."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from harness.liar import jute
from harness.liar.truth import Proof, Request, Truth

PASSWORD = bytes(range(16))

RESET_ON_CLOSE = struct.pack("ii", 1, 0)

ACCEPT, HELLO, ANYTHING = "accept", "hello", "anything"
"""Special steps: a connection, its handshake, and any request after the handshake."""


class Exchange:
    """One request, with the possible ways to answer it."""

    def __init__(self, connection: Connection, request: Request, asked: float) -> None:
        self.connection = connection
        self.request = request
        self.truth = connection.liar.truth
        self._asked = asked

    def execute(self) -> tuple[int, bytes]:
        """Execute the request without replying. Return the error and the body of the true reply."""
        if self.request.op == HELLO:
            return 0, self.connection.greet()
        return self.truth.execute(self.request, self.connection.session)

    async def honest(self) -> None:
        """Execute the request and reply truthfully."""
        error, body = self.execute()
        self.keep(error, body)
        if self.request.op == HELLO:
            await self.write(jute.frame(body))
        else:
            await self.reply(body, error=error)

    def keep(self, error: int, body: bytes) -> None:
        """Record the facts that a client can derive from a true reply."""
        connection, op = self.connection, self.request.op
        if error == 0 and op in ("create", "beat", "delete"):
            self.truth.proofs.append(Proof(self._asked, connection.timeout))
        if error == 0 and op in ("create", "exists"):
            path = jute.Reader(body if op == "create" else self.request.payload).text()
            if self.truth.nodes[path].owner == connection.known_as:
                self.truth.acknowledged.add(path)
        if error == 0 and op == "list":
            self.truth.shown([name.encode() for name in self.truth.children()])

    async def reply(
        self, body: bytes = b"", *, error: int = 0, xid: int | None = None, zxid: int | None = None
    ) -> None:
        """Send a reply with this content, true or not."""
        await self.write(self.framed(body, error=error, xid=xid, zxid=zxid))

    def framed(
        self, body: bytes = b"", *, error: int = 0, xid: int | None = None, zxid: int | None = None
    ) -> bytes:
        """Return the bytes of a reply with this content."""
        if self.request.op == HELLO:
            return jute.frame(body)
        head = jute.header(
            self.request.xid if xid is None else xid, self.truth.zxid if zxid is None else zxid, error
        )
        return jute.frame(head + body)

    async def write(self, data: bytes) -> None:
        """Send raw bytes."""
        await self.connection.write(data)

    async def silence(self) -> None:
        """Send and read nothing more on this connection."""
        await self.connection.over.wait()

    def hang_up(self) -> None:
        """Reset the connection."""
        self.connection.reset()


Tell = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True)
class Lie:
    """A lie: a false answer, and the step and conditions at which the server gives it."""

    name: str
    # Step of the lie: `accept`, `hello`, or the operation of a request.
    step: str
    tell: Tell = field(repr=False)
    # Number of true replies that the server sends at this step before it lies.
    after: int = 0
    # True if another contender is first in the queue.
    queued: bool = False
    # Client options in addition to the hosts, such as credentials.
    options: dict[str, Any] = field(default_factory=dict)
    # Time in seconds after which every connection is cut.
    cuts: float | None = None
    # Delay in seconds between two bytes of all replies.
    drip: float | None = None
    # True if the client lists the contenders once it holds the lock.
    curious: bool = False
    # True if the reply is too large. The client then reports a bad argument, because the caller can raise the
    # limit.
    large: bool = False
    # True if the answer is not false but only unusual, so that the client must acquire the lock.
    harmless: bool = False


class Connection:
    """A client's connection to the liar."""

    def __init__(self, liar: Liar, writer: asyncio.StreamWriter) -> None:
        self.liar = liar
        # The id of the real session, and the id that the client received, which can be a lie.
        self.session = 0
        self.known_as = 0
        self.timeout = 0.0
        self.over = asyncio.Event()
        self._writer = writer
        self._hello: tuple[int, int] = (0, 0)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def asked(self) -> tuple[int, int]:
        """The timeout in milliseconds and the session id in the client's handshake."""
        return self._hello

    def greet(self) -> bytes:
        """Give the client a new session or its old one. Return the body of the reply."""
        timeout, session = self._hello
        self.session = self.known_as = self.liar.truth.begin(session)
        self.timeout = timeout / 1000
        return welcome(timeout if self.session else 0, self.session)

    async def write(self, data: bytes) -> None:
        """Write bytes, as slowly as the lie says."""
        drip = self.liar.lie.drip
        if drip is None:
            self._writer.write(data)
            await self._writer.drain()
            return
        for byte in data:
            self._writer.write(bytes((byte,)))
            await self._writer.drain()
            await asyncio.sleep(drip)

    def reset(self) -> None:
        """Reset the connection, so that the client always notices."""
        self.over.set()
        plug = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Answer requests until one side closes the connection."""
        if self.liar.lie.cuts is not None:
            asyncio.get_running_loop().call_later(self.liar.lie.cuts, self.reset)
        await self.liar.answer(Exchange(self, Request(0, ACCEPT, 0, b""), time.monotonic()))
        greeting = jute.Reader(await _frame(reader))
        greeting.int32(), greeting.int64()
        self._hello = (greeting.int32(), greeting.int64())
        await self.liar.answer(Exchange(self, Request(0, HELLO, 0, b""), time.monotonic()))
        while not self.over.is_set():
            frame = await _frame(reader)
            request, asked = Request.read(frame), time.monotonic()
            self.liar.requests.append((asked, request.op))
            await self.liar.answer(Exchange(self, request, asked))
            if request.op == "close":
                return


def welcome(timeout: int, session: int, password: bytes = PASSWORD, *, tail: bytes = b"\0") -> bytes:
    """Return the body of the reply to a connection's handshake."""
    return jute.int32(0, timeout) + jute.int64(session) + jute.buffer(password) + tail


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


class Liar:
    """A server that tells one lie, and records the connections and requests of its clients."""

    def __init__(self, lie: Lie) -> None:
        self.lie = lie
        self.truth = Truth()
        self.hosts = ""
        # Times of connections, of requests, and of lies.
        self.accepts: list[float] = []
        self.requests: list[tuple[float, str]] = []
        self.told: list[float] = []
        self._reached = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        if lie.queued:
            self.truth.add(0x77, b"somebody else")

    def __str__(self) -> str:
        return f"{self.lie.name} (at {self.lie.step})"

    async def answer(self, exchange: Exchange) -> None:
        """Answer a request truthfully or with the lie."""
        op = exchange.request.op
        if op == self.lie.step or (self.lie.step == ANYTHING and op not in (ACCEPT, HELLO)):
            self._reached += 1
            if self._reached > self.lie.after:
                self.told.append(time.monotonic())
                await self.lie.tell(exchange)
                return
        if op != ACCEPT:
            await exchange.honest()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self.accepts.append(time.monotonic())
        # The event loop keeps only weak references to tasks.
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        connection = Connection(self, writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await connection.serve(reader)
        finally:
            connection.over.set()
            writer.close()


class Liars:
    """Any number of lying servers, all on one thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="liars", daemon=True)
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        # Repeat this, because tasks of recently accepted connections start a moment later.
        for _ in range(3):
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.02)

    def start(self, lie: Lie) -> Liar:
        """Start a server with this lie."""
        liar = Liar(lie)

        async def listen() -> None:
            server = await asyncio.start_server(liar.connected, "127.0.0.1", 0, backlog=512)
            self._servers.append(server)
            port = server.sockets[0].getsockname()[1]
            liar.hosts = f"127.0.0.1:{port}"

        self._run(listen())
        return liar
