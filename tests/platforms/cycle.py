"""The life of a lock in a Python program: `cycle.py HOSTS PATH`. The test runs it with another platform's Python.

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
    lock = zklock.Mutex(server.hosts, path)
    lock.acquire(timeout=30)
    lease = lock.lease
    assert server.expire(lease)
    assert lease.wait_lost(timeout=30)
    print("lost:", lease.loss_reason)
    lock.client.close()


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
lock = zklock.Mutex(hosts, path)
with lock as first:
    assert first.is_valid()
with lock as second, lock as inner:
    assert inner.fencing_token == second.fencing_token > first.fencing_token
lock.client.close()
asyncio.run(concurrently())
last = zklock.Mutex(hosts, path)
last.acquire(timeout=30)
print("holding", last.lease.node_path, flush=True)
