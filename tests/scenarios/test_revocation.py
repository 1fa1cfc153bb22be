"""Tests of revocation (a client asks a holder to give up its lock), and of locks that an operator breaks."""

from __future__ import annotations

import pytest

from harness.history import assert_clean
from harness.observer import Observer, watched_by
from harness.proxy import Proxy
from harness.readwrite import readwriter
from harness.server import Standalone
from harness.steps import Start, await_loss, eventually, line_up, user
from harness.worker import Worker

REVOKE = b"__REVOKE__"


def operator(start: Start, surface: str, hosts: str) -> Worker:
    """Return a client without a lock."""
    worker = start(surface)
    worker.connect(hosts)
    return worker


def test_s140_a_revocation_request_is_delivered(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, other = (user(start, surface, server.hosts, path) for _ in range(2))
    node = holder.hold()["node"]
    holder.call("listen", lease="l")
    (waiting,) = line_up(observer, path, [other])
    other.call("revoke", client="c", node=node)
    holder.wait_line("revoked", lease="l")
    # The request alone does not end the hold.
    assert holder.check().expect("value")["value"] == "held"
    assert not waiting.done
    holder.release()
    waiting.expect("acquired")
    other.release()
    # The request did not concern the next lease.
    holder.hold("next")
    holder.call("listen", lease="next")
    holder.release("next")
    assert [line["lease"] for line in holder.history if line["event"] == "revoked"] == ["l"]
    assert_clean(holder.holds() + other.holds(), at_least=3)


def test_s141_a_request_before_a_listener_exists(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, waiter = (user(start, surface, server.hosts, path) for _ in range(2))
    holder.hold()
    (waiting,) = line_up(observer, path, [waiter])
    # Ask both contenders to give up the lock before they listen for requests. The holder does not watch its
    # node yet.
    first, second = observer.queue(path)
    observer.client.set(f"{path}/{first}", REVOKE)
    observer.client.set(f"{path}/{second}", REVOKE)
    holder.call("listen", lease="l")
    holder.wait_line("revoked", lease="l")
    holder.release()
    waiting.expect("acquired")
    waiter.call("listen", lease="l")
    waiter.wait_line("revoked", lease="l")
    waiter.release()
    observer.assert_free(path)


def test_s142_every_lease_is_notified(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, server.hosts, path)
    # Curator would miss the second request, because it watches only the node of the first acquire.
    for lease in ("first", "second"):
        node = holder.hold(lease)["node"]
        holder.call("listen", lease=lease)
        holder.call("revoke", client="c", node=node)
        holder.wait_line("revoked", lease=lease)
        holder.release(lease)
    # The listeners of all nested leases are called, even if a lease starts to listen only after the request.
    node = holder.hold("outer")["node"]
    holder.hold("inner")
    holder.call("listen", lease="inner")
    holder.call("revoke", client="c", node=node)
    holder.wait_line("revoked", lease="inner")
    holder.call("listen", lease="outer")
    holder.wait_line("revoked", lease="outer")
    holder.release("inner")
    holder.release("outer")
    observer.assert_free(path)


def test_s143_a_request_during_an_outage_is_delivered(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, proxy.hosts, path)
    node = holder.hold()["node"]
    holder.call("listen", lease="l")
    proxy.refuse()
    observer.client.set(node, REVOKE)
    proxy.accept()
    holder.wait_line("revoked", lease="l")
    holder.release()
    observer.assert_free(path)


def test_s144_one_reader_among_several(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    # Four readers belong to one client, and the fifth belongs to a second client.
    several, single = (readwriter(start, surface, server.hosts, path) for _ in range(2))
    nodes = {owner: several.hold(owner, lock="r", owner=owner)["node"] for owner in ("a", "b", "c", "d")}
    single.hold(lock="r")
    for owner in nodes:
        several.call("listen", lease=owner)
    single.call("listen", lease="l")
    # Ask readers in the middle, not the first or the last one.
    for asked in ("c", "b"):
        single.call("revoke", client="c", node=nodes[asked])
        several.wait_line("revoked", lease=asked)
    for owner in nodes:
        several.release(owner, owner=owner)
    single.release()
    assert [line["lease"] for line in several.lines() if line["event"] == "revoked"] == ["c", "b"]
    assert not any(line["event"] == "revoked" for line in single.lines())
    observer.assert_free(path)


def test_s145_a_lock_is_broken(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, other = (user(start, surface, server.hosts, path) for _ in range(2))
    node = holder.hold()["node"]
    (waiting,) = line_up(observer, path, [other])
    holder.presume_lost()
    operator(start, surface, server.hosts).call("break", client="c", node=node)
    waiting.expect("acquired")
    holder.wait_line("lost", lease="l", reason="node deleted")
    await_loss(holder)
    other.release()
    assert_clean(holder.holds() + other.holds(), at_least=2)
    observer.assert_free(path)


def test_s292_broken_unnoticed(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder, other = user(start, surface, proxy.hosts, path), user(start, surface, server.hosts, path)
    node = holder.hold()["node"]
    (waiting,) = line_up(observer, path, [other])
    holder.presume_lost()
    proxy.black_hole()
    operator(start, surface, server.hosts).call("break", client="c", node=node)
    waiting.expect("acquired")
    # Two clients now consider the lock held. The lease's term cannot prevent this, because the disconnected
    # holder cannot know that its lock was broken.
    assert holder.check().expect("value")["value"] == "held"
    proxy.heal()
    await_loss(holder, timeout=20)
    other.release()
    assert_clean(holder.holds() + other.holds(), at_least=2)


@pytest.mark.parametrize("verb", ["revoke", "break"])
def test_s146_no_contender_to_ask(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start, verb: str
) -> None:
    worker = operator(start, surface, server.hosts)
    missing = f"{path}/_c_0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f-lock-0000000000"
    assert worker.send(verb, client="c", node=missing).error().code == "NOT_HELD"
    # A node that does not belong to a contender is left alone.
    observer.create(path)
    for node in (path, "/0000000000", "0000000000", ""):
        error = worker.send(verb, client="c", node=node).error()
        assert error.code == "BAD_ARGUMENT"
        assert "node" in str(error)
    assert observer.exists(path)


def test_s147_curator_asks_us(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, server.hosts, path)
    curator = user(start, "curator", server.hosts, path)
    node = holder.hold()["node"]
    holder.call("listen", lease="l")
    (waiting,) = line_up(observer, path, [curator])
    curator.call("revoke", client="c", node=node)
    holder.wait_line("revoked", lease="l")
    holder.release()
    waiting.expect("acquired")
    curator.release()
    assert_clean(holder.holds() + curator.holds(), at_least=2)


def test_s148_we_ask_curator(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    curator = start("curator")
    curator.connect(server.hosts)
    curator.lock(path, revocable=True)
    other = user(start, surface, server.hosts, path)
    node = curator.hold()["node"]
    (waiting,) = line_up(observer, path, [other])
    # Curator misses a request that is made before its watch is set.
    eventually(
        lambda: f"{path}/{node}" in watched_by(server, curator.sessions["c"], path),
        "Curator watches its node",
    )
    other.call("revoke", client="c", node=f"{path}/{node}")
    curator.wait_line("revoked", lock="m")
    curator.release()
    waiting.expect("acquired")
    other.release()
    assert_clean(curator.holds() + other.holds(), at_least=2)
