"""A forked child does not use its parent's clients and locks, and can use its own."""

from __future__ import annotations

import multiprocessing
import signal

import pytest
import scripts
from harness.observer import Observer

import zklock

CHILD = """
    def child(work):
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                work()
                status = 0
            except BaseException as error:
                print(repr(error))
            finally:
                sys.stdout.flush()
                os._exit(status)
        print("child", os.waitpid(pid, 0)[1])
"""


def test_inherited_handles_raise_and_leave_the_parent_alone(hosts: str, path: str) -> None:
    done = scripts.run(
        CHILD
        + """
    client = zklock.Client(hosts)
    lock = zklock.Mutex(client, path)
    lock.acquire()
    lease = lock.lease

    def work():
        for attempt in (lock.acquire, lock.release, lock.owned, lease.check, lease.release, client.close,
                        zklock.Mutex(client, path).acquire, lock.__enter__):
            try:
                attempt()
            except zklock.Forked as error:
                assert error.code == "FORKED"
            else:
                print("no error from", attempt)
        assert lock.lease is None
        assert "fork" in repr(lease)
        # The end of the inherited scope, and of the inherited objects.
        with client: pass
        for name in ("lock", "lease", "client"):
            del globals()[name]

    child(work)
    lease.check()
    assert lock.owned()
    with zklock.Client(hosts) as other:
        print(zklock.Mutex(other, path).acquire(blocking=False))
    lock.release()
    print("parent fine")
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["child 0", "False", "parent fine"], done


def test_a_scope_that_a_child_inherits_ends_silently(hosts: str, path: str) -> None:
    done = scripts.run(
        CHILD
        + """
    with zklock.Mutex(hosts, path) as lease:
        pid = os.fork()
    if pid:
        print("child", os.waitpid(pid, 0)[1])
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["child 0"], done
    # Since Python 3.12 the interpreter itself warns about forks in processes with threads.
    assert "Error" not in done.stderr


@pytest.mark.parametrize("used", [False, True], ids=["unused before", "used before"])
def test_a_hosts_string_works_in_a_child(hosts: str, path: str, used: bool) -> None:
    done = scripts.run(
        CHILD
        + f"""
    lock, session = zklock.Mutex(hosts, path), 0
    if {used}:
        lock.acquire()
        session = lock.lease.session_id

    def work():
        assert not lock.owned()
        assert lock.lease is None
        assert lock.acquire(blocking=False) is not {used}
        with zklock.Mutex(hosts, path + "-2") as lease:
            assert lease.session_id != session
            try:
                lock.release()
                print("released", not {used})
            except zklock.NotHeld:
                print("not held", {used})

    child(work)
    if {used}:
        lock.lease.check()
        lock.release()
        """,
        hosts,
        path,
    )
    word = "not held" if used else "released"
    assert done.stdout.splitlines() == [f"{word} True", "child 0"], done


def test_asyncio_in_a_child(hosts: str, path: str) -> None:
    done = scripts.run(
        CHILD
        + """
    lock = aio.Mutex(hosts, path)
    client = aio.Client(hosts)

    async def use():
        async with asyncio.timeout(10), lock as lease:
            return lease.session_id

    sessions = [asyncio.run(use())]

    def work():
        assert asyncio.run(use()) not in sessions
        child(work_again)

    def work_again():
        assert asyncio.run(use()) not in sessions

    child(work)
    assert asyncio.run(use()) in sessions
    print("parent fine")
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["child 0", "child 0", "parent fine"], done


def test_a_child_of_a_busy_parent(hosts: str, path: str) -> None:
    """A process can fork while its other threads use locks."""
    done = scripts.run(
        CHILD
        + """
    stop = threading.Event()

    def busy(number):
        lock = zklock.Mutex(hosts, f"{path}-{number % 2}")
        while not stop.is_set():
            with lock: pass

    async def busy_too():
        lock = aio.Mutex(hosts, path + "-0")
        while not stop.is_set():
            async with lock: pass

    threads = [threading.Thread(target=busy, args=(number,)) for number in range(3)]
    threads.append(threading.Thread(target=asyncio.run, args=(busy_too(),)))
    for thread in threads:
        thread.start()

    async def use():
        async with aio.Mutex(hosts, path + "-child"): pass

    def work():
        with zklock.Mutex(hosts, path + "-child"): pass
        asyncio.run(use())

    for _ in range(20):
        child(work)
    stop.set()
    for thread in threads:
        thread.join()
        """,
        hosts,
        path,
        timeout=50,
    )
    assert done.stdout.splitlines() == ["child 0"] * 20, done


def _use(hosts: str, path: str) -> int:
    with zklock.Mutex(hosts, path) as lease:
        return lease.session_id


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(observer: Observer, hosts: str, path: str, method: str) -> None:
    here = _use(hosts, path)
    with multiprocessing.get_context(method).Pool(2) as pool:
        sessions = pool.starmap(_use, [(hosts, path)] * 6)
    assert here not in sessions
    observer.wait_queue(path, 0)


def test_a_handler_that_forks_in_a_wait(
    client: zklock.Client, observer: Observer, hosts: str, path: str
) -> None:
    """The child returns from the handler into a wait that could never end."""
    held = zklock.Mutex(client, path)
    held.acquire()
    parent = scripts.start(
        """
    def fork(number, frame):
        global pid
        pid = os.fork()

    signal.signal(signal.SIGUSR1, fork)
    try:
        zklock.Mutex(hosts, path).acquire()
    except zklock.Forked:
        with zklock.Mutex(hosts, path + "-child"):
            print("child fine")
        sys.exit()
    print("child ended with", os.waitpid(pid, 0)[1])
        """,
        hosts,
        path,
    )
    with parent:
        assert parent.stdout is not None
        observer.wait_queue(path, 2)
        parent.send_signal(signal.SIGUSR1)
        assert parent.stdout.readline() == "child fine\n"
        # The parent keeps its place in the queue.
        assert len(observer.queue(path)) == 2
        held.release()
        output, errors = parent.communicate(timeout=10)
    assert (output, parent.returncode) == ("child ended with 0\n", 0), errors
