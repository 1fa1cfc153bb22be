"""Tests of servers that restart, are killed, stop replying or lose a reply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.embedded import NewServer
from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Ensemble, NotServing, Settings, Standalone
from harness.steps import Start, assert_within, line_up, user


@pytest.fixture(scope="module")
def killable(new_server: NewServer) -> Iterator[Standalone]:
    """Provide a server that tests can kill."""
    with new_server(Settings(durable=True)) as standalone:
        yield standalone


def test_s17_server_restart(surface: str, killable: Standalone, path: str, start: Start) -> None:
    holder, waiter = (user(start, surface, killable.hosts, path) for _ in range(2))
    holder.hold()
    with Observer(killable.hosts) as observer:
        (waiting,) = line_up(observer, path, [waiter])
        nodes = observer.queue(path)
    killable.restart()
    with Observer(killable.hosts) as observer:
        assert observer.queue(path) == nodes
        assert not waiting.done
        holder.release()
        assert waiting.expect("acquired")["node"].endswith(nodes[1])
        waiter.release()
        observer.assert_free(path)
    assert_clean(holder.holds() + waiter.holds(), at_least=2)


@pytest.fixture
def whole_ensemble(ensemble: Ensemble) -> Iterator[Ensemble]:
    """Provide the ensemble, and restore it to full strength afterwards."""
    yield ensemble
    for server in ensemble.servers:
        try:
            server.mode()
        except NotServing:
            server.restart()


def test_s18_leader_kill(surface: str, whole_ensemble: Ensemble, path: str, start: Start) -> None:
    holder, waiter = (user(start, surface, whole_ensemble.hosts, path, session_timeout=30) for _ in range(2))
    held = holder.hold()
    with Observer(whole_ensemble.hosts) as observer:
        (waiting,) = line_up(observer, path, [waiter])
        nodes = observer.queue(path)
    whole_ensemble.leader().kill()
    whole_ensemble.leader()
    # Each client sends a request. The reply shows that the client is connected again.
    for worker in (holder, waiter):
        worker.lock(f"{path}-{worker.pid}", lock="aside")
        worker.hold("aside", lock="aside", owner="aside")
        worker.release("aside", owner="aside")
    with Observer(whole_ensemble.hosts) as observer:
        assert observer.queue(path) == nodes
        assert observer.owner(held["node"]) == int(held["session"])
    assert holder.check().expect("value")["value"] == "held"
    assert not holder.lost
    assert not waiting.done
    holder.release()
    assert waiting.expect("acquired")["node"].endswith(nodes[1])
    waiter.release()
    with Observer(whole_ensemble.hosts) as observer:
        observer.assert_free(path)
    assert_clean(holder.holds() + waiter.holds(), at_least=2)


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_s19_unreachable_at_connect(surface: str, how: str, proxy: Proxy, start: Start) -> None:
    worker = start(surface)
    (proxy.refuse if how == "refused" else proxy.black_hole)()
    worker.wait_line("ready")
    asked = worker.send("connect", client="c", hosts=proxy.hosts, connect_timeout=1.0)
    error = asked.error()
    assert error.code == "CONNECTION_FAILED"
    assert_within(error, asked.sent, 1.0)


@pytest.mark.parametrize("lock", ["free", "taken"])
def test_s36_lost_reply_to_the_create(
    surface: str,
    lock: str,
    server: Standalone,
    proxy: Proxy,
    observer: Observer,
    path: str,
    start: Start,
) -> None:
    observer.create(path)
    holder = user(start, surface, server.hosts, path)
    worker = user(start, surface, proxy.hosts, path)
    taken = int(lock == "taken")
    if taken:
        holder.hold()
    drop = proxy.drop_reply("create2")
    asked = worker.acquire()
    drop.wait()
    observer.wait_queue(path, 1 + taken)
    if taken:
        assert not asked.done
        holder.release()
    line = asked.expect("acquired")
    (node,) = observer.queue(path)
    assert line["node"].endswith(node)
    assert int(line["token"]) == observer.czxid(f"{path}/{node}")
    worker.release()
    observer.assert_free(path)
    assert_clean(holder.holds() + worker.holds())


def test_s37_lost_reply_to_the_delete(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, proxy.hosts, path)
    worker.hold()
    drop = proxy.drop_reply("delete")
    worker.release()
    drop.wait()
    observer.assert_free(path)
    worker.hold("again")
    worker.release("again")
    assert_clean(worker.holds(), at_least=2)
    observer.assert_free(path)


@pytest.mark.parametrize("released", ["during", "after"])
def test_s38_a_cut_while_waiting(
    surface: str,
    released: str,
    server: Standalone,
    proxy: Proxy,
    observer: Observer,
    path: str,
    start: Start,
) -> None:
    holder = user(start, surface, server.hosts, path)
    worker = user(start, surface, proxy.hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [worker])
    nodes = observer.queue(path)
    if released == "during":
        proxy.refuse()
        holder.release()
        assert not waiting.done
        proxy.accept()
    else:
        proxy.cut()
        assert observer.queue(path) == nodes
        holder.release()
    assert waiting.expect("acquired")["node"].endswith(nodes[1])
    worker.release()
    assert_clean(holder.holds() + worker.holds(), at_least=2)
    observer.assert_free(path)


def test_s53_a_release_that_cannot_be_sent(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    # The session timeout is long, because the end of the session would also free the lock.
    worker = user(start, surface, proxy.hosts, path, session_timeout=30)
    worker.hold()
    proxy.refuse()
    releasing = worker.send("release", lease="l", owner="a", wait=False)
    assert releasing.expect("released")
    assert len(observer.queue(path)) == 1
    proxy.accept()
    observer.wait_queue(path, 0)


def test_s84_a_new_path_during_an_outage(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, f"{path}-old")
    worker.hold()
    worker.release()
    worker.lock(path)
    proxy.refuse()
    # By the end of this timeout, the client has noticed that its connection is closed.
    worker.acquire(timeout=0.3).expect("timeout")
    waiting = worker.acquire("new")
    proxy.accept()
    waiting.expect("acquired")
    worker.release("new")
    observer.assert_free(path)
