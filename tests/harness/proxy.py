"""A TCP proxy that knows ZooKeeper's frames: delays, cuts, swallows, and counts without a clock.

*Flight*: a request that arrives while no other request of its connection is outstanding opens a new flight.
As every client waits for something before it opens one, the number of flights is the number of causal round
trips, however slow the machine is. Pings count neither as requests nor as flights.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from harness.connections import BOTH, ClientEnd, Direction, Switchboard
from harness.ports import free_port
from harness.traffic import Counts, Trap

T = TypeVar("T")

TURNS = 3
"""After so many turns of its loop asyncio serves a connection that it has accepted."""


class Proxy(Switchboard):
    """The proxy, on a thread of its own. Every public method may be called from any other thread."""

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
        """The connect string that leads through the proxy. `refuse` and `accept` do not change it."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

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
        """Listen, for the first time or again, and serve."""

        async def listen() -> None:
            self.turning_away = False
            if self._listener is None:
                self._listener = await self.loop.create_server(
                    lambda: ClientEnd(self), self._host, self.port, reuse_address=True
                )

        self._run(listen())

    def refuse(self) -> None:
        """Cut every connection and refuse new ones."""

        async def end() -> None:
            await self._deafen()
            self._cut()

        self._run(end())

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
        self._run(self._deafen())

    async def _deafen(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None:
            return
        for accepting in listener.sockets:
            self.loop.remove_reader(accepting)
        # The loop serves an accepted socket in its next turns. A listener that is closed before that would
        # leave the socket open without an answer.
        for _ in range(TURNS):
            await asyncio.sleep(0)
        listener.close()

    def _cut(self) -> int:
        found = list(self.connections)
        for connection in found:
            connection.abort()
        return len(found)

    def cut(self) -> int:
        """Reset every connection, and return how many there were; clients may come back at once."""
        return self._call(self._cut)

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

    def withhold_request(self, op: str, content: bytes) -> Trap:
        """Begin a black hole with the next such request: it does not reach the server until the hole ends."""
        return self._call(lambda: self.withheld_requests.set(op, content=content))

    def withhold_reply(self, op: str, content: bytes) -> Trap:
        """Begin a black hole with the reply to the next such request, which the server has carried out."""
        return self._call(lambda: self.withheld_replies.set(op, content=content))

    def keep_replies(self) -> None:
        """Stop swallowing replies, including those asked for that have not come yet."""
        self._call(self.drops.clear)

    def refuse_transactions(self, code: int) -> None:
        """Make the server's answers to transactions failures with this code; 0 ends it.

        A leader that has ended a session answers so, but for a moment only: it is about to hang up.
        """

        def refuse() -> None:
            self.refusing = code

        self._call(refuse)

    def listen_in(self) -> None:
        """Keep what clients send from now on."""

        def begin() -> None:
            self.heard = []

        self._call(begin)

    def overheard(self) -> list[tuple[int, bytes]]:
        """What clients have sent since then: the number of the connection, and a frame."""
        return self._call(lambda: list(self.heard or ()))

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
                Counter(counts.requests),
                list(counts.flights),
                list(counts.events),
                list(counts.arrivals),
                counts.sent,
                counts.received,
            )

        return self._call(copy)
