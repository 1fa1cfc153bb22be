"""gevent: each greenlet is an owner, and other greenlets run while one waits."""

from __future__ import annotations

import signal

import pytest
import scripts
from harness.observer import Observer
from harness.proxy import Proxy

import zklock

HEAD = """
from gevent import monkey
monkey.patch_all()
import asyncio, os, signal, sys, threading, time, warnings
import gevent, zklock
hosts, path = os.environ["ZKLOCK_HOSTS"], os.environ["LOCK_PATH"]
# Programs here forget locks, or leave them to the end of the process.
warnings.filterwarnings("ignore", "a greenlet ended|the lock ", ResourceWarning)

class Ticks:
    '''Counts how often the hub runs a greenlet meanwhile.'''
    def __enter__(self):
        self.count, self.greenlet = 0, gevent.spawn(self.tick)
        return self
    def tick(self):
        while True:
            self.count += 1
            gevent.sleep(0.001)
    def __exit__(self, *_):
        self.greenlet.kill()
"""


def run_patched(code: str, hosts: str, path: str, timeout: float = 30) -> list[str]:
    """Run a patched program, and return its output."""
    done = scripts.run(code, hosts, path, timeout, head=HEAD)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def test_a_greenlet_that_ends_while_it_holds_warns(hosts: str, path: str) -> None:
    code = """
    import gc
    lock = zklock.Mutex(hosts, path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gevent.spawn(lock.acquire).join()
        gevent.spawn(lambda: lock.acquire(timeout=0)).join()
        while not caught:
            gc.collect()
            gevent.sleep(0.01)
    print(*[str(warning.message).partition(" after ")[0] for warning in caught])
    """
    assert run_patched(code, hosts, path) == ["a greenlet ended"]


def test_greenlets_exclude_each_other(hosts: str, path: str) -> None:
    """Threads of a patched program are greenlets too."""
    code = """
    client = zklock.Client(hosts)
    lock, alone, pool = zklock.Mutex(client, path), zklock.Mutex(client, path + "-alone", reentrant=False), \\
        zklock.Semaphore(client, path + "-pool", 2)
    inside, most = dict.fromkeys((lock, alone, pool), 0), dict.fromkeys((lock, alone, pool), 0)
    met = threading.Event()

    def enter(lock):
        for _ in range(3):
            with lock as lease:
                inside[lock] += 1
                most[lock] = max(most[lock], inside[lock])
                assert lock.lease is lease
                gevent.sleep(0.005)
                if lock is pool:
                    # Wait until the other permit is granted, however long that takes.
                    if inside[lock] == 2: met.set()
                    met.wait(5)
                inside[lock] -= 1

    for one in (lock, alone, pool):
        threads = [threading.Thread(target=enter, args=(one,)) for _ in range(3)]
        greenlets = [gevent.spawn(enter, one) for _ in range(3)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        gevent.joinall(greenlets, raise_error=True)
    print(*most.values())
    """
    assert run_patched(code, hosts, path) == ["1 1 2"]


def test_a_greenlet_re_enters_and_another_does_not_own(hosts: str, path: str) -> None:
    code = """
    lock = zklock.Mutex(hosts, path)
    def enter():
        with lock as outer, zklock.Mutex(hosts, path) as inner:
            assert outer.fencing_token == inner.fencing_token and lock.owned()
            others = gevent.spawn(lambda: (lock.owned(), lock.lease, lock.acquire(blocking=False))).get()
            print(*others)
    # The main greenlet has the same owner as the thread had before gevent was imported.
    enter()
    gevent.spawn(enter).get()
    """
    assert run_patched(code, hosts, path) == ["False None False"] * 2


