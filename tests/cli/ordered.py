"""Program whose tasks take two or three locks at a time in a fixed order, so that no deadlock occurs.

    python ordered.py HOSTS PATH SEED

It prints a line when each task has held its locks once, and exits when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import AsyncExitStack

from zklock import aio

TASKS = 40
LOCKS = 500
#: Number of locks that most tasks choose from, so that they are contended.
CROWDED = 12


async def work(client: aio.Client, path: str, chance: random.Random, had: asyncio.Event) -> None:
    """Take some locks in order, hold them for a moment, and repeat."""
    while True:
        numbers = {chance.randrange(CROWDED), chance.randrange(CROWDED), chance.randrange(LOCKS)}
        async with AsyncExitStack() as held:
            for number in sorted(numbers):
                await held.enter_async_context(aio.Mutex(client, f"{path}/{number:03}"))
                await asyncio.sleep(chance.random() / 100)
        had.set()


async def main(hosts: str, path: str, seed: str) -> None:
    """Run the tasks until standard input is closed."""
    async with aio.Client(hosts) as client:
        begun = [asyncio.Event() for _ in range(TASKS)]
        chances = [random.Random(f"{seed}-{number}") for number in range(TASKS)]
        works = [work(client, path, *one) for one in zip(chances, begun, strict=True)]
        tasks = [asyncio.create_task(one) for one in works]
        for had in begun:
            await had.wait()
        print("busy", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


asyncio.run(main(*sys.argv[1:]))
