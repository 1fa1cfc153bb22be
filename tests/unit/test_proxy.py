"""Tests of the proxy: the scenarios rely on this behavior."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from harness.embedded import NewServer
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import NotServing, Standalone
from harness.steps import eventually


@pytest.fixture
def proxy(server: Standalone) -> Iterator[Proxy]:
    with Proxy(server.hosts) as made:
        yield made


def test_requests_and_flights_are_counted(proxy: Proxy) -> None:
    proxy.delay = 0.05
    with Observer(proxy.hosts) as through:
        proxy.reset()
        # Hold back the replies until all three requests are sent. Otherwise a slow client could send them one
        # by one.
        proxy.black_hole("down")
        together = [through.client.exists_async("/") for _ in range(3)]
        eventually(lambda: proxy.snapshot().requests["exists"] == 3, "all three requests were sent")
        proxy.heal()
        for one in together:
            one.get(timeout=5)
        through.exists("/")
        counts = proxy.snapshot()
    assert counts.requests == {"exists": 4}
    # The three requests that were sent together count as one round trip. The later request is a second one.
    assert [len(flight.requests) for flight in counts.flights] == [3, 1]


def test_the_delay_is_kept_each_way(proxy: Proxy) -> None:
    proxy.delay = 0.05
    with Observer(proxy.hosts) as through:
        took = []
        for _ in range(10):
            started = time.monotonic()
            through.exists("/")
            took.append(time.monotonic() - started)
        # A busy machine can delay some of the ten requests, but not all of them: check only the fastest one.
        assert 0.1 <= min(took) < 0.2


def test_a_dropped_reply_has_reached_the_server(proxy: Proxy, observer: Observer, path: str) -> None:
    observer.create(path)
    with Observer(proxy.hosts) as through:
        drop = proxy.drop_reply("create2")
        with pytest.raises(ConnectionLoss):
            through.client.create(path + "/x", include_data=True)
        drop.wait()
        assert observer.exists(path + "/x")


def test_a_cut_client_reconnects(proxy: Proxy) -> None:
    with Observer(proxy.hosts) as through:
        session = through.client.client_id
        lost = threading.Event()
        back = threading.Event()
        through.client.add_listener(lambda state: (back if lost.is_set() else lost).set())
        proxy.cut()
        assert back.wait(10)
        assert through.client.client_id == session


def test_a_reply_before_a_close_is_forwarded() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Proxy("{}:{}".format(*listener.getsockname()), opaque=True) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client,
    ):
        server, _ = listener.accept()
        client.sendall(b"first")
        assert server.recv(1) == b"f"
        # The client sends more data while the proxy is busy. The server replies and closes the connection
        # without reading these data. The proxy then receives the reply, and its write to the server fails. It
        # can handle these two events in either order, but the client must receive the reply.
        busy, go_on = threading.Event(), threading.Event()
        proxy.loop.call_soon_threadsafe(busy.set)
        proxy.loop.call_soon_threadsafe(go_on.wait, 10)
        assert busy.wait(10)
        client.sendall(b"more")
        server.sendall(b"refused")
        server.close()
        go_on.set()
        assert client.recv(100) == b"refused"
        # Then the connection is closed in an orderly way.
        assert client.recv(100) == b""


def test_connections_that_are_closed_immediately_are_counted(proxy: Proxy) -> None:
    with Observer(proxy.hosts) as through:
        session = through.client.client_id
        proxy.reset()
        proxy.accept_and_close()
        eventually(lambda: len(proxy.snapshot().arrivals) >= 2, "the client tries again")
        assert not through.client.connected
        proxy.accept()
        eventually(lambda: through.client.connected, "the client comes back")
        assert through.client.client_id == session


def test_forgotten_sessions_are_replaced(proxy: Proxy) -> None:
    with Observer(proxy.hosts) as through:
        session = proxy.newest_session()
        assert session == through.client.client_id[0]
        proxy.forget_sessions()
        proxy.cut()
        eventually(lambda: proxy.newest_session() != session, "the client has another session")


def test_a_black_hole_holds_everything_until_it_heals(proxy: Proxy) -> None:
    with Observer(proxy.hosts) as through:
        proxy.black_hole()
        asked = through.client.exists_async("/")
        assert not asked.wait(0.2)
        proxy.heal()
        assert asked.get(timeout=5) is not None


def test_requests_that_a_black_hole_held_come_late(proxy: Proxy, observer: Observer, path: str) -> None:
    observer.create(path)
    # The client closes a silent connection after about two thirds of its timeout. Its session must not expire
    # earlier.
    through = KazooClient(hosts=proxy.hosts, timeout=3.0)
    through.start()
    proxy.black_hole()
    through.create_async(path + "/x")
    eventually(lambda: proxy.snapshot().requests["create"] == 1, "the request is on its way")
    # The client hangs up.
    through.stop()
    assert not observer.exists(path + "/x")
    proxy.heal()
    eventually(lambda: not proxy.connections, "the server has read everything")
    eventually(lambda: observer.exists(path + "/x"), "the request was carried out")


def test_a_black_hole_behind_a_reply(proxy: Proxy, observer: Observer, path: str) -> None:
    observer.create(path)
    with Observer(proxy.hosts) as through:
        trap = proxy.black_hole_behind("create")
        created = through.client.create_async(path + "/x")
        asked = through.client.exists_async("/")
        assert created.get(timeout=5)
        trap.wait()
        assert not asked.wait(0.2)
        proxy.heal()
        assert asked.get(timeout=5) is not None


@pytest.mark.parametrize("what", ["request", "reply"])
def test_a_request_or_its_reply_is_withheld(proxy: Proxy, observer: Observer, path: str, what: str) -> None:
    observer.create(path)
    with Observer(proxy.hosts) as through:
        withhold = proxy.withhold_request if what == "request" else proxy.withhold_reply
        trap = withhold("create", b"/second")
        assert through.client.create(path + "/first")
        created = through.client.create_async(path + "/second")
        trap.wait()
        assert not created.wait(0.2)
        assert observer.exists(path + "/second") == (what == "reply")
        assert sum(proxy.withheld.values()) > 0
        proxy.heal()
        assert created.get(timeout=5) == path + "/second"


def test_a_killed_session_is_gone(server: Standalone, proxy: Proxy, observer: Observer, path: str) -> None:
    with Observer(proxy.hosts) as victim:
        victim.client.create(path, ephemeral=True, makepath=True)
        session = observer.owner(path)
        observer.kill_session(session, proxy.passwords[session])
        assert not observer.exists(path)


def test_a_server_that_is_down_does_not_serve(new_server: NewServer) -> None:
    server = new_server()
    try:
        with pytest.raises(NotServing):
            server.mode()
    finally:
        server.close()
