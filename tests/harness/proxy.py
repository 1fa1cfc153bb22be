"""A TCP proxy that parses ZooKeeper's frames: delays, cuts and drops traffic, and counts flights.

A *flight* is a group of requests on one connection that are outstanding together. It ends when no request is
outstanding. Therefore the number of flights is the number of round trips that a client waits for, independent
of the machine's speed. Pings count neither as requests nor as flights.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from harness.connections import BOTH, ClientEnd, Direction, ProxyState
from harness.ports import free_port
from harness.traffic import Counts, Trap

T = TypeVar("T")

LOOP_ITERATIONS = 3
"""Number of event loop iterations after which asyncio serves an accepted connection."""


class Proxy(ProxyState):
    """The proxy, which runs on its own thread. Every public method can be called from any other thread."""

    def __init__(
        self, upstream: str, *, delay: float = 0.0, opaque: bool = False, host: str = "127.0.0.1"
    ) -> None:
        super().__init__(upstream, delay, opaque=opaque)
        self._host = host
        self.port = free_port()
        self._listener: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._main, name="proxy", daemon=True)

    @property
    def hosts(self) -> str:
        """Connect string of the proxy. `refuse` and `accept` do not change it."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    @property
    def upstream_hosts(self) -> str:
        """Connect string of the server behind the proxy."""
        return "{}:{}".format(*self.upstream)

    def carries(self, session: int) -> bool:
        """Return whether the newest connection of a session through this proxy is still open."""
        number = self.session_connections.get(session)
        return self._call(lambda: any(connection.number == number for connection in self.connections))

    def newest_session(self) -> int:
        """Return the newest session."""
        # Ignore session id 0: the server sends it to a client that tries to resume an expired session.
        return self._call(lambda: [session for session in self.passwords if session != 0][-1])

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

    def accept(self) -> None:
        """Start listening, or start again after `refuse`."""

        async def listen() -> None:
            self.closes_new_connections = False
            if self._listener is None:
                self._listener = await self.loop.create_server(
                    lambda: ClientEnd(self), self._host, self.port, reuse_address=True
                )

        self._run(listen())

    def refuse(self) -> None:
        """Cut every connection and refuse new ones."""

        async def end() -> None:
            await self._stop_listening()
            self._cut()

        self._run(end())

    def accept_and_close(self) -> None:
        """Cut every connection. Accept new connections, count them, and close them immediately."""

        def end() -> None:
            self.closes_new_connections = True
            self._cut()

        self._call(end)

    def forget_sessions(self) -> None:
        """Give returning clients new sessions, like a server that keeps no sessions.

        Apache ZooKeeper would report that the session has expired.
        """

        def forget() -> None:
            self.forgets_sessions = True

        self._call(forget)

    def refuse_new(self) -> None:
        """Refuse new connections. Existing connections stay open."""
        self._run(self._stop_listening())

    async def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None:
            return
        for accepting in listener.sockets:
            self.loop.remove_reader(accepting)
        # The event loop serves an accepted socket a few iterations later. If the listener closed before that,
        # the socket would stay open without a reply.
        for _ in range(LOOP_ITERATIONS):
            await asyncio.sleep(0)
        listener.close()

    def _cut(self) -> int:
        found = list(self.connections)
        for connection in found:
            connection.abort()
        return len(found)

    def cut(self) -> int:
        """Reset every connection. Clients can reconnect immediately. Return the number of connections."""
        return self._call(self._cut)

    def black_hole(self, *directions: Direction) -> None:
        """Stop forwarding data, in one direction or both. This also affects new connections."""

        def hold() -> None:
            self.holding = frozenset(directions) or BOTH

        self._call(hold)

    def heal(self) -> None:
        """End the black hole. The held data is delivered, as TCP would retransmit it."""

        def pass_on() -> None:
            self.holding = frozenset()
            for connection in list(self.connections):
                connection.healed()

        self._call(pass_on)

    def drop_reply(self, op: str) -> Trap:
        """Let the next `op` request reach the server, then drop its reply and cut the connection."""
        return self._call(lambda: self.drops.set(op))

    def black_hole_behind(self, op: str, *, skip: int = 0) -> Trap:
        """Start a black hole after the reply to an `op` request. Ignore the first `skip` such replies."""
        return self._call(lambda: self.silences.set(op, skip))

    def withhold_request(self, op: str, content: bytes) -> Trap:
        """Start a black hole with the next `op` request that contains `content`.

        The request reaches the server only after the black hole has ended.
        """
        return self._call(lambda: self.withheld_requests.set(op, content=content))

    def withhold_reply(self, op: str, content: bytes) -> Trap:
        """Start a black hole with the reply to the next `op` request that contains `content`.

        The server has executed this request.
        """
        return self._call(lambda: self.withheld_replies.set(op, content=content))

    def cancel_dropped_replies(self) -> None:
        """Cancel all pending `drop_reply` calls."""
        self._call(self.drops.clear)

    def refuse_transactions(self, code: int) -> None:
        """Replace the result of every transaction by a failure with this error code; 0 ends this.

        A leader that has closed a session replies like this for a moment before it closes the connection.
        """

        def refuse() -> None:
            self.transaction_error = code

        self._call(refuse)

    def record_frames(self) -> None:
        """Record the frames that clients send from now on."""

        def begin() -> None:
            self.heard = []

        self._call(begin)

    def recorded_frames(self) -> list[tuple[int, bytes]]:
        """Return the client frames recorded since `record_frames`, each with its connection's number."""
        return self._call(lambda: list(self.heard or ()))

    def reset(self) -> None:
        """Reset all counts to zero."""

        def clear() -> None:
            self.counts = Counts()

        self._call(clear)

    def snapshot(self) -> Counts:
        """Return a copy of the counts since the last reset."""

        def copy() -> Counts:
            counts = self.counts
            return Counts(
                Counter(counts.requests),
                list(counts.flights),
                list(counts.events),
                list(counts.arrivals),
                counts.sent,
                counts.received,
            )

        return self._call(copy)