CALLS = {
    "Client": "zklock.Client(hosts)",
    "acquire": "lock.acquire()",
    "acquire in vain": "other.acquire(timeout=0.3)",
    "try": "other.acquire(blocking=False)",
    "locked": "lock.locked()",
    "contenders": "lock.contenders()",
    "wait_lost": "lock.lease.wait_lost(0.3)",
    "commit": "lock.lease.transaction().create('/made-' + path[8:], b'').commit()",
    "revoke": "client.revoke(lock.lease.node)",
    "release": "lock.release()",
    "enter": "lock.__enter__()",
    "exit": "lock.__exit__(None, None, None)",
    "hold": "other.hold(5).__enter__()",
    "lease.release": "other.lease.release()",
    "read": "both.read_lock.acquire()",
    "write": "zklock.ReadWriteLock(away, path + '-both').write_lock.acquire(timeout=0.3)",
    "semaphore": "pool.acquire()",
    "acquire_many": "pool.acquire_many(2)",
    "read release": "both.read_lock.release()",
    "multi": "multi.acquire()",
    "multi release": "multi.release()",
    "break_lock": "client.break_lock(other.contenders()[0].node)",
    "close": "client.close()",
    "exit of a client": "away.__exit__(None, None, None)",
}


def test_every_wait_lets_other_greenlets_run(hosts: str, path: str) -> None:
    """While a greenlet waits for a slow server or for a lock, the hub runs other greenlets."""
    code = f"""
    client, away = zklock.Client(hosts), zklock.Client(hosts)
    lock, other = zklock.Mutex(client, path), zklock.Mutex(away, path)
    both, pool = zklock.ReadWriteLock(client, path + "-both"), zklock.Semaphore(client, path + "-pool", 3)
    multi = zklock.MultiLock([lock, both.read_lock])
    with Ticks() as ticks:
        for name, call in {CALLS!r}.items():
            if name == "break_lock":
                other.acquire()
            before = ticks.count
            result = eval(call)
            print(name, ticks.count - before)
    """
    with Proxy(hosts, delay=0.05) as distant:
        lines = run_patched(code, distant.hosts, path)
    counts = {name: int(count) for name, count in (line.rsplit(" ", 1) for line in lines)}
    assert list(counts) == list(CALLS)
    # On an idle machine, a round trip takes 100 ticks.
    assert min(counts.values()) >= 3, counts


@pytest.mark.parametrize(
    ("leave", "expected"),
    [
        ("gevent.Timeout(0.2)", "Timeout"),
        ("gevent.Timeout(0.2, False)", "nothing"),
        ("gevent.Timeout(0.2, KeyError)", "KeyError"),
        ("KillLater()", "GreenletExit"),
        ("KillLater(KeyboardInterrupt)", "KeyboardInterrupt"),
    ],
)
def test_what_ends_a_wait_leaves_the_queue(
    hosts: str, path: str, observer: Observer, leave: str, expected: str
) -> None:
    code = f"""
    class KillLater:
        def __init__(self, how=gevent.GreenletExit):
            self.how = how
        def __enter__(self):
            gevent.spawn_later(0.2, gevent.getcurrent().kill, self.how)
        def __exit__(self, *_):
            pass

    lock = zklock.Mutex(hosts, path)
    def wait():
        try:
            with {leave}:
                lock.acquire()
        except BaseException as error:
            print(type(error).__name__)
        else:
            print("nothing")
    lock.acquire()
    gevent.spawn(wait).join()
    print("left")
    sys.stdin.readline()
    lock.release()
    # It can acquire again: no other contender holds the lock.
    print(gevent.spawn(lock.acquire, timeout=5).get())
    """
    with scripts.start(code, hosts, path, head=HEAD) as waiting:
        assert waiting.stdout is not None
        assert [waiting.stdout.readline() for _ in range(2)] == [expected + "\n", "left\n"]
        observer.wait_queue(path, 1)
        output, errors = waiting.communicate("\n", 20)
    assert (waiting.returncode, output, errors) == (0, "True\n", "")


