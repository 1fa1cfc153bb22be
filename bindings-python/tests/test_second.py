"""Calls every operation twice in every state of a client. The blocking and asyncio APIs share a table."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import zklock
from zklock import aio
from zklock.testing import Server

BRIEF = 0.4
"""Timeout in seconds where no server answers."""

PATIENT = 20.0
"""Timeout in seconds where a server answers, on a busy machine."""

BEYOND = 8.0
"""Maximum time in seconds by which a call exceeds its timeout, e.g. to wait for the reply to a close."""

LONG = 600.0

SITUATIONS = (
    *("new", "unreachable", "connected", "back", "broken", "anew"),
    *("cut", "between", "silent", "draining", "closing", "closed"),
)
ANSWERED = ("new", "connected", "back", "broken", "anew", "draining")


class World:
    """A client in a situation, with the lock that it held when it got there."""

    def __init__(self, module: ModuleType, server: Server, situation: str, pool: ThreadPoolExecutor) -> None:
        self.module, self.server, self.situation, self.pool = module, server, situation, pool
        answered = situation in ANSWERED
        self.patience = PATIENT if answered else BRIEF
        hosts = f"127.0.0.1:{free_port()}" if situation == "unreachable" else server.hosts
        self.client = self.module.Client(
            hosts,
            connect_timeout=PATIENT if answered else 2 * BRIEF,
            session_timeout=4.0,
            **({"connect": False} if module is zklock else {}),
        )
        self.held = module.Mutex(self.client, "/held")
        self.lease: Any = None
        self.ends: list[asyncio.Future[Any]] = []

    async def do(self, call: Callable[[], Any], limit: float | None = None) -> Any:
        """Call a function, always as the same owner. Raise `TimeoutError` if it does not return in time."""
        async with asyncio.timeout(limit or self.patience + BEYOND):
            if self.module is aio:
                done = call()
                return await done if isinstance(done, Awaitable) else done
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self.pool, call))

    def begin(self, call: Callable[[], Any]) -> None:
        """Start a call that continues during other calls."""
        if self.module is aio:
            self.ends.append(asyncio.ensure_future(call()))
        else:
            self.ends.append(asyncio.get_running_loop().run_in_executor(None, call))

    async def reach(self) -> None:
        """Bring the client into the situation."""
        if self.situation in ("new", "unreachable"):
            return
        assert await self.do(lambda: self.held.acquire(), PATIENT)
        self.lease = await self.do(lambda: self.held.lease)
        client, server, session = self.client, self.server, self.client.session_id
        match self.situation:
            case "back":
                states: list[str] = []
                notice = client.on_state(states.append)
                assert server.disconnect(client)
                await until(lambda: states == ["suspended", "connected"] and self.lease.state == "held")
                notice.cancel()
            case "broken":
                with zklock.Client(server.hosts) as operator:
                    operator.break_lock(self.lease.node)
                await until(lambda: self.lease.state == "lost")
            case "anew":
                assert server.expire(client)
                await until(lambda: self.lease.state == "lost" and client.session_id not in (0, session))
            case "cut":
                server.pause()
                assert server.disconnect(client)
                await until(lambda: client.state == "suspended")
            case "between":
                # After the first delayed reply, the client knows that its session has expired. It then waits
                # for the reply that opens a new session.
                server.latency(BRIEF / 2)
                assert server.expire(client)
                await until(lambda: client.state == "connecting")
                server.pause()
            case "silent":
                server.pause()
            case "draining":
                self.begin(lambda: client.close(drain=LONG))
                await asyncio.sleep(0)
                while self.module is zklock and await asyncio.to_thread(probe, client) != "ClientClosed":
                    await asyncio.sleep(0.002)
            case "closing":
                server.pause()
                self.begin(client.close)
                await until(lambda: client.state == "closed")
            case "closed":
                await self.do(client.close)

    async def leave(self) -> None:
        """Leave the situation, without waiting for replies that never arrive."""
        self.server.resume()
        self.server.latency(0)
        await self.do(self.client.close, PATIENT)
        await asyncio.gather(*self.ends)


def probe(client: zklock.Client) -> str:
    """Return the outcome of an acquire."""
    try:
        lock = zklock.Mutex(client, "/probe")
        lock.acquire(timeout=0)
        lock.release()
    except zklock.Error as error:
        return type(error).__name__
    return "acquired"


def free_port() -> int:
    """Return a port on which no server listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def until(done: Callable[[], bool]) -> None:
    """Wait until `done` returns a true value."""
    deadline = time.monotonic() + PATIENT
    while not done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


