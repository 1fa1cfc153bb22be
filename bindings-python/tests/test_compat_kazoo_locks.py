"""`zklock.compat.kazoo` together with real kazoo clients, and its improvements over kazoo."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import scripts
from harness.observer import Observer
from harness.steps import eventually
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout as KazoosTimeout

import zklock
from zklock.compat import kazoo as compat

ROUNDS = 12
RACES = 80


@pytest.fixture
def kazoo(hosts: str) -> Iterator[Any]:
    """Provide a real kazoo client."""
    client: Any = KazooClient(hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.mark.parametrize("kind", ["Lock", "WriteLock"])
def test_kazoo_and_this_exclude_each_other(client: zklock.Client, kazoo: Any, path: str, kind: str) -> None:
    theirs, ours = getattr(kazoo, kind)(path, "theirs"), getattr(compat, kind)(client, path, "ours")
    with theirs:
        assert not ours.acquire(blocking=False)
        with pytest.raises(compat.LockTimeout):
            ours.acquire(timeout=0.2)
        # Its node is deleted in the background.
        eventually(lambda: ours.contenders() == ["theirs"], "only theirs is left")
    with ours:
        assert not theirs.acquire(blocking=False)
        with pytest.raises(KazoosTimeout):
            theirs.acquire(timeout=0.2)
        # kazoo shows the whole data of our node.
        (shown,) = theirs.contenders()
        assert '"label":"ours"' in shown


def test_readers_of_both_share_and_writers_wait(client: zklock.Client, kazoo: Any, path: str) -> None:
    with kazoo.ReadLock(path, "theirs"), compat.ReadLock(client, path, "ours") as lease:
        assert lease.state == "held"
        assert not compat.WriteLock(client, path).acquire(blocking=False)
        assert not kazoo.WriteLock(path).acquire(blocking=False)
    with compat.ReadLock(client, path):
        assert not kazoo.WriteLock(path).acquire(blocking=False)
        assert kazoo.ReadLock(path).acquire(timeout=10)


def test_one_queue_with_kazoo(client: zklock.Client, kazoo: Any, observer: Observer, path: str) -> None:
    names = ["ours 1", "theirs 1", "ours 2", "theirs 2"]

    def lock(name: str) -> Any:
        return kazoo.Lock(path, name) if name.startswith("theirs") else compat.Lock(client, path, name)

    made = [lock(name) for name in names]
    order: list[str] = []

    def take(name: str, lock: Any) -> None:
        lock.acquire(timeout=30)
        order.append(name)
        lock.release()

    first = compat.Lock(client, path, "first")
    assert first.acquire()
    with ThreadPoolExecutor(len(names)) as pool:
        done = []
        for place, (name, lock) in enumerate(zip(names, made, strict=True), 2):
            done.append(pool.submit(take, name, lock))
            observer.wait_queue(path, place)
        assert first.contenders() == ["first", *names]
        first.release()
        for one in done:
            one.result(30)
    assert order == names


def test_many_contenders_of_kazoo_and_zklock_exclude_each_other(
    client: zklock.Client, kazoo: Any, path: str
) -> None:
    inside: list[str] = []
    taken = 0

    def work(kind: str) -> None:
        nonlocal taken
        lock: Any = kazoo.Lock(path, kind) if kind == "theirs" else compat.Lock(client, path, kind)
        for _ in range(ROUNDS):
            with lock:
                inside.append(kind)
                assert inside == [kind]
                before = taken
                threading.Event().wait(0.001)
                taken = before + 1
                inside.remove(kind)

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(work, kind) for kind in ("ours", "theirs", "ours", "theirs")]:
            one.result(50)
    assert taken == 4 * ROUNDS


def test_a_cancelled_wait_leaves_the_queue_at_once(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    waiting = compat.Lock(other, path)
    with compat.Lock(client, path), ThreadPoolExecutor(1) as pool:
        acquiring = pool.submit(waiting.acquire)
        observer.wait_queue(path, 2)
        waiting.cancel()
        with pytest.raises(compat.CancelledError, match="cancel"):
            acquiring.result(10)
        observer.wait_queue(path, 1)
    # In kazoo this acquire would fail.
    waiting.cancel()
    assert waiting.acquire(timeout=10)


def test_a_cancel_at_the_moment_of_the_grant(client: zklock.Client, observer: Observer, path: str) -> None:
    """The acquire either gets the lock, or is cancelled and leaves no node in the queue."""
    holder, waiting = compat.Lock(client, path), compat.Lock(client, path)
    ended = {True: 0, False: 0}
    # Estimate of the time in seconds that a grant takes on this machine. The loop below adjusts it.
    delay = 0.001

    def acquire() -> bool:
        try:
            return waiting.acquire(timeout=20)
        except compat.CancelledError:
            return False

    with ThreadPoolExecutor(2) as pool:
        for _ in range(RACES):
            assert holder.acquire(timeout=20)
            acquiring = pool.submit(acquire)
            observer.wait_queue(path, 2)
            releasing = pool.submit(holder.release)
            threading.Event().wait(delay)
            waiting.cancel()
            releasing.result(20)
            acquired = acquiring.result(20)
            ended[acquired] += 1
            delay = delay / 2 if acquired else min(delay * 2, 1)
            assert waiting.release() is acquired
            observer.wait_queue(path, 0)
    assert min(ended.values()) > 0, ended


def test_a_cancel_between_the_grant_and_the_return(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    class Cancelled(compat.Lock):
        def _wait(self, pending: Any, timeout: float | None) -> bool:
            waited = super()._wait(pending, timeout)
            self.cancel()
            return waited

    lock = Cancelled(client, path)
    with pytest.raises(compat.CancelledError):
        lock.acquire()
    assert not lock.is_acquired
    observer.wait_queue(path, 0)


def test_an_acquire_of_what_it_holds(client: zklock.Client, observer: Observer, path: str) -> None:
    lock = compat.Lock(client, path)
    assert lock.acquire()
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(timeout=0.05)
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(lock.acquire)
        eventually(lambda: lock._pending is not None, "the wait for itself")
        lock.cancel()
        with pytest.raises(compat.CancelledError):
            again.result(10)
        again = pool.submit(lock.acquire)
        eventually(lambda: lock._pending is not None, "the wait for itself")
        assert lock.release()
        assert again.result(10) is True
    assert lock.is_acquired
    assert observer.queue(path) == [lock.node]


def test_a_lost_lock_says_so_and_can_be_acquired_again(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    lock = compat.Lock(client, path)
    assert lock.acquire()
    lease = lock.lease
    assert lease is not None
    observer.delete(lease.node)
    assert lease.wait_lost(timeout=10)
    assert not lock.is_acquired
    # kazoo's lock waits forever here.
    assert lock.acquire(timeout=10)
    assert lock.release() is True
    assert lock.release() is False


def test_a_held_lock_stays_held_without_references(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    def take() -> None:
        assert compat.Lock(client, path).acquire()

    take()
    gc.collect()
    assert not compat.Lock(client, path).acquire(blocking=False)
    assert len(observer.queue(path)) == 1


def test_locks_of_one_thread_exclude_each_other(client: zklock.Client, path: str) -> None:
    with compat.ReadLock(client, path), pytest.raises(compat.LockTimeout):
        compat.WriteLock(client, path).acquire(timeout=0.1)
    with compat.WriteLock(client, path):
        assert not compat.ReadLock(client, path).acquire(blocking=False)


def test_in_a_callback(client: zklock.Client, observer: Observer, path: str) -> None:
    """A callback can wait for a lock, because another thread wakes the waiters."""
    results: list[bool] = []
    lock, wanted = compat.Lock(client, path), compat.Lock(client, f"{path}-other")
    with lock as lease:
        lease.on_lost(lambda _lease: results.append(wanted.acquire(timeout=10)))
        observer.delete(lease.node)
        eventually(lambda: bool(results), "the end of the callback")
    assert results == [True]


def test_after_a_fork(hosts: str, path: str) -> None:
    """With a hosts string, each process has its own client. The child does not own the parent's lock."""
    lock = compat.Lock(hosts, path)
    assert lock.acquire()
    child = os.fork()
    if child == 0:
        problem = 1
        try:
            if not lock.is_acquired and lock.release() is False and lock.acquire(blocking=False) is False:
                problem = 0
        finally:
            os._exit(problem)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lock.is_acquired
    assert lock.release()


