"""No exit of a process causes a panic, a hang or output on stderr. Each exit frees the locks."""

from __future__ import annotations

import signal

import pytest
import scripts
from harness.observer import Observer
from harness.steps import assert_within

import zklock

ENDS = {
    "return": ("", 0, ""),
    "sys.exit": ("sys.exit(3)", 3, ""),
    "exception": ("raise KeyError('on purpose')", 1, "KeyError: 'on purpose'"),
}

SCENES = {
    "held lease": """
        lock = zklock.Mutex(hosts, path)
        lock.acquire()
        """,
    "held by a client": """
        lock = zklock.Mutex(zklock.Client(hosts), path)
        lock.acquire()
        """,
    "daemon thread waiting": """
        lock = zklock.Mutex(zklock.Client(hosts), path + "-busy")
        threading.Thread(target=lock.acquire, daemon=True).start()
        while len(lock.contenders()) < 2: time.sleep(0.01)
        """,
    "daemon thread trying": """
        turns = []
        def work():
            lock = zklock.Mutex(hosts, path)
            try:
                while True:
                    with lock: turns.append(threading.get_ident())
            except zklock.Error: pass
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        while len(set(turns)) < 4: time.sleep(0.01)
        """,
    "pending future": """
        async def acquire(lock):
            return await lock.acquire()

        event_loop = asyncio.new_event_loop()
        waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path + "-busy")))
        busy = zklock.Mutex(hosts, path + "-busy")
        while len(busy.contenders()) < 2: event_loop.run_until_complete(asyncio.sleep(0.01))
        """,
    "outcome not taken": """
        async def acquire(lock):
            return await lock.acquire()

        event_loop = asyncio.new_event_loop()
        waiting = event_loop.create_task(acquire(aio.Mutex(hosts, path)))
        event_loop.run_until_complete(asyncio.sleep(0))
        other = zklock.Mutex(hosts, path)
        while not other.locked(): time.sleep(0.01)
        """,
    "event loop in a daemon thread": """
        turns = []
        async def work():
            lock = aio.Mutex(hosts, path)
            try:
                while True:
                    async with lock: turns.append(1)
            except zklock.Error: pass
        threading.Thread(target=asyncio.run, args=(work(),), daemon=True).start()
        while len(turns) < 3: time.sleep(0.01)
        """,
    "unreachable server": """
        client = zklock.Client("127.0.0.1:1", connect=False)
        threading.Thread(target=zklock.Mutex(client, path).acquire, daemon=True).start()
        while client.state == "idle": time.sleep(0.01)
        """,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("scene", SCENES)
def test_exit(client: zklock.Client, observer: Observer, hosts: str, path: str, scene: str, end: str) -> None:
    statement, status, error = ENDS[end]
    with zklock.Mutex(client, path + "-busy"):
        done = scripts.run(f"{SCENES[scene]}\n        {statement}\n", hosts, path, timeout=15)
        # Immediately means: long before the session timeout.
        observer.wait_queue(path, 0, timeout=2)
        observer.wait_queue(path + "-busy", 1, timeout=2)
    assert done.returncode == status, done
    for word in ("panicked", "fatal", "Fatal", "FATAL", "abort", "thread '"):
        assert word not in done.stderr, done
    if error:
        assert error in done.stderr
    # asyncio itself complains about tasks and loops that a program leaves behind.
    elif not scene.startswith(("pending", "outcome", "event loop")):
        assert done.stderr == "", done


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os._exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_locks_of_a_killed_process_are_freed_with_its_session(
    client: zklock.Client, observer: Observer, hosts: str, path: str, end: str, status: int
) -> None:
    """Held and awaited locks are freed with the session."""
    with zklock.Mutex(client, path + "-busy"):
        done = scripts.run(
            f"""
            client = zklock.Client(hosts, session_timeout=1)
            busy, lock = zklock.Mutex(client, path + "-busy"), zklock.Mutex(client, path)
            threading.Thread(target=busy.acquire, daemon=True).start()
            while len(busy.contenders()) < 2: time.sleep(0.01)
            lock.acquire()
            {end}
            """,
            hosts,
            path,
        )
        assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
        observer.wait_queue(path, 0, timeout=3)
        observer.wait_queue(path + "-busy", 1, timeout=3)


def test_an_uncaught_interrupt(client: zklock.Client, observer: Observer, hosts: str, path: str) -> None:
    with zklock.Mutex(client, path):
        waiter = scripts.start("zklock.Mutex(hosts, path).acquire()", hosts, path)
        with waiter:
            observer.wait_queue(path, 2)
            waiter.send_signal(signal.SIGINT)
            observer.wait_queue(path, 1, timeout=2)
            _, errors = waiter.communicate(timeout=10)
    assert waiter.returncode == -signal.SIGINT
    assert errors.strip().endswith("KeyboardInterrupt")
    assert "panicked" not in errors


def test_locks_work_in_exit_handlers(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        import atexit

        lock = zklock.Mutex(hosts, path)

        @atexit.register
        def last():
            with lock.hold(timeout=5) as lease:
                print(lease.state)
        """,
        hosts,
        path,
    )
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("held", "", 0)


def test_an_unreachable_server_delays_the_end_by_a_second_at_most(path: str) -> None:
    done = scripts.run(
        """
        import atexit
        atexit.register(lambda: print(time.monotonic_ns()))
        threading.Thread(target=zklock.Mutex(hosts, path).acquire, daemon=True).start()
        time.sleep(0.1)
        atexit.unregister(zklock._zklock.shutdown)
        atexit.register(zklock._zklock.shutdown)
        atexit.register(lambda: print(time.monotonic_ns()))
        """,
        path=path,
    )
    started, ended = map(int, done.stdout.split())
    assert_within({"t": ended}, started, 1, late=0.5)
