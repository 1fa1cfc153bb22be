"""Tests of holders and waiters whose session ends or whose node is deleted."""

from __future__ import annotations

from harness.history import assert_clean
from harness.observer import Observer, sequence, watched_by
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, await_loss, eventually, line_up, user


def test_s32_session_lost_while_holding(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, proxy.hosts, path)
    other = user(start, surface, server.hosts, path)
    first = holder.hold()
    (waiting,) = line_up(observer, path, [other])
    session = int(first["session"])
    holder.presume_lost()
    observer.kill_session(session, proxy.passwords[session])
    waiting.expect("acquired")
    await_loss(holder)
    # The same owner acquires again while it still has the lost lease. This must not count as a re-entry.
    again = holder.acquire("again")
    observer.wait_queue(path, 2)
    assert not again.done
    # The command has no owner, because the worker's thread for owner `a` is waiting.
    holder.send("release", lease="l").expect("released")
    assert len(observer.queue(path)) == 2
    other.release()
    line = again.expect("acquired")
    assert line["node"] != first["node"]
    assert int(line["session"]) != session
    holder.release("again")
    assert_clean(holder.holds() + other.holds(), at_least=3)
    observer.assert_free(path)


def test_s33_the_holders_node_is_deleted(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, other = (user(start, surface, server.hosts, path) for _ in range(2))
    holder.hold()
    (node,) = observer.queue(path)
    (waiting,) = line_up(observer, path, [other])
    eventually(
        lambda: f"{path}/{node}" in watched_by(server, holder.sessions["c"], path),
        "a long-held lease watches its own node",
    )
    holder.presume_lost()
    observer.delete(f"{path}/{node}")
    waiting.expect("acquired")
    await_loss(holder)
    other.release()
    holder.hold("again")
    holder.release("again")
    assert_clean(holder.holds() + other.holds(), at_least=3)
    observer.assert_free(path)


def test_s34_a_waiters_node_is_deleted(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder, waiter = (user(start, surface, server.hosts, path) for _ in range(2))
    holder.hold()
    (waiting,) = line_up(observer, path, [waiter])
    old = observer.queue(path)[1]
    observer.delete(f"{path}/{old}")
    queue = observer.wait(path, lambda nodes: len(nodes) == 2 and old not in nodes, "new node")
    assert not waiting.done
    holder.release()
    assert waiting.expect("acquired")["node"].endswith(queue[1])
    waiter.release()
    assert_clean(holder.holds() + waiter.holds(), at_least=2)
    observer.assert_free(path)


def test_s35_session_lost_while_waiting(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder, last = (user(start, surface, server.hosts, path) for _ in range(2))
    unlucky = user(start, surface, proxy.hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [unlucky])
    (behind,) = line_up(observer, path, [last])
    old = observer.queue(path)[1]
    session = unlucky.sessions["c"]
    observer.kill_session(session, proxy.passwords[session])
    queue = observer.wait(path, lambda nodes: len(nodes) == 3 and old not in nodes, "new node")
    assert sequence(queue[2]) > sequence(old)
    assert not waiting.done
    holder.release()
    behind.expect("acquired")
    assert not waiting.done
    last.release()
    line = waiting.expect("acquired")
    assert line["node"].endswith(queue[2])
    assert int(line["session"]) != session
    assert observer.owner(f"{path}/{queue[2]}") == int(line["session"])
    unlucky.release()
    all_workers = (holder, last, unlucky)
    assert_clean([hold for worker in all_workers for hold in worker.holds()], at_least=3)
    observer.assert_free(path)


def test_s82_session_lost_with_holder_and_waiter(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path)
    worker.hold(owner="a")
    waiting = worker.acquire("next", owner="b")
    old = observer.wait_queue(path, 2)
    session = worker.sessions["c"]
    worker.presume_lost()
    observer.kill_session(session, proxy.passwords[session])
    # When the session ended, the server removed the holder's node too. The waiter gets the lock without a
    # release.
    line = waiting.expect("acquired")
    await_loss(worker)
    (node,) = observer.queue(path)
    assert node not in old
    assert line["node"].endswith(node)
    assert int(line["session"]) != session
    worker.release("next", owner="b")
    assert_clean(worker.holds(), at_least=2)
    observer.assert_free(path)
