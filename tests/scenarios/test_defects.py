"""Known defects of other libraries (peers) do not occur in zklock.

scenarios.md lists the issues. Tests in `unit` show the defects of the peers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.defects import (
    SHORTLY,
    assert_created_anew,
    cancelled_idle,
    lose_and_hand_over,
    owned,
    queue_for_two_permits_each,
    replace_session,
    revoked_before_the_watch,
)
from harness.embedded import NewServer
from harness.history import assert_clean
from harness.observer import Observer
from harness.permits import leases_of
from harness.proxy import Proxy
from harness.server import Settings, Standalone
from harness.steps import Start, await_loss, eventually, user


@pytest.fixture(scope="module")
def killable(new_server: NewServer) -> Iterator[Standalone]:
    """Provide a server that tests can kill."""
    with new_server(Settings(durable=True)) as standalone:
        yield standalone


@pytest.fixture
def killable_proxy(killable: Standalone) -> Iterator[Proxy]:
    """Provide a proxy in front of the killable server."""
    with Proxy(killable.hosts) as made:
        yield made


def test_s230_a_session_is_replaced(
    surface: str, killable: Standalone, killable_proxy: Proxy, path: str, start: Start
) -> None:
    replaced = replace_session(start, surface, killable, killable_proxy, path, 1.5)
    assert_created_anew(replaced, killable, killable_proxy)
    # The waiter has lost its place in the queue.
    replaced.behind.expect("acquired")
    with Observer(killable.hosts) as observer:
        queue = observer.wait_queue(f"{path}/awaited", 2)
        assert not replaced.waiting.done
        replaced.last.release()
        granted = replaced.waiting.expect("acquired")
        assert granted["node"].endswith(queue[1])
        assert observer.owner(granted["node"]) == killable_proxy.newest_session()
    replaced.worker.release()
    assert_clean(replaced.worker.holds() + replaced.last.holds(), at_least=3)


def test_s88_no_contender_keeps_half_of_its_permits(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    (first, second), (now, later) = queue_for_two_permits_each(start, surface, server, observer, path)
    now.expect("acquired")
    assert not later.done
    first.release()
    later.expect("acquired")
    second.release()
    assert_clean(first.holds() + second.holds(), at_least=4)
    observer.wait_queue(leases_of(path), 0)


@pytest.mark.parametrize("how", ["session", "node"])
def test_s232_a_hold_that_has_ended(
    surface: str,
    how: str,
    server: Standalone,
    proxy: Proxy,
    observer: Observer,
    path: str,
    start: Start,
) -> None:
    holder, other = lose_and_hand_over(start, surface, how, server.hosts, proxy, observer, path)
    await_loss(holder)
    assert owned(holder) is not True
    again = holder.acquire("again")
    observer.wait_queue(path, 2)
    assert not again.done
    other.release()
    again.expect("acquired")
    holder.release("again")
    observer.assert_free(path)


def test_s233_cancelled_with_nothing_to_cancel(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = cancelled_idle(start, surface, server.hosts, path)
    # Cancel while the owner holds the lock.
    asked = worker.acquire()
    held = asked.expect("acquired")
    worker.call("cancel", target=asked.id)
    assert worker.check().expect("value")["value"] == "held"
    assert [held["node"]] == [f"{path}/{node}" for node in observer.queue(path)]
    # Cancel again while another owner waits through the same object.
    waiting = worker.acquire("next", owner="b")
    observer.wait_queue(path, 2)
    worker.release()
    waiting.expect("acquired")
    again = worker.acquire()
    observer.wait_queue(path, 2)
    worker.call("cancel", target=waiting.id)
    assert worker.check("next").expect("value")["value"] == "held"
    assert not again.done
    worker.release("next", owner="b")
    again.expect("acquired")
    worker.release()
    observer.assert_free(path)


def test_s234_kazoo_732(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    # The session timeouts are long. Otherwise a session could expire when the machine stalls, and the server
    # would remove its node.
    holder = user(start, surface, server.hosts, path, session_timeout=60)
    leaver = user(start, surface, proxy.hosts, path, session_timeout=30)
    holder.hold()
    leaving = leaver.acquire(timeout=SHORTLY)
    nodes = observer.wait_queue(path, 2)
    proxy.black_hole()
    leaving.expect("timeout")
    eventually(lambda: proxy.snapshot().requests["delete"] > 0, "the delete is on its way")
    proxy.cut()
    proxy.heal()
    assert observer.wait_queue(path, 1) == nodes[:1], holder.check().line()
    assert proxy.newest_session() == leaver.sessions["c"]
    holder.release()
    observer.assert_free(path)


def test_s235_revoked_before_the_watch(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, proxy.hosts, path)
    revoked_before_the_watch(worker, "m", proxy, observer, path)
    worker.call("listen", lease="l")
    worker.wait_line("revoked", lease="l")
    worker.release()
    observer.assert_free(path)
