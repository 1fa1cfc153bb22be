"""Tests of sessions that move between servers, and of clients that are closed while they are busy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness.history import assert_clean
from harness.kinds import acquire_all, all_empty, make_locks, occupy, release_all
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Ensemble, Standalone
from harness.steps import Start, assert_within, await_loss, eventually, user
from harness.worker import Pending, Worker

ROUNDS = 3
SHORT = 2.0

# Closing a client takes up to two seconds, because it waits for the server's reply. The waiters of that
# client must get their error earlier.
CLOSE_LIMIT = 2.0
AT_ONCE = 1.0


class ServerProxies:
    """A proxy in front of each server of an ensemble. Closing a proxy moves its clients to another one."""

    def __init__(self, proxies: list[Proxy]) -> None:
        self.proxies = proxies

    @property
    def hosts(self) -> str:
        """Return the connect string of all proxies."""
        return ",".join(proxy.hosts for proxy in self.proxies)

    def of(self, session: int) -> Proxy:
        """Return the proxy that carries the session's connection."""
        (found,) = [proxy for proxy in self.proxies if proxy.carries(session)]
        return found

    def await_move(self, session: int, closed: Proxy) -> Proxy:
        """Wait until a session has moved away from the closed proxy, and return its new proxy."""
        others = [proxy for proxy in self.proxies if proxy is not closed]
        eventually(lambda: any(proxy.carries(session) for proxy in others), "the session moves", 20)
        (found,) = [proxy for proxy in others if proxy.carries(session)]
        return found


@pytest.fixture
def server_proxies(ensemble: Ensemble) -> Iterator[ServerProxies]:
    """Provide a proxy in front of each server of the shared ensemble."""
    with ExitStack() as stack:
        yield ServerProxies([stack.enter_context(Proxy(server.hosts)) for server in ensemble.servers])


def state(worker: Worker, lease: str = "l") -> str:
    """Return the current state of a lease."""
    return str(worker.call("state", lease=lease)["value"])


def test_s212_a_session_moves(
    surface: str, ensemble: Ensemble, server_proxies: ServerProxies, path: str, start: Start
) -> None:
    other = user(start, surface, ensemble.hosts, f"{path}/awaited")
    mover = user(start, surface, server_proxies.hosts, f"{path}/held")
    mover.lock(f"{path}/awaited", lock="awaited")
    session = mover.sessions["c"]
    with Observer(ensemble.hosts) as observer:
        held = mover.hold()
        other.hold()
        waiting = mover.acquire("w", lock="awaited", owner="b")
        observer.wait_queue(f"{path}/awaited", 2)
        behind = other.acquire("last", owner="b")
        queue = observer.wait_queue(f"{path}/awaited", 3)
        for _ in range(ROUNDS):
            closed = server_proxies.of(session)
            closed.refuse()
            server_proxies.await_move(session, closed)
            closed.accept()
            eventually(lambda: state(mover) == "held", "the lease is held on the new server")
        assert observer.queue(f"{path}/held") == [held["node"].rsplit("/", 1)[-1]]
        assert observer.queue(f"{path}/awaited") == queue
        assert not waiting.done
        other.release()
        granted = waiting.expect("acquired")
        assert granted["node"].endswith(queue[1])
        assert int(granted["session"]) == session
        assert not behind.done
        mover.release("w", owner="b")
        behind.expect("acquired")
        mover.release()
        other.release("last", owner="b")
        for name in ("held", "awaited"):
            observer.wait_queue(f"{path}/{name}", 0)
    assert_clean(mover.holds() + other.holds(), at_least=4)


def test_s213_late_requests_of_a_session_that_moved(
    surface: str, ensemble: Ensemble, server_proxies: ServerProxies, path: str, start: Start
) -> None:
    mover = user(start, surface, server_proxies.hosts, path, session_timeout=4)
    other = user(start, surface, ensemble.hosts, path)
    session = mover.sessions["c"]
    with Observer(ensemble.hosts) as observer:
        observer.create(path)
        old = server_proxies.of(session)
        old.reset()
        old.black_hole()
        # Do not let the client reconnect to the old server, because this would move the session back to that
        # server.
        old.refuse_new()
        asked = mover.acquire()
        eventually(lambda: old.snapshot().requests["create2"] > 0, "the create is on its way")
        # The server is silent, so the client closes the connection and finds another server.
        server_proxies.await_move(session, old)
        granted = asked.expect("acquired")
        # The observer's server might lag a little.
        assert [granted["node"]] == [f"{path}/{node}" for node in observer.wait_queue(path, 1)]
        assert int(granted["session"]) == session
        mover.release()
        observer.wait_queue(path, 0)
        # The create now arrives at a server that the session has left.
        old.heal()
        eventually(lambda: not old.connections, "the server has read the create and closed the connection")
        with Observer(old.upstream_hosts) as late:
            # The old server processes this `sync` after the late create. When the `sync` returns, the create
            # has succeeded or failed.
            late.client.sync(path)
            late.assert_free(path)
        other.hold()
        other.release()
    assert_clean(mover.holds() + other.holds(), at_least=2)


