"""Tests of a server without a quorum that serves its data to read-only clients."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import STARTUP, Ensemble, NotServing, Server, Settings, Standalone
from harness.steps import Start, assert_within, eventually, user, watch_losses

SESSION_TIMEOUT = 2.0
CONNECT_TIMEOUT = 1.0
DIAGNOSIS = 3.0
"""Connect timeout in seconds. It is long enough for the client to find out why a server refuses it."""


@pytest.fixture(scope="module")
def read_only() -> Iterator[Server]:
    """Provide one of three servers in read-only mode. The others are down."""
    three = Ensemble(settings=Settings(jvm=("-Dreadonlymode.enabled=true",)))
    alone = three.servers[0]

    def serves() -> bool:
        try:
            return alone.mode() == "read-only"
        except NotServing:
            return False

    try:
        alone.launch()
        eventually(serves, "a server without a quorum serves read-only", STARTUP)
        yield alone
    finally:
        three.close()


@pytest.fixture(scope="module")
def alone() -> Iterator[Server]:
    """Provide one of three servers without read-only mode. The others are down, so it serves no client."""
    three = Ensemble()
    server = three.servers[0]

    def listens() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=1):
            return True
        return False

    try:
        server.launch()
        eventually(listens, "a server without a quorum accepts connections", STARTUP)
        yield server
    finally:
        three.close()


@pytest.fixture
def read_only_proxy(read_only: Server) -> Iterator[Proxy]:
    """Provide a proxy in front of the read-only server."""
    with Proxy(read_only.hosts) as made:
        yield made


def test_s236_a_read_only_server(
    surface: str,
    server: Standalone,
    proxy: Proxy,
    read_only_proxy: Proxy,
    observer: Observer,
    path: str,
    start: Start,
) -> None:
    for lock in ("held", "awaited", "free", "other"):
        observer.create(f"{path}/{lock}")
    worker = start(surface)
    worker.connect(
        f"{proxy.hosts},{read_only_proxy.hosts}",
        session_timeout=SESSION_TIMEOUT,
        connect_timeout=CONNECT_TIMEOUT,
    )
    for lock in ("held", "awaited", "free", "other"):
        worker.lock(f"{path}/{lock}", lock=lock)
    peer = user(start, surface, server.hosts, f"{path}/awaited")
    peer.hold()
    worker.hold(lock="held")
    waiting = worker.acquire("w", lock="awaited", owner="b")
    observer.wait_queue(f"{path}/awaited", 2)
    read_only_proxy.reset()
    # The client can now reach only the read-only server, which does not have the nodes of these locks.
    proxy.refuse()
    watch_losses(worker, ["l"])
    tried = worker.send("try", lock="free", lease="t", owner="c")
    # Do not acquire the tried lock. If this acquire were faster, the try would report that the lock is busy.
    asked = worker.acquire("a", lock="other", owner="d", timeout=CONNECT_TIMEOUT)
    assert tried.error().code == "CONNECTION_FAILED"
    asked.expect("timeout")
    peer.release()
    assert not waiting.done
    assert read_only_proxy.snapshot().arrivals, "the client connected to the read-only server"
    connecting = worker.send(
        "connect", client="alone", hosts=read_only_proxy.hosts, connect_timeout=CONNECT_TIMEOUT
    )
    refused = connecting.error()
    assert refused.code == "CONNECTION_FAILED"
    assert_within(refused, connecting.sent, CONNECT_TIMEOUT)
    assert not waiting.done
    proxy.accept()
    waiting.expect("acquired")
    worker.release("w", owner="b")
    for lock in ("held", "awaited", "free", "other"):
        observer.wait_queue(f"{path}/{lock}", 0)
    assert_clean(worker.holds() + peer.holds(), at_least=3)


def test_s304_a_read_only_server_is_named_in_the_error(surface: str, read_only: Server, start: Start) -> None:
    asked = start(surface).send("connect", client="c", hosts=read_only.hosts, connect_timeout=DIAGNOSIS)
    error = asked.error()
    assert error.servers == [[read_only.hosts, "read-only"]]
    assert f"{read_only.hosts} is read-only: it has lost its quorum" in error.message


def test_s304_a_server_without_a_quorum_is_named_in_the_error(
    surface: str, alone: Server, start: Start
) -> None:
    asked = start(surface).send("connect", client="c", hosts=alone.hosts, connect_timeout=DIAGNOSIS)
    error = asked.error()
    assert error.servers == [[alone.hosts, "not serving"]]
    assert f"{alone.hosts} serves no requests: it has no quorum" in error.message
