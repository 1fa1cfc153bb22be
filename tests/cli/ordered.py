"""Tasks that take locks in one order, two or three at a time: busy, and never in a deadlock.

    python ordered.py HOSTS PATH SEED

Prints a line when each task has had its locks once, and ends when its input does.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import AsyncExitStack

from zklock import aio

TASKS = 40
LOCKS = 500
#: So many locks of a round are among the first, for which many wait.
CROWDED = 12


async def work(client: aio.Client, path: str, chance: random.Random, had: asyncio.Event) -> None:
    """Take some locks in order, hold them for a moment, and begin again."""
    while True:
        numbers = {chance.randrange(CROWDED), chance.randrange(CROWDED), chance.randrange(LOCKS)}
        async with AsyncExitStack() as held:
            for number in sorted(numbers):
                await held.enter_async_context(aio.Mutex(client, f"{path}/{number:03}"))
                await asyncio.sleep(chance.random() / 100)
        had.set()


async def main(hosts: str, path: str, seed: str) -> None:
    """Work until the input ends."""
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
