"""Tests of mutual exclusion and of grants in the order of the queue."""

from __future__ import annotations

import pytest

from harness.history import assert_clean
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start, line_up, user


def test_s01_mutual_exclusion(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    workers = [start(surface) for _ in range(5)]
    for worker in workers:
        worker.connect(server.hosts)
    asked = [worker.contend(path, owners=3, rounds=4, hold_ms=(0, 4)) for worker in workers]
    for pending in asked:
        assert pending.expect("done")["count"] == 12
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=60)
    observer.assert_free(path)


def test_s02_queue_order(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    workers = [user(start, surface, server.hosts, path) for _ in range(5)]
    waiting = line_up(observer, path, workers)
    nodes = observer.queue(path)
    for place, (worker, pending) in enumerate(zip(workers, waiting, strict=True)):
        line = pending.expect("acquired")
        assert line["node"].endswith(nodes[place])
        assert not any(later.done for later in waiting[place + 1 :])
        worker.release()
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=5)
    observer.assert_free(path)


@pytest.mark.timeout(90)
def test_s21_fifty_lock_objects(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(server.hosts)
    worker.contend(path, owners=50, rounds=1, objects="each", hold_ms=(100, 200)).expect("done", 60)
    assert_clean(worker.holds(), at_least=50)
    observer.assert_free(path)


@pytest.mark.timeout(90)
def test_s22_one_shared_object(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(server.hosts)
    worker.contend(path, owners=50, rounds=1, objects="shared", hold_ms=(100, 200)).expect("done", 60)
    assert_clean(worker.holds(), at_least=50)
    observer.assert_free(path)


def test_s39_fencing_tokens(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    first, second = (user(start, surface, server.hosts, path) for _ in range(2))
    tokens = []
    for worker in (first, second, first):
        line = worker.hold()
        node = line["node"].rsplit("/", 1)[-1]
        assert int(line["token"]) == observer.czxid(f"{path}/{node}")
        assert int(line["session"]) == observer.owner(f"{path}/{node}")
        tokens.append(int(line["token"]))
        worker.release()
    assert tokens == sorted(set(tokens))


def test_s45_all_surfaces_contend_together(
    surface: str, chosen: list[str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    # The victim holds the lock while all other workers queue. Its session timeout is long enough for that,
    # even on a busy machine.
    victim = user(start, surface, server.hosts, path, session_timeout=6)
    victim.hold()
    workers = [start(name) for name in [*chosen, "curator"]]
    for worker in workers:
        worker.connect(server.hosts)
    asked = [worker.contend(path, owners=2, rounds=3, hold_ms=(0, 5)) for worker in workers]
    observer.wait_queue(path, 1 + 2 * len(workers))
    victim.kill()
    for pending in asked:
        pending.expect("done", 30)
    all_workers = [victim, *workers]
    assert_clean([hold for worker in all_workers for hold in worker.holds()], at_least=1 + 6 * len(workers))
    observer.assert_free(path)
