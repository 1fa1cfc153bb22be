"""Tests of semaphores: their number of permits is never exceeded, and contenders get permits in queue
order.
"""

from __future__ import annotations

from harness.history import assert_clean
from harness.observer import Observer
from harness.permits import all_free, counting, leases_of, turns_of
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, assert_within, eventually, nothing_watched

# Maximum seconds for which a try waits for its turn.
TRY_LIMIT = 2.0
READS = {"getChildren", "getChildren2", "exists", "getData", "getAllChildrenNumber"}


def test_s85_permits_together(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    pair = [counting(start, surface, server.hosts, path, 3) for _ in range(2)]
    pair[0].hold("l0", owner="a")
    pair[0].hold("l1", owner="a")
    pair[1].hold("l2")
    waiting = pair[1].acquire("l3", owner="b")
    observer.wait_queue(leases_of(path), 4)
    assert not waiting.done
    pair[0].release("l1", owner="other")
    waiting.expect("acquired")
    pair[0].release("l0")
    pair[1].release("l2")
    pair[1].release("l3", owner="b")
    contending = [worker.contend(path, kind="semaphore", permits=3, owners=4, rounds=5) for worker in pair]
    for pending in contending:
        pending.expect("done", 30)
    assert_clean(pair[0].holds() + pair[1].holds(), at_least=4 + 40)
    all_free(observer, path)


def test_s86_turns(surface: str, server: Standalone, observer: Observer, path: str, start: Start) -> None:
    holder, many, few = (counting(start, surface, server.hosts, path, 3) for _ in range(3))
    holder.hold("l", count=2)
    wanted = many.acquire("m", count=3)
    observer.wait_queue(leases_of(path), 5)
    # One permit is free. `few` must wait for it nevertheless, because `many` is ahead in the queue and wants
    # three permits.
    behind = few.acquire("f")
    observer.wait_queue(turns_of(path), 2)
    holder.release("l/0")
    observer.wait_queue(leases_of(path), 4)
    assert not wanted.done
    assert not behind.done
    holder.release("l/1")
    assert len(wanted.expect("acquired")["leases"]) == 3
    observer.wait_queue(leases_of(path), 4)
    assert not behind.done
    many.release("m")
    behind.expect("acquired")
    few.release("f")
    assert_clean(holder.holds() + many.holds() + few.holds(), at_least=6)
    all_free(observer, path)


def test_s87_many_at_once(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker, other = (counting(start, surface, server.hosts, path, 3) for _ in range(2))
    leases = worker.hold("l", count=3)["leases"]
    nodes = [lease["node"] for lease in leases]
    assert [node.rsplit("/", 1)[-1] for node in nodes] == observer.queue(leases_of(path))
    assert all(node.startswith(leases_of(path) + "/") for node in nodes)
    waiting = [other.acquire(f"w{number}", owner=f"o{number}") for number in range(3)]
    for number in (1, 2, 0):
        worker.release(f"l/{number}", owner="anybody")
        eventually(lambda: any(pending.done for pending in waiting), "one waiter is granted")
        (granted,) = [pending for pending in waiting if pending.done]
        granted.expect("acquired")
        waiting.remove(granted)
    assert worker.send("release", lease="l/0").error().code == "NOT_HELD"
    for number in range(3):
        other.release(f"w{number}", owner="anybody")
    assert_clean(worker.holds() + other.holds(), at_least=6)
    all_free(observer, path)


def test_s88_no_hold_and_wait(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    workers = [counting(start, surface, server.hosts, path, 3) for _ in range(3)]
    for turn in range(8):
        asked = [worker.acquire(f"l{turn}", count=2, timeout=10) for worker in workers]
        # Release each contender as soon as it has both permits. If two contenders each had one of the
        # permits, both would wait forever.
        left = list(zip(workers, asked, strict=True))
        while left:
            eventually(lambda: any(pending.done for _, pending in left), "one worker holds both")  # noqa: B023
            for worker, pending in [one for one in left if one[1].done]:
                pending.expect("acquired")
                worker.release(f"l{turn}")
                left.remove((worker, pending))
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=3 * 8 * 2)
    all_free(observer, path)


def test_s294_a_try_behind_a_turn(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = counting(start, surface, server.hosts, path, 3)
    for directory in (turns_of(path), leases_of(path)):
        observer.create(directory)

    def another() -> str:
        """Queue for a turn as another contender, and keep the turn."""
        node = f"{turns_of(path)}/_c_{'0' * 32}-lock-"
        created: str = observer.client.create(node, b"", ephemeral=True, sequence=True)
        return created

    node = another()
    trying = worker.send("try", lock="m", lease="t", owner="a")
    observer.wait_queue(turns_of(path), 2)
    observer.delete(node)
    trying.expect("acquired")
    node = another()
    trying = worker.send("try", lock="m", lease="u", owner="a")
    assert_within(trying.expect("busy"), trying.sent, TRY_LIMIT)
    observer.wait_queue(turns_of(path), 1)
    observer.delete(node)
    worker.release("t")
    all_free(observer, path)


def test_s89_try(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = counting(start, surface, server.hosts, path, 3)
    worker = counting(start, surface, proxy.hosts, path, 3)
    assert holder.try_acquire("t")["event"] == "acquired"
    assert holder.try_acquire("u", count=2)["event"] == "acquired"
    proxy.reset()
    assert worker.try_acquire()["event"] == "busy"
    requests = proxy.snapshot().requests
    assert requests.total() == 1
    assert set(requests) <= READS
    holder.release("t")
    # One permit is free, but the try needs two.
    proxy.reset()
    assert worker.try_acquire(count=2)["event"] == "busy"
    assert proxy.snapshot().requests.total() == 1
    assert worker.try_acquire()["event"] == "acquired"
    assert worker.try_acquire("again")["event"] == "busy"
    worker.release()
    holder.release("u")
    nothing_watched(server, worker, path)
    assert_clean(holder.holds() + worker.holds(), at_least=4)
    all_free(observer, path)
