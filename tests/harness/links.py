"""Links between the servers of an ensemble: they forward all server traffic, and tests can cut them."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from harness.ports import free_port

T = TypeVar("T")

Pair = frozenset[int]

CHUNK = 65_536

# First message of a server to another server in an election: protocol version, server number, and length of
# the address that follows.
INTRODUCTION = struct.Struct(">qqi")

# Number of attempts to reach a server that does not listen yet. All attempts together take five seconds. A
# follower tries for equally long to reach its leader.
DIALS = 250
PAUSE = 0.02


class Links:
    """Forwards connections between servers, on its own thread.

    A cut link is silent in both directions, like an unplugged cable: it refuses no connection and loses no
    data. Data that was sent while the link was cut arrives when the link is healed.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._open: dict[Pair, asyncio.Event] = {}
        # Number of chunks that each cut link has held back.
        self._withheld: Counter[Pair] = Counter()
        # Local port by (target port, connecting server).
        self._entrances: dict[tuple[int, int], int] = {}
        self._listeners: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def forward(self, port: int, speaker: int, listener: int, *, elects: bool = False) -> int:
        """Open a port through which the server `speaker` reaches this port of the server `listener`.

        `elects` is True for an election port.
        """
        entrance = self._entrances[port, speaker] = free_port()
        self._run(self._listen(entrance, port, speaker, listener, elects=elects))
        return entrance

    def cut(self, server: int, *others: int) -> None:
        """Cut one server off from the others."""
        self._run(self._set([frozenset((server, other)) for other in others], is_open=False))

    def withheld(self, server: int, other: int) -> int:
        """Return the number of chunks that the link between two servers has held back while it was cut."""
        return self._withheld[frozenset((server, other))]

    def heal(self) -> None:
        """Connect all servers again."""
        self._run(self._set(list(self._open), is_open=True))

    async def _set(self, pairs: list[Pair], *, is_open: bool) -> None:
        for pair in pairs:
            gate = self._open[pair]
            (gate.set if is_open else gate.clear)()

    async def _listen(self, entrance: int, port: int, speaker: int, listener: int, *, elects: bool) -> None:
        pair = frozenset((speaker, listener))
        gate = self._open.setdefault(pair, asyncio.Event())
        gate.set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._keep(asyncio.current_task())
            await gate.wait()
            try:
                first = await self._introduction(reader, listener) if elects else b""
                up_reader, up_writer = await _dial(port)
            except (OSError, asyncio.IncompleteReadError):
                writer.transport.abort()
                return
            up_writer.write(first)
            for source, sink in ((reader, up_writer), (up_reader, writer)):
                self._keep(self._loop.create_task(self._pass_on(source, sink, pair)))

        self._listeners.append(await asyncio.start_server(connected, "127.0.0.1", entrance))

    async def _introduction(self, reader: asyncio.StreamReader, listener: int) -> bytes:
        """Read a server's first election message, and replace the address in it with a link's address.

        When two servers connect, the server with the larger number closes the connection and opens a new one
        to the address in the message. Without the replacement, the new connection would bypass all links.
        """
        version, speaker, length = INTRODUCTION.unpack(await reader.readexactly(INTRODUCTION.size))
        host, _, port = (await reader.readexactly(length)).decode().rpartition(":")
        address = f"{host}:{self._entrances[int(port), listener]}".encode()
        return INTRODUCTION.pack(version, speaker, len(address)) + address

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, pair: Pair) -> None:
        """Forward incoming data while the link is open."""
        gate = self._open[pair]
        try:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(CHUNK):
                    self._withheld[pair] += not gate.is_set()
                    await gate.wait()
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.transport.abort()

    def _keep(self, task: asyncio.Task[None] | None) -> None:
        """Remember a running task so that `_close` can cancel it."""
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a server, and retry while it does not listen yet.

    A follower retries a refused connection. If the link accepted the connection and then dropped it, the
    follower would give up on its leader, and the election would start again.
    """
    for _ in range(DIALS):
        with contextlib.suppress(OSError):
            return await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(PAUSE)
    return await asyncio.open_connection("127.0.0.1", port)
