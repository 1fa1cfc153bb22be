"""Callbacks for the state of a client."""

from __future__ import annotations

import asyncio
import functools
import gc
import queue
import threading
import weakref

import pytest

import zklock
from zklock import aio


def test_closed_is_reported_on_the_callback_thread(client: zklock.Client) -> None:
    received: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    client.on_state(lambda state: received.put((state, threading.current_thread().name)))
    client.close()
    state, thread = received.get(timeout=10)
    assert (state, thread) == ("closed", "zklock-callback")


class Listener:
    """A listener whose calls return coroutines."""

    async def __call__(self, state: str) -> None: ...


def test_an_async_listener_is_refused(client: zklock.Client, path: str) -> None:
    async def listener(what: object) -> None: ...

    with zklock.Mutex(client, path) as lease:
        for register in (client.on_state, lease.on_lost, lease.on_revoke):
            for refused in (listener, functools.partial(listener), Listener(), Listener().__call__):
                with pytest.raises(TypeError, match=r"async .* zklock\.aio"):
                    register(refused)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="callable"):
                register(5)  # type: ignore[arg-type]


def test_a_cancelled_listener_is_not_called(client: zklock.Client) -> None:
    heard: list[str] = []
    received = threading.Event()
    notice = client.on_state(heard.append)
    client.on_state(lambda _: received.set())
    notice.cancel()
    client.close()
    assert received.wait(10)
    assert heard == []


def test_a_closed_client_reports_no_state(client: zklock.Client) -> None:
    client.close()
    heard: list[str] = []
    client.on_state(heard.append)
    assert client.state == "closed"
    assert heard == []


def test_a_listener_does_not_keep_the_client(hosts: str) -> None:
    client = zklock.Client(hosts)
    received = threading.Event()
    client.on_state(lambda _: received.set())
    gone = weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None
    # Without handles the client closes, and reports that.
    assert received.wait(10)


def test_an_exception_of_a_listener_is_unraisable(
    client: zklock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: queue.SimpleQueue[object] = queue.SimpleQueue()
    monkeypatch.setattr("sys.unraisablehook", lambda args: raised.put(args.exc_value))
    mistake = RuntimeError("of a listener")

    def listener(state: str) -> None:
        raise mistake

    client.on_state(listener)
    client.close()
    assert raised.get(timeout=10) is mistake


def test_asyncio_listeners_are_called_on_their_loop(hosts: str) -> None:
    async def main() -> tuple[list[str], bool]:
        heard: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
        client = aio.Client(hosts)
        client.on_state(lambda state: heard.put_nowait((state, threading.get_ident())))
        await client.connect()
        await client.close()
        states, threads = [], set()
        while "closed" not in states:
            state, thread = await asyncio.wait_for(heard.get(), 10)
            states.append(state)
            threads.add(thread)
        return states, threads == {threading.get_ident()}

    assert asyncio.run(main()) == (["connecting", "connected", "closed"], True)