def test_a_path_that_kazoos_semaphore_has_used(
    client: zklock.Client, kazoo: Any, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with compat.Semaphore(client, f"{path}-new"):
        assert "kazoo" not in caplog.text
    with kazoo.Semaphore(path, max_leases=1):
        ours = compat.Semaphore(client, path)
        # As documented, the two do not exclude each other.
        assert ours.acquire(timeout=10)
        assert caplog.text.count("kazoo's Semaphore has used the path") == 1
        assert path in caplog.text
        ours.release()
        assert ours.acquire(timeout=10)
        assert caplog.text.count("kazoo's Semaphore has used the path") == 1


def test_greenlets(hosts: str, path: str) -> None:
    """Other greenlets run during a wait, and `cancel()` ends it. kazoo needs a special handler for that."""
    code = """
    from zklock.compat.kazoo import CancelledError, Lock
    inside, most = 0, 0

    def enter(lock):
        global inside, most
        for _ in range(3):
            with lock:
                inside += 1
                most = max(most, inside)
                gevent.sleep(0.005)
                inside -= 1

    shared = Lock(hosts, path)
    locks = shared, shared, Lock(hosts, path)
    gevent.joinall([gevent.spawn(enter, lock) for lock in locks], raise_error=True)
    print(most)

    taken, waiting = Lock(hosts, path), Lock(hosts, path)
    taken.acquire()

    def attempt():
        try:
            waiting.acquire()
        except (CancelledError, gevent.Timeout) as ended:
            print(type(ended).__name__, len(taken.contenders()))

    for end in (waiting.cancel, lambda: greenlet.kill(gevent.Timeout())):
        greenlet = gevent.spawn(attempt)
        while len(taken.contenders()) < 2:
            gevent.sleep(0.01)
        end()
        greenlet.join()
    """
    head = "from gevent import monkey\nmonkey.patch_all()\nimport gevent, os\n"
    head += "hosts, path = os.environ['ZKLOCK_HOSTS'], os.environ['LOCK_PATH']\n"
    done = scripts.run(code, hosts, path, 30, head=head)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.splitlines() == ["1", "CancelledError 1", "Timeout 1"]


@pytest.mark.parametrize("timeout", [-1, -0.1])
def test_a_time_out_below_zero(client: zklock.Client, path: str, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        compat.Lock(client, path).acquire(timeout=timeout)


def test_what_is_refused(client: zklock.Client, kazoo: Any, path: str) -> None:
    with pytest.raises(ValueError, match="blocking"):
        compat.Lock(client, path).acquire(blocking=False, timeout=1)
    with pytest.raises(zklock.BadArgument, match="ephemeral"):
        compat.Lock(client, path).acquire(ephemeral=False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"zklock\.Client or a hosts string, not kazoo"):
        compat.Lock(kazoo, path)
    with pytest.raises(ValueError, match="permits"):
        compat.Semaphore(client, path, max_leases=0)
