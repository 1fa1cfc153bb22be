"""Behavior that is specific to the blocking classes: threads, signals, scopes and finalizers."""

from __future__ import annotations

import gc
import signal
import textwrap
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
import scripts
from harness.observer import Observer
from harness.steps import eventually

import zklock

T = TypeVar("T")


def in_a_thread(work: Callable[[], T]) -> T:
    """Run a callable in a new thread, and so as another owner."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=20)


def test_the_interpreter_is_free_while_a_thread_waits(
    client: zklock.Client, other: zklock.Client, path: str
) -> None:
    counting, stop = 0, threading.Event()

    def count() -> None:
        nonlocal counting
        while not stop.is_set():
            counting += 1

    with zklock.Mutex(other, path):
        counter = threading.Thread(target=count)
        counter.start()
        before = counting
        assert not zklock.Mutex(client, path).acquire(timeout=0.5)
        after = counting
        stop.set()
        counter.join()
    assert after - before > 10_000


@pytest.mark.parametrize("timeout", [-1, 30])
def test_an_interrupt_is_answered_at_once_and_leaves_no_node(
    client: zklock.Client, observer: Observer, hosts: str, path: str, timeout: float
) -> None:
    with zklock.Mutex(client, path):
        waiter = scripts.start(
            f"""
            try:
                zklock.Mutex(hosts, path).acquire(timeout={timeout})
            except KeyboardInterrupt:
                print(time.monotonic())
            sys.stdin.read()
            """,
            hosts,
            path,
        )
        with waiter:
            observer.wait_queue(path, 2)
            sent = time.monotonic()
            waiter.send_signal(signal.SIGINT)
            assert waiter.stdout is not None
            answered = float(waiter.stdout.readline())
            # The process and its session still exist, so the node is gone only because the client deleted it.
            observer.wait_queue(path, 1, timeout=2)
            assert waiter.poll() is None
            _, errors = waiter.communicate(timeout=10)
    assert answered - sent < 2
    assert errors == ""


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "ValueError"])
def test_an_exception_of_a_signal_handler_during_the_read_of_the_log_level_ends_the_wait(
    client: zklock.Client, observer: Observer, hosts: str, path: str, raised: str
) -> None:
    with zklock.Mutex(client, path):
        code = f"""
            import logging
            def handle(*_):
                raise {raised}
            class Logger(logging.Logger):
                def isEnabledFor(self, level):
                    if threading.current_thread() is threading.main_thread():
                        os.kill(os.getpid(), signal.SIGINT)
                    return super().isEnabledFor(level)
            signal.signal(signal.SIGINT, handle)
            opened = zklock.Client(hosts)
            opened.connect()
            lock = zklock.Mutex(opened, path)
            logging.getLogger('zklock').__class__ = Logger
            deadline = time.monotonic() + 10
            try:
                # The library asks the logger again after a second.
                while time.monotonic() < deadline:
                    lock.acquire(timeout=0.1)
                print('not raised')
            except {raised}:
                print('raised')
            logging.getLogger('zklock').__class__ = logging.Logger
            # The waiter leaves the queue on the library's thread.
            deadline = time.monotonic() + 10
            while opened.health().waits and time.monotonic() < deadline:
                time.sleep(0.01)
            print(opened.health().waits)
            """
        done = scripts.run(code, hosts, path, timeout=30)
        assert (done.stdout, done.stderr) == ("raised\n[]\n", "")
        observer.wait_queue(path, 1)


def test_an_interrupt_while_connecting(path: str) -> None:
    waiter = scripts.start(
        """
        def tell():
            while "connecting" not in zklock.dump(): time.sleep(0.01)
            print("ready")
        threading.Thread(target=tell).start()
        try:
            zklock.Client(hosts, connect_timeout=30)
        except KeyboardInterrupt:
            print(time.monotonic())
        """,
        "127.0.0.1:1",
        path,
    )
    with waiter:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "ready\n"
        sent = time.monotonic()
        waiter.send_signal(signal.SIGINT)
        assert float(waiter.stdout.readline()) - sent < 2


def test_a_signal_handler_that_returns_does_not_end_the_wait(
    client: zklock.Client, other: zklock.Client, path: str
) -> None:
    called = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: called.set())
    try:
        with zklock.Mutex(other, path):
            sender = threading.Timer(0.2, signal.raise_signal, [signal.SIGUSR1])
            sender.start()
            started = time.monotonic()
            assert not zklock.Mutex(client, path).acquire(timeout=1)
            assert time.monotonic() - started > 0.9
            sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert called.is_set()


def test_a_signal_handler_may_release_what_it_waits_for(
    client: zklock.Client, other: zklock.Client, path: str
) -> None:
    held, wanted = zklock.Mutex(other, path), zklock.Mutex(client, path)
    assert held.acquire()
    lease = held.lease
    assert lease is not None
    before = signal.signal(signal.SIGUSR1, lambda *_: lease.release())
    try:
        sender = threading.Timer(0.2, signal.raise_signal, [signal.SIGUSR1])
        sender.start()
        assert wanted.acquire(timeout=10)
        wanted.release()
        sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_owner_is_the_thread(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    assert lock.acquire()
    assert lock.acquire(blocking=False)
    assert zklock.Mutex(client, path).owned()
    assert not in_a_thread(lock.owned)
    assert in_a_thread(lambda: lock.lease) is None
    assert not in_a_thread(lambda: lock.acquire(blocking=False))
    with pytest.raises(zklock.NotHeld):
        in_a_thread(lock.release)
    lock.release()
    assert lock.owned()
    lock.release()
    assert not lock.owned()
    with pytest.raises(zklock.NotHeld):
        lock.release()


def test_a_thread_that_ends_does_not_pass_its_lock_on(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    assert in_a_thread(lock.acquire)
    # The system reuses thread identifiers, so one of these new threads might have the identifier of the first
    # thread.
    for _ in range(20):
        assert not in_a_thread(lock.owned)
    assert not in_a_thread(lambda: lock.acquire(blocking=False))


def test_release_undoes_the_newest_level(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    leases = []
    for _ in range(3):
        assert lock.acquire()
        assert lock.lease is not None
        leases.append(lock.lease)
    first, second, third = leases
    assert len({first.node, second.node, third.node}) == 1
    assert len({first.fencing_token, second.fencing_token, third.fencing_token}) == 1
    in_a_thread(third.release)
    assert lock.lease is second
    second.release(wait=False)
    with pytest.raises(zklock.NotHeld):
        second.release()
    with pytest.raises(zklock.NotHeld):
        second.check()
    assert lock.lease is first
    first.check()
    lock.release(wait=False)
    assert lock.lease is None
    assert not lock.owned()


def test_levels_belong_to_the_object_that_took_them(client: zklock.Client, path: str) -> None:
    one, two = zklock.Mutex(client, path), zklock.Mutex(client, path)
    assert one.acquire()
    with pytest.raises(zklock.NotHeld):
        two.release()
    assert one.owned()
    one.release()


def test_a_lease_shows_its_mode(client: zklock.Client, path: str) -> None:
    files = zklock.ReadWriteLock(client, f"{path}/files")
    locks = {
        zklock.Mutex(client, f"{path}/mutex"): "mutex",
        zklock.Mutex(client, f"{path}/kazoo", naming="kazoo"): "mutex",
        files.read_lock: "read",
        files.write_lock: "write",
        zklock.Semaphore(client, f"{path}/slots", 1): "permit",
    }
    for lock, mode in locks.items():
        with lock as lease:
            assert lease.mode == mode
    with zklock.Election(client, f"{path}/election").lead() as leadership:
        assert leadership.mode == "leadership"


def test_scopes(client: zklock.Client, other: zklock.Client, observer: Observer, path: str) -> None:
    lock = zklock.Mutex(client, path)
    with lock as outer:
        assert lock.lease is outer
        with lock.hold(timeout=0) as inner:
            assert lock.lease is inner
            assert inner.node == outer.node
        assert lock.lease is outer
        with pytest.raises(zklock.LockTimeout), zklock.Mutex(other, path).hold(timeout=0.2):
            raise AssertionError("entered")
        with pytest.raises(zklock.LockTimeout), zklock.Mutex(other, path).hold(timeout=0):
            raise AssertionError("entered")
    assert lock.lease is None
    observer.assert_free(path)
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.owned()


def test_the_end_of_a_scope_is_silent(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    with lock as lease:
        lease.release()
    with lock:
        lock.release()
    with lock.hold() as lease:
        lease.release()
    with lock:
        # The body acquires the lock once more and does not release it. The scope releases only its own
        # acquisition.
        assert lock.acquire()
    assert lock.owned()
    lock.release()


def test_a_hold_may_be_entered_again(client: zklock.Client, path: str) -> None:
    hold = zklock.Mutex(client, path).hold(timeout=10)
    with hold as outer, hold as inner:
        assert outer is not inner
        assert outer.node == inner.node
    with hold as again:
        assert again.node != outer.node


def test_a_revoked_holder_shows_the_request_and_its_label(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path, label="ours")
    with lock as lease:
        assert lock.contenders()[0].revoked is False
        client.revoke(lease.node)
        eventually(lambda: lock.contenders()[0].revoked is True, "it has been received")
        assert lock.contenders()[0].label == "ours"


def test_a_lock_that_is_collected_releases(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    lock = zklock.Mutex(client, path)
    assert lock.acquire()
    assert lock.acquire()
    gone = weakref.ref(lock)
    del lock
    gc.collect()
    assert gone() is None
    observer.wait_queue(path, 0)


def test_a_lease_that_is_collected_releases(client: zklock.Client, observer: Observer, path: str) -> None:
    lock = zklock.Mutex(client, path)
    assert lock.acquire()
    lease = lock.lease
    del lock
    assert len(observer.queue(path)) == 1
    del lease
    gc.collect()
    observer.wait_queue(path, 0)


def test_a_client_that_is_collected_closes(hosts: str, observer: Observer, path: str) -> None:
    lock = zklock.Mutex(zklock.Client(hosts), path)
    assert lock.acquire()
    assert len(observer.queue(path)) == 1
    del lock
    gc.collect()
    observer.wait_queue(path, 0)


def test_a_hosts_string_is_one_client(hosts: str, path: str) -> None:
    one, two = zklock.Mutex(hosts, path), zklock.Mutex(hosts, path + "-2")
    with one as first, two as second:
        assert first.session_id == second.session_id != 0


def test_a_closed_client(hosts: str, path: str) -> None:
    with zklock.Client(hosts) as client:
        lock = zklock.Mutex(client, path)
        assert client.state == "connected"
        assert client.session_id != 0
        assert lock.acquire()
        lease = lock.lease
        assert lease is not None
    assert client.state == "closed"
    client.close()
    assert lease.state == "lost"
    with pytest.raises(zklock.LockLost):
        lease.check()
    with pytest.raises(zklock.ClientClosed):
        lock.acquire()
    # There is nothing left to release.
    lock.release()


def test_closing_wakes_the_waiters(hosts: str, other: zklock.Client, observer: Observer, path: str) -> None:
    client = zklock.Client(hosts)
    with zklock.Mutex(other, path), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(zklock.Mutex(client, path).acquire)
        observer.wait_queue(path, 2)
        client.close()
        with pytest.raises(zklock.ClientClosed):
            waiting.result(timeout=10)


def test_many_threads_on_one_object(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    inside = 0

    def work() -> int:
        nonlocal inside
        done = 0
        for _ in range(10):
            with lock:
                inside += 1
                assert inside == 1
                done += 1
                inside -= 1
        return done

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(lambda _: work(), range(16))) == 160


def test_representations(client: zklock.Client, hosts: str, path: str) -> None:
    lock = zklock.Mutex(client, path)
    assert repr(lock) == f"<zklock.Mutex {path} on {hosts}, not held>"
    assert repr(lock.hold()) == f"<zklock.Hold of {lock!r}>"
    assert repr(client) == f"<zklock.Client {hosts}, connected, session {client.session_id:#x}>"
    strange = zklock.Client(f"{hosts}/a\u2028b", connect=False, auth=[("digest", "user:hidden")])
    assert repr(strange) == f"<zklock.Client {hosts}/a\\u{{2028}}b, idle>"
    with lock as lease:
        assert repr(lock) == f"<zklock.Mutex {path} on {hosts}, held>"
        assert repr(lease) == f"<zklock.Lease {lease.node} held, token {lease.fencing_token}>"
        assert lease.path == path
        assert lease.node.startswith(path + "/_c_")
    assert "released" in repr(lease)


def test_naming(client: zklock.Client, path: str) -> None:
    with zklock.Mutex(client, path, naming="kazoo", label="reports") as lease:
        assert "__lock__" in lease.node


SHARED = """
import warnings
warnings.simplefilter("always")
# Ignore the warning about any acquire in an event loop: other tests check it.
warnings.filterwarnings("ignore", "a zklock lock is acquired on a thread")
client = zklock.Client(hosts)
lock = zklock.Mutex(client, path)

