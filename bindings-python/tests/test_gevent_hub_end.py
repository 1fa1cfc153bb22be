"""A hub of gevent is destroyed while greenlets wait in it. These greenlets never run again, so they must not
get a lock that they cannot release.

The program might still have references to these greenlets. If it has none, the objects on their stacks are
dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import scripts
from harness.observer import Observer
from test_gevent import HEAD

import zklock

# Without the patch, threads are native. Each thread has its own hub, which is destroyed when the thread ends,
# or earlier by the program.
THREADS = HEAD.replace("monkey.patch_all()", "import zklock.compat.kazoo")

ENDS = {
    "destroyed": "gevent.get_hub().destroy()",
    "with its thread": "pass",
    # zklock detects only at the end of the thread that this call has destroyed the hub. By then, there is no
    # loop in which a watcher could be stopped.
    "by its class": "gevent.hub.Hub.destroy(gevent.get_hub())",
}

# After an explicit `destroy()`, the waiter must leave the queue even if the thread continues to run. This
# thread therefore runs until the program exits.
STAYS = dict.fromkeys(ENDS, "") | {"destroyed": 'print("ended"), sys.stdin.readline(), os._exit(0)'}

# For each kind of wait: the object, the method that waits, the subdirectory of its nodes, and their number.
WAITS = {
    "Mutex": ("zklock.Mutex(client, path)", "acquire()", "", 1),
    "with": ("zklock.Mutex(client, path)", "__enter__()", "", 1),
    "acquire_many": ("zklock.Semaphore(client, path, 2)", "acquire_many(2)", "/leases", 2),
    "Election": ("zklock.Election(client, path)", "campaign()", "", 1),
    "kazoo": ("zklock.compat.kazoo.Lock(client, path)", "acquire()", "", 1),
}


@contextlib.contextmanager
def held(client: zklock.Client, path: str, kind: str) -> Iterator[None]:
    """Run the block while this client holds the lock or the permit that the waiters need."""
    if kind == "acquire_many":
        with zklock.Semaphore(client, path, 2):
            yield
    else:
        with zklock.Mutex(client, path):
            yield


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", WAITS)
def test_a_greenlet_that_waits_leaves_the_queue(
    client: zklock.Client, hosts: str, path: str, observer: Observer, kind: str, end: str
) -> None:
    made, acquire, below, nodes = WAITS[kind]
    code = f"""
    client, received, kept = zklock.Client(hosts), threading.Event(), []
    lock = {made}
    def work():
        kept.append(gevent.spawn(lambda: lock.{acquire}))
        while not received.is_set():
            gevent.sleep(0.01)
        {ENDS[end]}
        {STAYS[end]}
    working = threading.Thread(target=work)
    working.start()
    sys.stdin.readline()
    received.set()
    working.join()
    print("ended")
    sys.stdin.readline()
    """
    with contextlib.ExitStack() as stack:
        holding = stack.enter_context(contextlib.ExitStack())
        holding.enter_context(held(client, path, kind))
        program = stack.enter_context(scripts.start(code, hosts, path, head=THREADS))
        with holding:
            observer.wait_queue(path + below, 1 + nodes)
            assert program.stdin is not None
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout is not None
            assert program.stdout.readline() == "ended\n"
            observer.wait_queue(path + below, 1)
        observer.wait_queue(path + below, 0)
        output, errors = program.communicate("\n", 20)
    assert (program.returncode, output, errors) == (0, "", "")


@pytest.mark.parametrize("end", ENDS)
def test_a_granted_lock_that_was_not_taken_is_released(
    client: zklock.Client, hosts: str, path: str, observer: Observer, end: str
) -> None:
    """The hub has been woken, and is destroyed before it runs the greenlet."""
    code = f"""
    client, kept = zklock.Client(hosts), []
    def work():
        kept.append(gevent.spawn(zklock.Mutex(client, path).acquire))
        # The hub does not run any more from here on.
        gevent.sleep(0)
        print("waits")
        while not client.stats().acquisitions:
            time.sleep(0.01)
        print(kept[0].ready())
        {ENDS[end]}
        {STAYS[end]}
    working = threading.Thread(target=work)
    working.start()
    working.join()
    print("ended")
    sys.stdin.readline()
    """
    lock = zklock.Mutex(client, path)
    lock.acquire()
    with scripts.start(code, hosts, path, head=THREADS) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "waits\n"
        observer.wait_queue(path, 2)
        lock.release()
        assert [program.stdout.readline() for _ in range(2)] == ["False\n", "ended\n"]
        observer.wait_queue(path, 0)
        output, errors = program.communicate("\n", 20)
    assert (program.returncode, output, errors) == (0, "", "")


def test_a_lock_that_a_greenlet_has_taken_stays_held(hosts: str, path: str) -> None:
    """A lock that was acquired before its hub was destroyed stays held, as with a closed event loop."""
    code = """
    client, kept = zklock.Client(hosts), []
    lock = zklock.Mutex(client, path, reentrant=False)
    def work():
        gevent.spawn(lock.acquire).join()
        gevent.get_hub().destroy()
    working = threading.Thread(target=work)
    working.start()
    working.join()
    print(lock.lease.state, len(lock.contenders()))
    """
    done = scripts.run(code, hosts, path, head=THREADS)
    assert (done.stdout, done.stderr) == ("held 1\n", ""), done


def test_the_next_hub_of_a_thread_is_left_alone(
    client: zklock.Client, hosts: str, path: str, observer: Observer
) -> None:
    """Both hubs use the same event loop. The second hub must not wake a greenlet of the destroyed one."""
    code = """
    client = zklock.Client(hosts)
    kept = gevent.spawn(zklock.Mutex(client, path).acquire)
    gevent.sleep(0)
    print("waits")
    sys.stdin.readline()
    gevent.get_hub().destroy()
    waiting = gevent.spawn(zklock.Mutex(client, path).acquire, timeout=20)
    gevent.sleep(0)
    print("waits again")
    print(waiting.get(), gevent.wait(timeout=20))
    """
    with scripts.start(code, hosts, path, head=THREADS) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        with zklock.Mutex(client, path):
            assert program.stdout.readline() == "waits\n"
            [_, first] = observer.wait_queue(path, 2)
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline() == "waits again\n"
            observer.wait(path, lambda queue: len(queue) == 2 and first not in queue, "other contender")
        output, errors = program.communicate(timeout=20)
    assert (program.returncode, output, errors) == (0, "True True\n", "")


@pytest.mark.parametrize("end", ENDS)
def test_the_hubs_of_other_threads_are_left_alone(
    client: zklock.Client, hosts: str, path: str, observer: Observer, end: str
) -> None:
    code = f"""
    client, kept = zklock.Client(hosts), []
    def work():
        kept.append(gevent.spawn(zklock.Mutex(client, path).acquire))
        gevent.sleep(0)
        {ENDS[end]}
    waiting = gevent.spawn(zklock.Mutex(client, path).acquire, timeout=20)
    gevent.sleep(0)
    working = threading.Thread(target=work)
    working.start()
    working.join()
    print("ended")
    print(waiting.get())
    """
    lock = zklock.Mutex(client, path)
    lock.acquire()
    with scripts.start(code, hosts, path, head=THREADS) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ended\n"
        observer.wait_queue(path, 2)
        lock.release()
        output, errors = program.communicate(timeout=20)
    assert (program.returncode, output, errors) == (0, "True\n", "")


def test_a_greenlet_that_runs_after_its_hub_ended_gets_an_error(hosts: str, path: str) -> None:
    """A greenlet runs again if another greenlet switches to it."""
    code = """
    import greenlet
    client = zklock.Client(hosts)
    held, lock = zklock.Mutex(client, path), zklock.Mutex(client, path)
    def wait():
        try:
            lock.acquire()
        except RuntimeError as error:
            print(error)
    def work():
        hub, first, waiting = gevent.get_hub(), gevent.getcurrent(), greenlet.greenlet(wait)
        hub.loop.run_callback(first.switch)
        waiting.switch()
        hub.destroy()
        waiting.switch()
    held.acquire()
    working = threading.Thread(target=work)
    working.start()
    working.join()
    # Its node goes in the background, once it is known.
    deadline = time.monotonic() + 10
    while len(held.contenders()) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    print(len(held.contenders()))
    """
    done = scripts.run(code, hosts, path, head=THREADS)
    received, contenders = done.stdout.splitlines()
    assert "has ended" in received
    assert (contenders, done.stderr) == ("1", "")


def test_in_a_forked_child_a_hub_ends_by_itself(hosts: str, path: str, observer: Observer) -> None:
    """The waits in it belong to the parent."""
    code = """
    lock = zklock.Mutex(hosts, path)
    lock.acquire()
    waiting = gevent.spawn(lock.acquire)
    while len(lock.contenders()) < 2:
        gevent.sleep(0.01)
    if os.fork() == 0:
        gevent.get_hub().destroy()
        print("destroyed")
        sys.exit()
    os.wait()
    print(len(lock.contenders()))
    lock.release()
    print(waiting.get(timeout=10))
    """
    done = scripts.run(code, hosts, path, head=THREADS)
    assert (done.stdout.splitlines(), done.stderr) == (["destroyed", "2", "True"], ""), done
    observer.wait_queue(path, 0)


def test_hubs_end_while_other_threads_begin_to_wait(hosts: str, path: str, observer: Observer) -> None:
    """Other threads start and end waits while `destroy` iterates over the waits of its hub.

    When all threads shared one set of waits, `destroy` failed with a `RuntimeError`, and the waiters of its
    hub stayed in the queue. To provoke this error, the threads switch as often as possible, and there are
    many waits."""
    code = """
    sys.setswitchinterval(1e-6)
    client, ended, kept = zklock.Client(hosts), threading.Event(), []
    lock = zklock.Mutex(client, path)
    lock.acquire()
    lease = lock.lease
    def work():
        try:
            for _ in range(50):
                kept.append(gevent.spawn(lock.acquire))
                gevent.sleep(0)
                gevent.get_hub().destroy()
        finally:
            ended.set()
    waiting = [gevent.spawn(lease.wait_lost) for _ in range(300)]
    gevent.sleep(0)
    working = threading.Thread(target=work)
    working.start()
    while not ended.is_set():
        lease.wait_lost(0.0001)
    working.join()
    print(len(kept))
    sys.stdin.readline()
    """
    with scripts.start(code, hosts, path, head=THREADS) as program:
        assert program.stdout is not None
        received = program.stdout.readline()
        observer.wait_queue(path, 1)
        output, errors = program.communicate("\n", 20)
    assert (program.returncode, received + output, errors) == (0, "50\n", "")


@pytest.mark.parametrize("end", ["hub.destroy(True)", "gevent.hub.Hub.destroy(hub, True)"])
@pytest.mark.parametrize("where", ["this thread", "another thread"])
def test_after_a_fork_a_waiter_in_another_hub_gets_an_error(
    hosts: str, path: str, observer: Observer, where: str, end: str
) -> None:
    """In a forked child, the waiters of a destroyed hub cannot be woken, because its loop rejects callbacks.

    Regression: this failure prevented the wake-up of waiters in other hubs. The destroyed hub has many
    waiters, so that at least one of them precedes the waiter in the other hub.
    """
    code = f"""
    lock, kept = zklock.Mutex(hosts, path), []
    lock.acquire()
    def end():
        hub = gevent.get_hub()
        kept.extend(gevent.spawn(lock.acquire) for _ in range(20))
        gevent.sleep(0)
        {end}
    if {where == "this thread"}:
        end()
    else:
        ending = threading.Thread(target=end)
        ending.start()
        ending.join()
    def wait():
        try:
            lock.acquire()
        except zklock.Forked:
            return "forked"
        return "acquired"
    waiting = gevent.spawn(wait)
    gevent.sleep(0)
    if os.fork() == 0:
        print(waiting.get(timeout=10))
        sys.exit()
    os.wait()
    lock.release()
    print("parent")
    """
    done = scripts.run(code, hosts, path, timeout=40, head=THREADS)
    assert (done.stdout.splitlines(), done.stderr) == (["forked", "parent"], ""), done
    observer.wait_queue(path, 0)