def test_s239_silently_another_session(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    for name in ("held", "awaited"):
        observer.create(f"{path}/{name}")
    worker = user(start, surface, proxy.hosts, f"{path}/held", session_timeout=4)
    worker.lock(f"{path}/awaited", lock="awaited")
    other = user(start, surface, server.hosts, f"{path}/held")
    other.lock(f"{path}/awaited", lock="awaited")
    worker.hold()
    other.hold("o", lock="awaited")
    next_holder = other.acquire("n", owner="b")
    waiting = worker.acquire("w", lock="awaited", owner="b")
    observer.wait_queue(f"{path}/held", 2)
    (_, place) = observer.wait_queue(f"{path}/awaited", 2)
    proxy.forget_sessions()
    proxy.cut()
    # The old session and its nodes stay until the session expires.
    await_loss(worker)
    assert not next_holder.done
    assert observer.exists(f"{path}/awaited/{place}")
    other.release("o")
    granted = waiting.expect("acquired")
    assert not granted["node"].endswith(place)
    assert observer.owner(granted["node"]) == proxy.newest_session()
    worker.release("w", owner="b")
    next_holder.expect("acquired")
    other.release("n", owner="b")
    for name in ("held", "awaited"):
        observer.wait_queue(f"{path}/{name}", 0)
    assert_clean(worker.holds() + other.holds(), at_least=4)


def client_with_waiters(start: Start, surface: str, hosts: str, path: str) -> tuple[Worker, list[Pending]]:
    """Return a client with two leases, and its waiters for locks of every kind.

    One of the waiters is on the main thread.
    """
    worker = start(surface)
    worker.connect(hosts, session_timeout=SHORT)
    make_locks(worker, path)
    for name in ("x", "y"):
        worker.lock(f"{path}/{name}", lock=name)
        worker.hold(name, lock=name, owner=name)
    return worker, [*acquire_all(worker), worker.acquire("main", lock="mutex", owner="main")]


def assert_client_closed(waiting: list[Pending], worker: Worker, asked: int) -> None:
    """Assert that waiters and holders learn immediately that the client is closed."""
    for pending in waiting:
        error = pending.error()
        assert error.code == "CLIENT_CLOSED"
        assert_within(error, asked, 0, AT_ONCE)
    for name in ("x", "y"):
        await_loss(worker, name)


def test_s214_close_while_many_wait(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder = start(surface)
    holder.connect(server.hosts)
    occupy(holder, path, observer)
    worker, waiting = client_with_waiters(start, surface, server.hosts, path)
    worker.connect(server.hosts, client="d")
    worker.lock(f"{path}/z", lock="z", client="d")
    observer.wait_queue(f"{path}/mutex", 3)
    # Two calls close the client at the same time, while waiters join and leave.
    late = worker.acquire("late", lock="mutex", owner="late")
    closing = [worker.send("close", client="c", owner=f"closer {number}") for number in range(2)]
    for pending in closing:
        pending.expect("closed")
    assert_client_closed([*waiting, late], worker, closing[0].sent)
    # The process's other client is unaffected.
    worker.hold("z", lock="z")
    worker.release("z")
    release_all(holder)
    for name in ("x", "y", "z"):
        observer.wait_queue(f"{path}/{name}", 0)
    all_empty(observer, path)
    worker.exit(timeout=5)


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_s215_close_during_an_outage(
    surface: str,
    how: str,
    server: Standalone,
    proxy: Proxy,
    observer: Observer,
    path: str,
    start: Start,
) -> None:
    holder = start(surface)
    holder.connect(server.hosts)
    occupy(holder, path, observer)
    worker, waiting = client_with_waiters(start, surface, proxy.hosts, path)
    observer.wait_queue(f"{path}/mutex", 3)
    (proxy.refuse if how == "refused" else proxy.black_hole)()
    closing = worker.send("close", client="c")
    assert_within(closing.expect("closed"), closing.sent, CLOSE_LIMIT)
    assert_client_closed(waiting, worker, closing.sent)
    release_all(holder)
    # The client could not close the session on the server, so the session must expire.
    for name in ("x", "y"):
        observer.wait_queue(f"{path}/{name}", 0)
    all_empty(observer, path)
    worker.exit(timeout=5)
