"""The state of a client, and dumps of a program that hangs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import scripts
from harness.observer import Observer

import zklock
from zklock import aio


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.005)


def test_a_client_that_never_connected() -> None:
    health = zklock.Client("127.0.0.1:1", connect=False).health()
    assert (health.state, health.session_id, health.server) == ("idle", 0, None)
    assert (health.last_proof, health.remaining, health.session_timeout) == (None, 0.0, 10.0)
    assert (health.responsive, health.waits, health.holds) == (True, [], [])
    assert health == aio.Client("127.0.0.1:1").health()
    assert repr(health) == "<zklock.Health idle waits=0 holds=0>"


def test_holds_and_waits(client: zklock.Client, other: zklock.Client, hosts: str, path: str) -> None:
    lock, waiting = zklock.Mutex(client, path, label="nightly"), zklock.Mutex(other, path)

    def take() -> None:
        with waiting:
            pass

    with lock as lease, lock:
        thread = threading.Thread(target=take)
        thread.start()
        until(lambda: any(wait.behind for wait in other.health().waits), "it waits")
        health = client.health()
        assert (health.state, health.server) == ("connected", hosts)
        assert health.session_id == client.session_id
        assert health.last_proof is not None
        assert 0 < health.remaining <= health.session_timeout / 2 == client.session_timeout / 2
        (hold,) = health.holds
        assert (hold.path, hold.mode, hold.label, hold.levels, hold.state) == (
            path,
            "mutex",
            "nightly",
            2,
            "held",
        )
        assert (hold.node, hold.fencing_token) == (lease.node, lease.fencing_token)
        assert hold.age > 0 < hold.remaining
        (wait,) = other.health().waits
        assert (wait.path, wait.mode, wait.label, wait.position) == (path, "mutex", None, 1)
        assert wait.behind == lease.node != wait.node
        text = zklock.dump()
        assert f"holds {path} (mutex, nightly) for " in text
        assert f"waits for {path} (mutex) for " in text
        assert f"behind {lease.node}" in text
    thread.join(60)
    assert client.health().holds == []
    client.close()
    assert (client.health().state, client.health().server) == ("closed", None)


def line_of(text: str, start: str) -> str:
    """Return the line of a dump that begins with `start`."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(start)]
    return line


def permit_is_awaited(client: zklock.Client) -> bool:
    """Return whether the first contender in a semaphore's queue waits for its permits."""
    return any("/leases/" in (wait.node or "") for wait in client.health().waits)


def test_a_dump_names_threads_and_their_lines(client: zklock.Client, other: zklock.Client, path: str) -> None:
    locks = {
        "mutex": zklock.Mutex(other, path),
        "single": zklock.Mutex(other, path, reentrant=False),
        "semaphore": zklock.Semaphore(other, path + "-s", 1),
        "election": zklock.Election(other, path + "-e"),
        "several": zklock.MultiLock([zklock.Mutex(other, path)]),
    }

    def take(lock: Any) -> None:
        with lock.lead() if isinstance(lock, zklock.Election) else lock:
            pass

    line = take.__code__.co_firstlineno + 1
    holds = (
        zklock.Mutex(client, path),
        zklock.Semaphore(client, path + "-s", 1),
        zklock.Election(client, path + "-e").lead(),
    )
    threads = [
        threading.Thread(target=take, args=(lock,), name=f"worker-{name}") for name, lock in locks.items()
    ]
    with holds[0], holds[1], holds[2]:
        for thread in threads:
            thread.start()
        ends = [f" (thread worker-{name} at {__file__}:{line} in take)\n" for name in locks]
        # A semaphore's contender first waits in the queue, and then for its permits. Between the two, it
        # reports no wait.
        until(lambda: all(end in zklock.dump() for end in ends) and permit_is_awaited(other), "all wait")
        text = zklock.dump()
        assert [text.count(end) for end in ends] == [1] * len(ends), text
        here = f" in {sys._getframe().f_code.co_name})\n"
        assert text.count(f" (thread MainThread at {__file__}:") == text.count(here) == 3
        # All lines of one owner have the same number.
        numbers = re.findall(r", by owner (\d+) \(thread MainThread at ", text)
        assert len(numbers) == 3
        assert len(set(numbers)) == 1
    for thread in threads:
        thread.join(60)