def test_many_waits_that_end_differently_leave_no_node(hosts: str, path: str) -> None:
    """Many waits are granted, time out or are killed. A lock has one holder at a time. No node is left."""
    code = """
    import random
    random.seed(7)
    clients = [zklock.Client(hosts) for _ in range(2)]
    inside, ended = set(), dict(held=0, late=0, timed_out=0)
    def use():
        for _ in range(4):
            lock = zklock.Mutex(random.choice(clients), f"{path}/{random.randrange(3)}")
            try:
                ours, its = random.choice([0.01, 0.05, 2]), random.choice([0.02, 0.5, -1])
                with gevent.Timeout(ours), lock.hold(its):
                    assert lock.path not in inside
                    inside.add(lock.path)
                    try:
                        gevent.sleep(random.choice([0, 0.001, 0.004]))
                    finally:
                        inside.remove(lock.path)
                ended["held"] += 1
            except gevent.Timeout:
                ended["timed_out"] += 1
            except zklock.LockTimeout:
                ended["late"] += 1
    users = [gevent.spawn(use) for _ in range(60)]
    while not all(user.dead for user in users):
        gevent.sleep(0.02)
        random.choice(users).kill(block=False)
    [user.get() for user in users]
    locks = [zklock.Mutex(clients[0], f"{path}/{n}") for n in range(3)]
    # The nodes of waiters that gave up are deleted in the background.
    deadline = time.monotonic() + 10
    while any(lock.contenders() for lock in locks) and time.monotonic() < deadline:
        gevent.sleep(0.01)
    print(all(ended.values()), [lock.contenders() for lock in locks])
    """
    assert run_patched(code, hosts, path) == ["True [[], [], []]"]


def test_control_c_leaves_the_queue(hosts: str, path: str, client: zklock.Client, observer: Observer) -> None:
    code = """
    try:
        zklock.Mutex(hosts, path).acquire()
    except KeyboardInterrupt:
        print("interrupted", [gevent.sleep(0.5)])
    sys.stdin.readline()
    """
    with zklock.Mutex(client, path), scripts.start(code, hosts, path, head=HEAD) as waiting:
        observer.wait_queue(path, 2)
        waiting.send_signal(signal.SIGINT)
        observer.wait_queue(path, 1)
        output, errors = waiting.communicate("\n", 20)
    assert (waiting.returncode, output, errors) == (0, "interrupted [None]\n", "")


def test_native_threads_work_beside_greenlets(hosts: str, path: str) -> None:
    """The threads of gevent's pool are native. Each thread is an owner, and its waits block no greenlet."""
    code = """
    lock, inside = zklock.Mutex(hosts, path), []
    def enter(sleep):
        for _ in range(5):
            with lock:
                inside.append(1)
                assert sum(inside) == 1
                sleep(0.002)
                inside.pop()
    from gevent.monkey import get_original
    pool = gevent.get_hub().threadpool
    native = [pool.spawn(enter, get_original("time", "sleep")) for _ in range(3)]
    # This thread has its own hub as soon as it waits for the first time.
    native.append(pool.spawn(enter, gevent.sleep))
    greenlets = [gevent.spawn(enter, gevent.sleep) for _ in range(3)]
    gevent.joinall(greenlets, raise_error=True)
    print([result.get() for result in native])
    """
    assert run_patched(code, hosts, path) == ["[None, None, None, None]"]


def test_waits_import_nothing(hosts: str, path: str) -> None:
    """A wait on a native thread imports no module, because a patched process uses gevent's import locks."""
    code = """
    class Finder:
        sought = []
        def find_spec(self, name, path=None, target=None):
            self.sought.append(name)
    def use():
        with zklock.Mutex(hosts, path) as lease:
            lease.check()
    pool = gevent.get_hub().threadpool
    pool.spawn(time.time).get()
    sys.meta_path.insert(0, Finder())
    for spawn in (pool.spawn, gevent.spawn):
        spawn(use).get()
    use()
    print(Finder.sought)
    """
    assert run_patched(code, hosts, path) == ["[]"]


def test_a_wait_leaves_nothing_behind_in_the_hub(hosts: str, path: str) -> None:
    """No watcher is left in the hub after a wait. Otherwise `gevent.wait()` would never return."""
    code = """
    lock = zklock.Mutex(hosts, path)
    with lock:
        gevent.spawn(lock.acquire, timeout=0.1).join()
        waiting = gevent.spawn(lock.acquire)
        gevent.sleep(0.05)
        waiting.kill()
        print(gevent.wait(timeout=10))
    """
    assert run_patched(code, hosts, path) == ["True"]


