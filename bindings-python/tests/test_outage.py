"""Clients that connect while their server is unreachable."""

from __future__ import annotations

import asyncio

import pytest
from harness.proxy import Proxy

import zklock
from zklock import aio


async def until(client: aio.Client, states: set[str]) -> None:
    """Wait until the client is in one of these states."""
    while client.state not in states:
        await asyncio.sleep(0.01)


def test_connect_is_answered_during_an_outage_and_after_it(hosts: str) -> None:
    async def main(proxy: Proxy) -> None:
        # Long enough for the first connection.
        async with asyncio.timeout(30), aio.Client(proxy.hosts, connect_timeout=2) as client:
            proxy.refuse()
            await until(client, {"suspended", "connecting"})
            with pytest.raises(zklock.ConnectionFailed):
                await client.connect()
            proxy.accept()
            await until(client, {"connected"})
            await client.connect()

    with Proxy(hosts) as proxy:
        asyncio.run(main(proxy))


def test_a_cancelled_connect_does_not_fail_the_next_one(hosts: str) -> None:
    async def main(proxy: Proxy) -> None:
        async with asyncio.timeout(30):
            client = aio.Client(proxy.hosts, connect_timeout=4.0)
            proxy.refuse()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.connect(), 3.5)
            connecting = asyncio.create_task(client.connect())
            # Wait longer than the connect timeout of the first call, and shorter than the connect timeout of
            # the second, so that the client can still retry for the second call.
            await asyncio.wait({connecting}, timeout=1.0)
            proxy.accept()
            await connecting
            await client.close()

    with Proxy(hosts) as proxy:
        asyncio.run(main(proxy))
