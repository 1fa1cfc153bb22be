"""The worker that uses zklock in Python with asyncio tasks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Coroutine
from typing import Any

from zklock import ClientClosed, __version__, aio

from gate import BATCH, SETTLED, Task, tell
from latencies import Latencies, Stopwatch


class Gate:
    """A gate for tasks, like the one for threads."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.done = 0
        # True if a contender waits for the gate.
        self.parked = False

    async def wait(self) -> None:
        """Return when the gate is open."""
        if not self.opened.is_set():
            self.parked = True
            await self.opened.wait()
            self.parked = False

    async def settle(self) -> None:
        """Wait until the operation that was in progress at the end of a turn is complete."""
        deadline = time.monotonic() + SETTLED
        while not self.parked and time.monotonic() < deadline:
            await asyncio.sleep(0.001)

    async def count(self, seconds: float) -> tuple[int, float]:
        """Open the gate for this many seconds. Return the number of completed pairs and the actual time."""
        before, began = self.done, time.perf_counter()
        self.opened.set()
        await asyncio.sleep(seconds)
        self.opened.clear()
        return self.done - before, time.perf_counter() - began


def locks(task: Task, client: aio.Client, contender: int) -> tuple[aio.Lock, aio.Lock]:
    """Return a contender's locks for writing and reading."""
    path = task.lock_path(contender)
    if task.kind == "mutex":
        mutex = aio.Mutex(client, path, cohort=task.cohort, linger=task.linger)
        return mutex, mutex
    if task.kind == "semaphore":
        semaphore = aio.Semaphore(client, path, task.permits)
        return semaphore, semaphore
    both = aio.ReadWriteLock(client, path, cohort=task.cohort, linger=task.linger)
    return both.write_lock, both.read_lock


async def pairs(
    task: Task, gate: Gate, watch: Stopwatch, both: tuple[aio.Lock, aio.Lock], contender: int
) -> None:
    """Acquire and release forever."""
    turn = 0
    while True:
        lock = both[0 if task.writes(contender, turn) else 1]
        turn += 1
        if pause := watch.pause():
            await asyncio.sleep(pause)
        watch.start()
        await lock.acquire()
        watch.acquired()
        await gate.wait()
        watch.releasing()
        await lock.release()
        watch.released()
        gate.done += 1
        if task.linger and turn % BATCH == 0:
            # Let the event loop run its timers. Acquires that send no request never yield to the loop.
            await asyncio.sleep(0)


async def reenter(gate: Gate, lock: aio.Lock) -> None:
    """Re-enter the lock that this task holds."""
    await lock.acquire()
    while True:
        await gate.opened.wait()
        for _ in range(BATCH):
            await lock.acquire()
            await lock.release()
        gate.done += BATCH
        # Lets the event loop run its timers.
        await asyncio.sleep(0)


async def tries(gate: Gate, lock: aio.Lock) -> None:
    """Try a taken lock forever."""
    while True:
        await gate.opened.wait()
        assert not await lock.acquire(blocking=False)
        gate.done += 1


async def contend(
    task: Task, gate: Gate, watch: Stopwatch, both: tuple[aio.Lock, aio.Lock], contender: int
) -> None:
    """Run the task's operation."""
    if task.op == "pair":
        await pairs(task, gate, watch, both, contender)
    elif task.op == "reenter":
        await reenter(gate, both[0])
    else:
        await tries(gate, both[0])


async def hold(lock: aio.Lock, ready: asyncio.Semaphore) -> None:
    """Acquire something and keep it."""
    await lock.acquire()
    ready.release()
    await asyncio.Event().wait()


async def quietly(body: Coroutine[Any, Any, None]) -> None:
    """Ignore the errors that contenders get when their client is closed."""
    with contextlib.suppress(ClientClosed):
        await body


async def main() -> None:
    task, gate = Task.from_arguments(), Gate()
    latencies = Latencies(task)
    # The last client holds the locks that the others find taken.
    clients = [aio.Client(task.client_hosts(number)) for number in range(task.clients + 1)]
    await asyncio.gather(*(client.connect() for client in clients))
    ready = asyncio.Semaphore(0)
    kept = [asyncio.create_task(hold(locks(task, clients[-1], 0)[1], ready)) for _ in range(task.held)]
    for _ in kept:
        await ready.acquire()
    for contender in range(task.clients * task.contenders):
        both = locks(task, clients[contender // task.contenders], contender)
        body = contend(task, gate, Stopwatch(latencies), both, contender)
        kept.append(asyncio.create_task(quietly(body)))
    tell(ready=__version__)
    while (line := await asyncio.to_thread(sys.stdin.readline)).startswith("count "):
        if not latencies.on:
            count, seconds = await gate.count(float(line.split()[1]))
            tell(count=count, seconds=seconds)
            continue
        latencies.begin()
        count, seconds = await gate.count(float(line.split()[1]))
        if latencies.exclusive:
            await gate.settle()
        tell(count=count, seconds=seconds, latencies=latencies.take())
    await asyncio.gather(*(client.close() for client in clients))
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
