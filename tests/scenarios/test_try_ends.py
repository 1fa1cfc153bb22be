"""A try always returns and never waits for the lock, even if an error occurs (rule 21)."""

from __future__ import annotations

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.readwrite import clean, readwriter
from harness.server import Standalone
from harness.steps import Start, eventually
from harness.worker import Worker


def try_to_read(worker: Worker, proxy: Proxy, observer: Observer, written: str) -> str:
    """Try the read lock. The owner does not know that its write lock was broken. Return the event."""
    proxy.reset()
    tried = worker.send("try", lock="r", lease="read", owner="a")
    # The try asks to replace the writer's node, which is gone.
    eventually(lambda: proxy.snapshot().requests["multi"] > 0, "a transaction is sent")
    assert not observer.exists(written)
    proxy.heal()
    return str(tried.result()["event"])


@pytest.mark.parametrize("taken", [True, False])
def test_s630_a_try_to_go_down_from_a_broken_lock(
    surface: str, taken: bool, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = readwriter(start, surface, proxy.hosts, path)
    other = readwriter(start, surface, server.hosts, path)
    written = worker.hold("write", lock="w")["node"]
    # The owner does not learn that its lock is broken.
    proxy.black_hole("down")
    observer.delete(written)
    if taken:
        other.hold("theirs", lock="w")
    assert try_to_read(worker, proxy, observer, written) == ("busy" if taken else "acquired")
    if taken:
        assert len(observer.queue(path)) == 1, "the try left a node"
        other.release("theirs")
        clean(other, at_least=1)
    else:
        worker.release("read")
    observer.wait_queue(path, 0)


def test_s631_a_try_without_an_answer(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts, connect_timeout=1)
    for kind in ("mutex", "election"):
        worker.lock(f"{path}/{kind}", lock=kind, kind=kind)
    worker.lock(f"{path}/semaphore", lock="semaphore", kind="semaphore", permits=2)
    worker.lock(f"{path}/halves", lock="r", kind="read")
    worker.lock(f"{path}/halves", lock="w", kind="write")
    # `multi` gets locks that no other try uses. If one client tries the same lock twice at the same time, the
    # second try returns `busy` without a request.
    for name in ("one", "other"):
        worker.lock(f"{path}/{name}", lock=name)
    worker.send("lock", lock="multi", kind="multi", members=["one", "other"]).expect("ready")
    worker.hold("write", lock="w")
    proxy.black_hole()
    # Owners other than the writer try each lock. The owner of the write lock also tries the read lock, which
    # is a downgrade.
    names = ["mutex", "election", "semaphore", "multi", "r", "w"]
    tries = [worker.send("try", lock=name, lease=f"t-{name}", owner=f"o-{name}") for name in names]
    tries.append(worker.send("try", lock="r", lease="read", owner="a"))
    ends = [tried.line() for tried in tries]
    # `r` and `w` are held by another owner of the same client, so the client reports `busy` without a
    # request.
    assert [end["event"] for end in ends[4:6]] == ["busy", "busy"]
    assert [end.get("code") for end in ends[:4] + ends[6:]] == ["CONNECTION_FAILED"] * 5
    proxy.heal()
    worker.release("write")
    for directory in ("mutex", "election", "halves"):
        observer.wait_queue(f"{path}/{directory}", 0)


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_s632_a_shared_count_that_was_never_reached(
    surface: str, how: str, proxy: Proxy, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.lock(path, kind="semaphore", shared_count=f"{path}-count", client=None, hosts=proxy.hosts)
    (proxy.refuse if how == "refused" else proxy.black_hole)()
    # The acquire has no timeout, so the client's connect timeout applies.
    assert worker.acquire().error().code == "CONNECTION_FAILED"