def test_callbacks_run_in_greenlets(hosts: str, path: str) -> None:
    """A callback is a greenlet, so it can set a patched event or wait for a lock."""
    code = """
    client = zklock.Client(hosts)
    main, lost, closed = threading.get_native_id(), threading.Event(), gevent.event.Event()
    def on_lost(lease):
        native = threading.get_native_id() == main and isinstance(gevent.getcurrent(), gevent.Greenlet)
        with zklock.Mutex(hosts, path + "-other"):
            gevent.sleep(0.01)
        print(lease.state, native)
        lost.set()
    def on_state(state):
        print(state)
        closed.set()
    lock = zklock.Mutex(client, path)
    with lock as lease:
        lease.on_lost(on_lost)
        client.on_state(on_state)
        client.close()
        print(lost.wait(10), closed.wait(10))
    """
    done = scripts.run(code, hosts, path, head=HEAD)
    assert sorted(done.stdout.splitlines()) == ["True True", "closed", "lost True"], done
    assert "LockLost" in done.stderr


def test_the_hub_itself_does_not_wait(hosts: str, path: str) -> None:
    """An acquire in gevent's hub raises an error, because a wait in the hub would block all greenlets."""
    code = """
    lock = zklock.Mutex(hosts, path)
    lock.acquire()
    lease = lock.lease
    def release(_):
        try:
            zklock.Mutex(hosts, path).acquire()
        except RuntimeError as error:
            print(error)
        lease.release(wait=False)
        print(lease.state)
    ended = gevent.spawn(gevent.sleep)
    ended.rawlink(release)
    ended.join()
    gevent.sleep()
    """
    refused, state = run_patched(code, hosts, path)
    assert "gevent.spawn" in refused
    assert state == "released"


def test_a_generator_ends_its_own_scope_in_any_greenlet(hosts: str, path: str) -> None:
    code = """
    import gevent.event
    slots = zklock.Semaphore(hosts, path, 5)
    def rows():
        with slots as lease:
            yield lease
    def work():
        with slots as lease:
            leave.wait()
            lease.check()
            return lease.state
    leave = gevent.event.Event()
    generator = rows()
    first = gevent.spawn(next, generator).get()
    working = gevent.spawn(work)
    gevent.sleep(0.1)
    gevent.spawn(generator.close).join()
    print(first.state)
    leave.set()
    print(working.get())
    # Another greenlet can end the scope of a dead greenlet.
    import contextlib
    stack = contextlib.ExitStack()
    dead = gevent.spawn(stack.enter_context, slots)
    lease = dead.get()
    with slots as own:
        stack.close()
        print(lease.state, own.state)
    """
    assert run_patched(code, hosts, path) == ["released", "held", "released held"]


def test_a_callback_that_blocks_stops_no_greenlet(hosts: str, path: str) -> None:
    """If a thread without a hub registers a callback, the callback runs on a native thread."""
    code = """
    native = monkey.get_original("_thread", "allocate_lock")
    begun, blocked = native(), native()
    begun.acquire(), blocked.acquire()
    client = zklock.Client(hosts)
    def register():
        client.on_state(lambda state: [begun.release(), blocked.acquire()])
    gevent.get_hub().threadpool.spawn(register).get()
    client.close()
    while not begun.acquire(False):
        gevent.sleep(0.01)
    lock, other = zklock.Mutex(hosts, path), zklock.Mutex(hosts, path)
    lock.acquire()
    waiting = gevent.spawn(other.acquire)
    gevent.sleep(0.1)
    lock.release()
    print(waiting.get(timeout=10))
    blocked.release()
    """
    assert run_patched(code, hosts, path) == ["True"]


def test_a_fork(hosts: str, path: str, observer: Observer) -> None:
    """If the process forks while a greenlet waits, the wait fails in the child. The next wait works."""
    code = """
    lock = zklock.Mutex(hosts, path)
    lock.acquire()
    def wait():
        try:
            lock.acquire()
        except zklock.Forked:
            return "forked"
        return "acquired"
    waiting = gevent.spawn(wait)
    gevent.sleep(0.2)
    if os.fork() == 0:
        ended = waiting.get(timeout=10)
        other = zklock.Mutex(hosts, path + "-child")
        print("child:", ended, gevent.spawn(other.acquire).get())
        sys.exit()
    os.wait()
    lock.release()
    print("parent:", waiting.get(timeout=10))
    """
    assert run_patched(code, hosts, path) == ["child: forked True", "parent: acquired"]
    observer.wait_queue(path, 0)
    observer.wait_queue(f"{path}-child", 0)