async def scope(world: World, lock: Any) -> bool:
    """Enter a lock, and leave it."""
    if world.module is aio:
        async with lock as lease:
            return bool(lease.state == "held")

    def inside() -> bool:
        with lock as lease:
            return bool(lease.state == "held")

    return bool(await world.do(inside))


async def taken(world: World, lock: Any, **options: Any) -> bool:
    """Acquire, and release if the acquire succeeded."""
    acquired = await world.do(lambda: lock.acquire(**options))
    if acquired:
        await world.do(lock.release)
    return bool(acquired)


async def led(world: World, **options: Any) -> bool:
    """Lead, and resign."""
    election = world.module.Election(world.client, "/election")
    leadership = await world.do(lambda: election.campaign(**options))
    leads = bool(election.is_leader)
    await world.do(leadership.resign)
    return leads


OPERATIONS: dict[str, Callable[[World], Awaitable[Any]]] = {
    "connect": lambda w: w.do(w.client.connect),
    "get": lambda w: w.do(lambda: w.client.get("/none")),
    "set_shared_count": lambda w: w.do(lambda: w.client.set_shared_count("/count", 2)),
    "revoke": lambda w: w.do(lambda: w.client.revoke(w.lease.node)),
    "break_lock": lambda w: w.do(lambda: w.client.break_lock(w.lease.node)),
    "acquire in time": lambda w: taken(w, w.module.Mutex(w.client, "/free"), timeout=w.patience),
    "try": lambda w: taken(w, w.module.Mutex(w.client, "/free"), blocking=False),
    "scope in time": lambda w: scope(w, w.module.Mutex(w.client, "/free").hold(timeout=w.patience)),
    "semaphore": lambda w: taken(w, w.module.Semaphore(w.client, "/permits", 2), timeout=w.patience),
    "multi": lambda w: taken(
        w,
        w.module.MultiLock([w.module.Mutex(w.client, path) for path in ("/one", "/two")]),
        timeout=w.patience,
    ),
    "contenders": lambda w: w.do(w.module.Mutex(w.client, "/free").contenders),
    "locked": lambda w: w.do(w.held.locked),
    "owned": lambda w: w.do(w.held.owned),
    "campaign": lambda w: led(w, timeout=w.patience),
    "leader": lambda w: w.do(w.module.Election(w.client, "/election").leader),
    "check": lambda w: w.do(w.lease.check),
    "release": lambda w: w.do(w.held.release),
    "release of the lease": lambda w: w.do(w.lease.release),
    "release without waiting": lambda w: w.do(lambda: w.lease.release(wait=False)),
    "transaction": lambda w: w.do(
        lambda: w.lease.transaction().create("/x", b"").delete("/x").commit(),
    ),
    "enter again": lambda w: taken(w, w.held, timeout=w.patience),
    "wait_lost": lambda w: w.do(lambda: w.lease.wait_lost(timeout=BRIEF)),
    "close": lambda w: w.do(w.client.close),
    "drain": lambda w: w.do(lambda: w.client.close(drain=BRIEF)),
}

TABLE = Path(__file__).with_name("second.txt")
"""The outcomes of both calls of each operation: one entry if they are equal, a dash if there is no lease."""


def expected(operation: str) -> dict[str, str]:
    """Return a row of the table, without the situations that do not apply."""
    heads, *rows = ([cell.strip() for cell in line.split("|")] for line in TABLE.read_text().splitlines())
    assert tuple(heads[1:]) == SITUATIONS
    assert [row[0] for row in rows] == list(OPERATIONS)
    (row,) = (row for row in rows if row[0] == operation)
    return {situation: cell for situation, cell in zip(heads[1:], row[1:], strict=True) if cell != "-"}


async def twice(module: ModuleType, situation: str, operation: str) -> list[str]:
    """Return its first and second outcome."""
    found = []
    with Server() as server, ThreadPoolExecutor(1) as pool:
        world = World(module, server, situation, pool)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(world.leave)
            await world.reach()
            for _ in range(2):
                try:
                    outcome = await OPERATIONS[operation](world)
                    found.append("client" if outcome is world.client else repr(outcome))
                except zklock.Error as error:
                    found.append(type(error).__name__)
    return found


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("module", [zklock, aio], ids=["sync", "asyncio"])
def test_an_operation_in_every_situation(module: ModuleType, operation: str) -> None:
    async def job() -> list[list[str]]:
        return await asyncio.gather(*(twice(module, situation, operation) for situation in row))

    row = expected(operation)
    outcomes = asyncio.run(job())
    assert {at: ", ".join(dict.fromkeys(found)) for at, found in zip(row, outcomes, strict=True)} == row
