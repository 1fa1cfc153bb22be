"""The life of a lock in a Python program: `cycle.py HOSTS PATH`. The test runs it with an emulated Python.

The program ends while it holds the lock at PATH, so that the test can check that the lock is free then.
"""

import asyncio
import sys

import zklock
import zklock.aio
from zklock.testing import Server

hosts, path = sys.argv[1:]


def loses(server: Server) -> None:
    """Lose a lease with its session."""
    with zklock.Client(server.hosts) as client:
        lease = zklock.Mutex(client, path).__enter__()
        assert server.expire(lease)
        assert lease.wait_lost(timeout=30)
        print("lost:", lease.loss_reason)


async def concurrently() -> None:
    """Let two tasks contend for the lock."""
    async with zklock.aio.Client(hosts) as client:
        order = []

        async def one(name: str) -> None:
            async with zklock.aio.Mutex(client, path) as lease:
                order.append(lease.fencing_token)

        await asyncio.gather(one("a"), one("b"))
        assert order == sorted(order)
        assert len(order) == 2


with Server() as started:
    loses(started)
with zklock.Client(hosts) as client:
    lock = zklock.Mutex(client, path)
    with lock as first:
        assert first.state == "held"
    with lock as second, lock as inner:
        assert inner.fencing_token == second.fencing_token > first.fencing_token
asyncio.run(concurrently())
last = zklock.Mutex(hosts, path).__enter__()
print("holding", last.node, flush=True)