def test_locks_are_free_at_once_when_the_process_ends(hosts: str, path: str, observer: Observer) -> None:
    code = """
    locks = [zklock.Mutex(hosts, f"{path}/{n}") for n in range(3)]
    [gevent.spawn(lock.acquire).join() for lock in locks]
    waiting = gevent.spawn(zklock.Mutex(hosts, path + "/0").acquire)
    gevent.sleep(0.1)
    """
    assert run_patched(code, hosts, path) == []
    for number in range(3):
        observer.wait_queue(f"{path}/{number}", 0, timeout=2)


def test_the_log_thread_is_a_native_thread(hosts: str, path: str) -> None:
    """A patched `threading` would run the log thread as a greenlet that blocks the delivery thread."""
    code = """
    import logging
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(threadName)s %(message)s")
    lock = zklock.Mutex(hosts, path)
    [gevent.spawn(lambda: [lock.acquire(), gevent.sleep(), lock.release()]).join() for _ in range(3)]
    # Write in one call, because the log thread writes too.
    sys.stdout.write("done\\n")
    """
    lines = run_patched(code, hosts, path)
    assert "done" in lines
    assert any(line.startswith("zklock-log acquired") for line in lines), lines
    assert any(line.startswith("zklock-log closed") for line in lines), lines


def test_zklock_may_be_used_before_gevent_patches(hosts: str, path: str) -> None:
    """A lock that the main thread acquired before the patch belongs to the main greenlet afterwards."""
    head = (
        scripts.HEAD
        + """
client = zklock.Client(hosts)
lock = zklock.Mutex(client, path)
lock.acquire()
from gevent import monkey
monkey.patch_all()
import gevent
"""
    )
    code = """
    print(lock.owned(), gevent.spawn(lock.acquire, timeout=0.1).get())
    waiting = gevent.spawn(lock.acquire)
    gevent.sleep(0.05)
    lock.release()
    print(waiting.get(timeout=10))
    """
    done = scripts.run(code, hosts, path, head=head)
    assert done.stdout.splitlines() == ["True False", "True"], done


def test_greenlets_without_monkey_patching(hosts: str, path: str) -> None:
    """Greenlets are owners even if nothing is patched."""
    head = HEAD.replace("monkey.patch_all()", "")
    code = """
    client = zklock.Client(hosts)
    lock = zklock.Mutex(client, path)
    with Ticks() as ticks:
        gevent.spawn(lock.acquire).join()
        print(lock.acquire(timeout=0.2), ticks.count > 5)
    """
    assert scripts.run(code, hosts, path, head=head).stdout.splitlines() == ["False True"]


def test_a_program_without_gevent_does_not_import_it(hosts: str, path: str) -> None:
    code = """
    with zklock.Mutex(hosts, path):
        print([name for name in sys.modules if name.startswith(("gevent", "greenlet", "eventlet"))])
    """
    assert scripts.run(code, hosts, path).stdout == "[]\n"


def test_eventlet_is_refused(hosts: str, path: str) -> None:
    """An acquire on a thread that runs green threads raises an error. On a native thread it works."""
    head = """
import eventlet
eventlet.monkey_patch()
import os, zklock
hosts, path = os.environ["ZKLOCK_HOSTS"], os.environ["LOCK_PATH"]
"""
    code = """
    for use in (lambda: zklock.Client(hosts), zklock.Mutex(hosts, path).acquire):
        try:
            use()
        except RuntimeError as error:
            print(error)
    from eventlet import tpool
    lock = zklock.Mutex(hosts, path)
    print(tpool.execute(lambda: [lock.acquire(), lock.release()]))
    """
    done = scripts.run(code, hosts, path, head=head)
    *refused, worked = done.stdout.splitlines()
    assert worked == "[True, None]", done
    assert len(refused) == 2
    assert all("gevent" in line and "tpool" in line for line in refused)