def test_a_dump_names_tasks_and_their_lines(hosts: str, path: str) -> None:
    async def body() -> None:
        async with aio.Client(hosts) as client:
            lock, election = aio.Mutex(client, path), aio.Election(client, path + "-e")
            slots = aio.Semaphore(client, path + "-s", 2)

            async def take(entered: asyncio.Event) -> None:
                async with lock, election.lead(), slots.acquire_many(2):
                    entered.set()
                    await asyncio.get_running_loop().create_future()

            async def nested(entered: asyncio.Event) -> None:
                await take(entered)

            entered = asyncio.Event()
            line = take.__code__.co_firstlineno
            first = asyncio.create_task(nested(entered), name="first")
            await entered.wait()
            second = asyncio.create_task(take(asyncio.Event()), name="second")
            while not client.health().waits:
                await asyncio.sleep(0.01)
            text = zklock.dump()
            assert text.count(f" (task first at {__file__}:{line + 3} in take)\n") == 4, text
            assert text.count(f" (task second at {__file__}:{line + 1} in take)\n") == 1, text
            for task in (first, second):
                task.cancel()
            await asyncio.wait((first, second))

    asyncio.run(body())


NO_NAMES: dict[str, Callable[[], Any]] = {
    "raises": lambda: 1 // 0,
    "no text": lambda: 5,
    "empty": lambda: "",
}


@pytest.mark.parametrize("case", NO_NAMES)
def test_a_task_without_a_usable_name_hides_no_other_from_a_dump(hosts: str, path: str, case: str) -> None:
    class Odd(asyncio.Task[Any]):
        def get_name(self) -> Any:
            return NO_NAMES[case]()

    async def take(lock: aio.Lock, entered: asyncio.Event) -> None:
        async with lock:
            entered.set()
            await asyncio.get_running_loop().create_future()

    async def body() -> None:
        async with aio.Client(hosts) as client:
            odd, even = asyncio.Event(), asyncio.Event()
            first: asyncio.Task[Any] = Odd(take(aio.Mutex(client, path), odd))
            await odd.wait()
            second = asyncio.create_task(take(aio.Mutex(client, path + "-b"), even), name="even")
            await even.wait()
            text = zklock.dump()
            for task in (first, second):
                task.cancel()
            await asyncio.wait((first, second))
        line = take.__code__.co_firstlineno + 3
        here = f" at {__file__}:{line} in take)"
        assert line_of(text, f"holds {path} ").endswith(f" (task without a name{here}"), text
        assert line_of(text, f"holds {path}-b ").endswith(f" (task even{here}"), text

    asyncio.run(body())


@pytest.mark.parametrize("case", NO_NAMES)
def test_a_thread_without_a_usable_name_hides_no_other_from_a_dump(
    client: zklock.Client, path: str, case: str
) -> None:
    class Odd(threading.Thread):
        @property
        def name(self) -> Any:
            return NO_NAMES[case]() if broken else "odd"

        @name.setter
        def name(self, name: str) -> None: ...

    def take() -> None:
        with zklock.Mutex(client, path):
            taken.set()
            done.wait(60)

    broken = False
    taken, done = threading.Event(), threading.Event()
    thread = Odd(target=take)
    with zklock.Mutex(client, path + "-b"):
        thread.start()
        assert taken.wait(60)
        broken = True
        text = zklock.dump()
        broken = False
        done.set()
        thread.join(60)
    assert f" (thread {thread.ident} at " in line_of(text, f"holds {path} "), text
    assert " (thread MainThread at " in line_of(text, f"holds {path}-b "), text


