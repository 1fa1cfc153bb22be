"""The client sends the recorded requests, with the same names and data and in the same order.

The recordings are in scenarios/golden. A changed recording means a changed protocol. The changelog must
mention it, and contenders of the last release, of Curator and of kazoo must still work.
"""

from __future__ import annotations

from functools import partial

from harness.golden import conversation
from harness.observer import Observer, watched_by
from harness.permits import counting, leases_of
from harness.proxy import Proxy
from harness.readwrite import readwriter
from harness.server import Standalone
from harness.steps import Start, eventually, user

SESSION = 30


def test_s480_a_mutex_on_the_wire(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    with conversation("mutex", proxy, path) as talk:
        with talk.step("A connects"):
            first = user(start, surface, proxy.hosts, path, session_timeout=SESSION)
        with talk.step("A acquires without a lock directory"):
            first.hold("1")
        with talk.step("A re-enters and releases without a request"):
            first.hold("2")
            first.release("2")
        with talk.step("A releases"):
            first.release("1")
        with talk.step("A acquires a free lock"):
            first.hold("3")
        with talk.step("B connects"):
            second = user(start, surface, proxy.hosts, path, session_timeout=SESSION)
        with talk.step("B tries the taken lock"):
            assert second.try_acquire()["event"] == "busy"
        with talk.step("B waits behind A"):
            second_waits = second.acquire("1")
        with talk.step("C connects"):
            third = user(start, surface, proxy.hosts, path, session_timeout=SESSION)
        with talk.step("C waits behind A and B"):
            third_waits = third.acquire("1")
        with talk.step("A releases to B, and C watches only B"):
            first.release("3")
            second_waits.expect("acquired")
        with talk.step("B releases to C"):
            second.release("1")
            third_waits.expect("acquired")
        with talk.step("C releases, and closes its client"):
            third.release("1")
            third.call("close", client="c")
    observer.assert_free(path)


def test_s481_readers_and_writers_on_the_wire(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    with conversation("readwrite", proxy, path) as talk:
        with talk.step("A and B connect"):
            first = readwriter(start, surface, proxy.hosts, path, session_timeout=SESSION)
            second = readwriter(start, surface, proxy.hosts, path, session_timeout=SESSION)
        with talk.step("A reads"):
            first.hold("r", lock="r")
        with talk.step("B waits to write"):
            writing = second.acquire("w", lock="w")
        with talk.step("A releases the read lock, and B writes"):
            first.release("r")
            writing.expect("acquired")
        with talk.step("B downgrades"):
            second.hold("r", lock="r")
        with talk.step("B releases the write lock"):
            second.release("w")
        with talk.step("A reads together with B"):
            first.hold("r", lock="r")
        with talk.step("Both release their locks"):
            first.release("r")
            eventually(partial(lambda: len(observer.queue(path)) == 1), "only B reads")
            second.release("r")


def test_s482_a_semaphore_on_the_wire(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    for part in ("leases", "locks"):
        observer.create(f"{path}/{part}")
    with conversation("semaphore", proxy, path) as talk:
        with talk.step("A and B connect"):
            first = counting(start, surface, proxy.hosts, path, 2, session_timeout=SESSION)
            second = counting(start, surface, proxy.hosts, path, 2, session_timeout=SESSION)
        with talk.step("A acquires a permit"):
            first.hold("1", owner="a")
        with talk.step("A acquires the other permit"):
            first.hold("2", owner="b")
        with talk.step("B waits for a permit"):
            waiting = second.acquire("1")
            observer.wait_queue(leases_of(path), 3)
        with talk.step("A releases a permit, and B is granted it"):
            first.release("1", owner="a")
            waiting.expect("acquired")
        with talk.step("Both release their permits"):
            first.release("2", owner="b")
            second.release("1")


def test_s483_operators_on_the_wire(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    with conversation("operators", proxy, path) as talk:
        with talk.step("A and B connect"):
            first, second = (
                user(start, surface, proxy.hosts, path, session_timeout=SESSION) for _ in range(2)
            )
        with talk.step("A holds, and listens for revocations"):
            node = first.hold("1")["node"]
            first.call("listen", lease="1")
            eventually(lambda: node in watched_by(server, first.sessions["c"], path), "A watches its node")
        with talk.step("B asks A to give up"):
            second.call("revoke", client="c", node=node)
            first.wait_line("revoked", lease="1")
            # A writes its data again and sets a new watch.
            eventually(lambda: b"revoked" in observer.client.get(node)[0], "A has restored its data")
            eventually(lambda: node in watched_by(server, first.sessions["c"], path), "A watches its node")
        with talk.step("B lists the contenders"):
            second.call("contenders", lock="m")
        with talk.step("B breaks the lock"):
            second.call("break", client="c", node=node)
            first.wait_line("lost", lease="1")


def test_s484_kazoos_names_on_the_wire(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    with conversation("kazoo", proxy, path) as talk:
        with talk.step("A connects"):
            worker = start(surface)
            worker.connect(proxy.hosts, session_timeout=SESSION)
            worker.lock(path, naming="kazoo")
            worker.lock(path, lock="r", kind="read", naming="kazoo")
            worker.lock(path, lock="w", kind="write", naming="kazoo")
        with talk.step("A holds a mutex"):
            worker.hold("1")
        with talk.step("A releases the mutex"):
            worker.release("1")
        with talk.step("A writes"):
            worker.hold("w", lock="w")
        with talk.step("A downgrades"):
            worker.hold("r", lock="r")
        with talk.step("A releases both"):
            worker.release("w")
            worker.release("r")


def test_s485_an_election_on_the_wire(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    with conversation("election", proxy, path) as talk:
        with talk.step("A and B connect"):
            first, second = (start(surface) for _ in range(2))
            for worker, name in ((first, "one"), (second, "two")):
                worker.connect(proxy.hosts, session_timeout=SESSION)
                worker.lock(path, kind="election", candidate=name)
        with talk.step("A leads"):
            first.hold("1")
        with talk.step("B asks who leads"):
            assert second.call("leader", lock="m")["value"]["id"] == "one"
        with talk.step("B is a candidate"):
            waiting = second.acquire("1")
        with talk.step("A resigns, and B leads"):
            first.release("1")
            waiting.expect("acquired")