async def enter(seconds):
    with lock:
        await asyncio.sleep(seconds)
"""


def test_tasks_that_share_a_lock_for_threads_are_warned_of_once(hosts: str, path: str) -> None:
    """The owner of the tasks is their thread, so all of them enter."""
    code = SHARED + textwrap.dedent(
        """
        async def main():
            for _ in range(2):
                await asyncio.gather(*(enter(0.05) for _ in range(3)))
        asyncio.run(main())
        """
    )
    done = scripts.run(code, hosts, path)
    assert done.returncode == 0
    assert done.stderr.count("RuntimeWarning") == 1
    assert "two tasks of one event loop" in done.stderr
    assert "zklock.aio" in done.stderr


def test_correct_uses_cause_no_warning(hosts: str, path: str) -> None:
    """No warning for successive tasks, re-entry in one task, permits, threads and successive event loops."""
    code = SHARED + textwrap.dedent(
        """
        pool, both = zklock.Semaphore(client, path + "-pool", 3), zklock.MultiLock([lock])

        async def enter_twice():
            with lock, lock, both:
                await asyncio.sleep(0)

        async def use_pool():
            with pool:
                await asyncio.sleep(0.01)

        async def take():
            lock.acquire()

        def in_a_thread():
            with lock:
                pass

        async def main():
            in_a_thread()
            await enter(0)
            await asyncio.create_task(enter_twice())
            await asyncio.gather(*(use_pool() for _ in range(3)))
            await asyncio.create_task(take())
            lock.acquire()
            lock.release()
            lock.release()
            await asyncio.gather(*(asyncio.to_thread(in_a_thread) for _ in range(3)))
            lock.acquire()
        asyncio.run(main())
        asyncio.run(enter(0))
        """
    )
    done = scripts.run(code, hosts, path)
    assert (done.returncode, done.stderr) == (0, "")