def test_a_dump_names_greenlets(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        import gevent
        client = zklock.Client(hosts)
        lock = zklock.Mutex(client, path)
        def wait():
            with zklock.Mutex(client, path): pass
        with lock:
            waiting = gevent.spawn(wait)
            waiting.name = "waiter"
            while not client.health().waits: gevent.sleep(0.01)
            print(zklock.dump())
        waiting.join()
        """,
        hosts,
        path,
    )
    assert done.stderr == ""
    assert " (greenlet waiter at <string>:" in line_of(done.stdout, "waits for")
    assert " in wait" in line_of(done.stdout, "waits for")
    assert " (thread MainThread at <string>:" in line_of(done.stdout, "holds")


def test_a_dump_without_python_s_help_has_the_name_of_the_owner(client: zklock.Client, path: str) -> None:
    """If the owner's thread has ended, a dump shows its name, but no line of code and no other thread."""
    lock = zklock.Mutex(client, path, reentrant=False)
    thread = threading.Thread(target=lock.acquire, name="gone")
    thread.start()
    thread.join()
    following = threading.Thread(target=lambda: print(zklock.dump()), name="following")
    following.start()
    following.join()
    owner = client.health().holds[0].owner
    assert line_of(zklock.dump(), f"holds {path}").endswith(f" left, by owner {owner.number} (gone)")
    lock.release()


def test_in_asyncio(hosts: str, path: str) -> None:
    async def body() -> None:
        async with aio.Client(hosts) as client, aio.Mutex(client, path) as lease:
            (hold,) = client.health().holds
            assert hold.node == lease.node
            assert hold.state == "held"

    asyncio.run(body())


def test_a_dump_and_the_health_in_a_forked_child_say_so_immediately(client: zklock.Client, path: str) -> None:
    with zklock.Mutex(client, path):
        child = os.fork()
        if child == 0:
            health = client.health()
            shown = (health.state, health.session_id, health.holds) == ("forked", client.session_id, [])
            os._exit(0 if shown and "1 hold" not in zklock.dump() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(client.health().holds) == 1


# A program whose main thread waits forever for a lock.
HANGS = """
import signal, sys, threading, zklock
hosts, path, target = sys.argv[1:]
if target == "both":
    signal.signal(signal.SIGUSR1, lambda *_: print("mine too", flush=True))
if target == "file":
    with open("dump.txt", "wb", 0) as file:
        zklock.dump_on(signal.SIGUSR1, file)
else:
    zklock.dump_on(signal.SIGUSR1)
with zklock.Client(hosts) as client:
    print("ready", flush=True)
    zklock.Mutex(client, path).acquire()
"""


@pytest.mark.parametrize("target", ["stderr", "file", "both"])
def test_a_signal_shows_what_a_blocked_program_waits_for(
    client: zklock.Client, observer: Observer, hosts: str, path: str, tmp_path: Path, target: str
) -> None:
    with zklock.Mutex(client, path) as lease:
        command = [sys.executable, "-c", HANGS, hosts, path, target]
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=(tmp_path / "stderr").open("wb"), text=True
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                written = tmp_path / ("dump.txt" if target == "file" else "stderr")

                def dump_is_written() -> bool:
                    process.send_signal(signal.SIGUSR1)
                    return f"behind {lease.node}" in written.read_text()

                until(dump_is_written, "it waits")
                assert f"waits for {path} (mutex) for " in written.read_text()
                if target == "both":
                    assert process.stdout.readline() == "mine too\n"
                assert process.poll() is None, "the signal does not end it"
            finally:
                process.kill()


# A program that calls `dump_on` repeatedly, as if it opened a new log file each day. The C library reserves
# signal 32, so that call fails.
ANEW = """
import os, signal, time, zklock
def used(): return [len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task")]
def register(name):
    with open(name, "wb", 0) as file:
        zklock.dump_on(signal.SIGUSR1, file)
        try: zklock.dump_on(32, file)
        except OSError: return
        raise AssertionError("32 is a signal of glibc's own")
def until(condition):
    limit = time.monotonic() + 20
    while not condition() and time.monotonic() < limit:
        time.sleep(0.005)
register("first")
until(lambda: used()[1] == 2)
before = used()
# It has copies of all descriptors.
child = os.fork()
if child == 0:
    signal.pause()
    os._exit(0)
try:
    for again in range(50):
        register(f"log{again}")
    until(lambda: used() == before)
    assert used() == before, (before, used())
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
os.kill(os.getpid(), signal.SIGUSR1)
until(lambda: os.stat("log49").st_size > 0)
print([name for name in sorted(os.listdir()) if os.stat(name).st_size > 0])
"""


def test_registering_again_changes_the_file_and_costs_nothing(tmp_path: Path) -> None:
    """Repeated calls of `dump_on` leak nothing, even while a forked child keeps the parent's pipes open."""
    command = [sys.executable, "-c", ANEW]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stdout) == (0, "['log49']\n"), done.stderr


def test_signals_and_files_that_cannot_be_used() -> None:
    for number in (0, -1, 1000, signal.SIGKILL, signal.SIGSEGV):
        with pytest.raises(zklock.BadArgument, match="signum"):
            zklock.dump_on(number)
    with pytest.raises(zklock.BadArgument, match="file"):
        zklock.dump_on(signal.SIGUSR2, -1)
    with pytest.raises(OSError, match="descriptor"):
        zklock.dump_on(signal.SIGUSR2, 99_999)
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
