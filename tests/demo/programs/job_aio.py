"""Example job for `zklock demo`, in Python with asyncio: `job_aio.py PATH ROUNDS`."""

from __future__ import annotations

import asyncio
import random
import sys

from zklock import aio


async def main(path: str, rounds: int) -> None:
    """Run the job this many times."""
    async with aio.Client(session_timeout=2) as client:
        lock = aio.Mutex(client, path)
        for _ in range(rounds):
            async with lock:
                await asyncio.sleep(random.uniform(0.25, 0.5))  # the work


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
