"""`Mutex.once()` and `Mutex.once_per()`: a body that runs once per slot, across all processes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import scripts
from conftest import Run
from harness.built import require
from harness.observer import Observer
from harness.paths import COMMAND
from kazoo.security import make_digest_acl

import zklock
from zklock import aio

SOON = 10.0
LONG = 600.0
HOUR = 3600


class StopError(Exception):
    """An exception of a body."""


def recorded(observer: Observer, path: str) -> dict[str, Any] | None:
    """Return the record of a lock."""
    if not observer.exists(f"{path}.once"):
        return None
    record: dict[str, Any] = json.loads(observer.client.get(f"{path}.once")[0])
    return record


def test_a_body_runs_once_and_returns_its_result(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    lock, far = zklock.Mutex(client, path, label="nightly"), zklock.Mutex(other, path)
    tokens: list[int] = []

    def body(lease: zklock.Lease) -> str:
        assert lock.owned()
        assert lock.lease is lease
        tokens.append(lease.fencing_token)
        return "rows"

    assert lock.once("monday", body) == "rows"
    assert lock.once("monday", body) is None
    assert far.once("monday", lambda _: 1) is None
    record = recorded(observer, path)
    assert record is not None
    assert (record["slot"], record["token"]) == ("monday", str(tokens[0]))
    assert record["by"]["label"] == "nightly"
    assert far.once("tuesday", lambda _: 2) == 2
    assert lock.once("monday", body) == "rows"
    assert (lock.lease, lock.owned()) == (None, False)
    observer.assert_free(path)


def test_a_result_may_be_none(client: zklock.Client, observer: Observer, path: str) -> None:
    runs: list[object] = []
    lock = zklock.Mutex(client, path)
    for _ in range(2):
        assert lock.once("slot", runs.append) is None
    assert len(runs) == 1


def test_a_body_that_fails_records_nothing(client: zklock.Client, observer: Observer, path: str) -> None:
    lock = zklock.Mutex(client, path)

    def fail(_: zklock.Lease) -> None:
        raise StopError

    with pytest.raises(StopError):
        lock.once("slot", fail)
    assert recorded(observer, path) is None
    observer.assert_free(path)
    assert (lock.lease, lock.owned()) == (None, False)
    assert lock.once("slot", lambda _: "again") == "again"


def test_a_slot_that_is_recorded_at_the_start_runs_at_most_once(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    lock = zklock.Mutex(client, path)

    def fail(_: zklock.Lease) -> None:
        assert recorded(observer, path) is not None
        raise StopError

    with pytest.raises(StopError):
        lock.once("slot", fail, record="start")
    assert lock.once("slot", lambda _: "again", record="start") is None
    assert lock.once("next", lambda _: "next", record="start") == "next"
    observer.assert_free(path)


@pytest.mark.parametrize("raises", [False, True])
def test_a_loss_records_nothing(client: zklock.Client, observer: Observer, path: str, raises: bool) -> None:
    lock = zklock.Mutex(client, path)

    def lose(lease: zklock.Lease) -> str:
        client.break_lock(lease.node)
        assert lease.wait_lost(SOON)
        if raises:
            raise StopError
        return "done"

    with pytest.raises(StopError if raises else zklock.LockLost) as caught:
        lock.once("slot", lose)
    if raises:
        assert "LockLost" in caught.value.__notes__[0]
    assert recorded(observer, path) is None
    assert lock.once("slot", lambda _: "again") == "again"


def test_a_body_that_releases_the_lease_records_nothing(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    with pytest.raises(zklock.NotHeld):
        zklock.Mutex(client, path).once("slot", lambda lease: lease.release())
    assert recorded(observer, path) is None


@pytest.mark.parametrize("reentrant", [True, False])
def test_it_enters_a_lock_again_that_its_caller_holds(
    client: zklock.Client, observer: Observer, path: str, reentrant: bool
) -> None:
    lock = zklock.Mutex(client, path, reentrant=reentrant)
    if not reentrant:
        with lock, pytest.raises(zklock.LockTimeout):
            lock.once("slot", lambda _: 1, timeout=0)
        return
    with lock as outer:
        assert lock.once("slot", lambda lease: lease.node) == outer.node
        assert lock.lease is outer
        assert lock.once("slot", lambda lease: lease.node) is None
        outer.check()
        # A body can also re-enter the lock.
        assert lock.once("next", lambda _: lock.once("inner", lambda _: "inner")) == "inner"
    observer.assert_free(path)


def test_a_time_out_is_for_the_lock(client: zklock.Client, other: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    with zklock.Mutex(other, path):
        for timeout in (0, 0.1):
            with pytest.raises(zklock.LockTimeout):
                lock.once("slot", lambda _: 1, timeout=timeout)
    assert lock.once("slot", lambda _: 1, timeout=SOON) == 1
    assert lock.once("slot", lambda _: 1, timeout=-1) is None


def test_only_one_of_many_threads_runs_it(client: zklock.Client, observer: Observer, path: str) -> None:
    runs: list[int] = []
    lock = zklock.Mutex(client, path)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: lock.once("slot", lambda _: runs.append(1) or "ran"), range(8)))
    assert sorted(results, key=str) == [None] * 7 + ["ran"]
    assert runs == [1]
    observer.assert_free(path)


def test_once_a_period(client: zklock.Client, other: zklock.Client, observer: Observer, path: str) -> None:
    lock = zklock.Mutex(client, path)

    @lock.once_per(HOUR * 24 * 365)
    def clean_up(what: str, *, how: str = "well") -> tuple[str, str, bool]:
        """Cleans up."""
        return what, how, lock.lease is not None

    assert clean_up.__doc__ == "Cleans up."
    assert clean_up("all", how="fast") == ("all", "fast", True)
    assert clean_up("all") is None
    far = zklock.Mutex(other, path)
    assert far.once_per(HOUR * 24 * 365)(lambda: "far")() is None
    record = recorded(observer, path)
    assert record is not None
    assert record["per"] == HOUR * 24 * 365 * 1000
    # A period of a different length is a different slot.
    assert far.once_per(HOUR * 24 * 366)(lambda: "far")() == "far"


def test_a_record_that_may_not_be_read_is_an_error_before_the_body(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    ours = make_digest_acl("app", "secret", all=True)
    # Create the parents of the record. They are open to every client, as for other locks.
    observer.create(path)
    observer.client.create(f"{path}.once", b"{}", acl=[ours])
    with pytest.raises(zklock.AuthFailed):
        zklock.Mutex(client, path).once("slot", lambda _: pytest.fail("it ran"))
    observer.assert_free(path)


def test_a_record_that_may_not_be_written_is_an_error_after_the_body(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    lock = zklock.Mutex(client, path)
    lock.once("first", lambda _: None)
    readable = make_digest_acl("app", "secret", all=True)
    everyone = observer.client.get_acls(f"{path}.once")[0][0]
    observer.client.set_acls(f"{path}.once", [readable, everyone._replace(perms=1)])
    runs: list[object] = []
    with pytest.raises(zklock.AuthFailed, match="write the record"):
        lock.once("second", runs.append)
    assert len(runs) == 1
    with pytest.raises(zklock.AuthFailed, match="write the record"):
        lock.once("second", runs.append, record="start")
    assert len(runs) == 1
    observer.assert_free(path)


def test_a_node_that_is_no_record_is_an_error(client: zklock.Client, observer: Observer, path: str) -> None:
    observer.client.create(f"{path}.once", b"something else", makepath=True)
    with pytest.raises(zklock.BadArgument, match="no record"):
        zklock.Mutex(client, path).once("slot", lambda _: pytest.fail("it ran"))
    observer.assert_free(path)


@pytest.mark.parametrize(
    ("problem", "use"),
    [
        ("key: must not be empty", lambda lock: lock.once("", print)),
        ("key: contains a control character", lambda lock: lock.once("a\n", print)),
        ("key: is 258 bytes long", lambda lock: lock.once("é" * 129, print)),
        ("key: contains a lone surrogate", lambda lock: lock.once("\ud800", print)),
        ("record: must be 'body' or 'start'", lambda lock: lock.once("a", print, record="end")),
        ("timeout: must not be negative", lambda lock: lock.once("a", print, timeout=-2)),
        ("period: is 500ms, and must be at least 1s", lambda lock: lock.once_per(0.5)),
        ("period: must not be negative", lambda lock: lock.once_per(-1)),
    ],
)
@pytest.mark.parametrize("surface", ["sync", "aio"])
def test_bad_arguments_send_nothing(
    client: zklock.Client, path: str, surface: str, problem: str, use: Callable[[Any], object]
) -> None:
    before = client.stats().requests["create"]

    lock = zklock.Mutex(client, path) if surface == "sync" else aio.Mutex("127.0.0.1:1", path)
    with pytest.raises(zklock.BadArgument, match=problem):
        use(lock)
    assert client.stats().requests["create"] == before


async def async_body(_: object) -> None: ...


def generator(_: object) -> object:
    yield


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (5, "but 5 is not"),
        (async_body, "is an async function, and would run after the lock is released"),
        (generator, "is a generator"),
    ],
)
def test_bodies_that_are_refused(client: zklock.Client, path: str, body: Any, problem: str) -> None:
    lock = zklock.Mutex(client, path)
    with pytest.raises(TypeError, match=problem):
        lock.once("slot", body)
    assert client.stats().acquisitions == 0


@pytest.mark.parametrize(
    ("function", "problem"), [(async_body, "async"), (generator, "generator"), (5, "functions")]
)
def test_functions_that_are_not_decorated(
    client: zklock.Client, path: str, function: Any, problem: str
) -> None:
    with pytest.raises(TypeError, match=problem):
        zklock.Mutex(client, path).once_per(HOUR)(function)


@pytest.mark.parametrize("kind", ["read", "write", "semaphore", "aio read", "aio semaphore"])
def test_only_a_mutex_has_it(client: zklock.Client, path: str, kind: str) -> None:
    locks: dict[str, Callable[[], object]] = {
        "read": lambda: zklock.ReadWriteLock(client, path).read_lock,
        "write": lambda: zklock.ReadWriteLock(client, path).write_lock,
        "semaphore": lambda: zklock.Semaphore(client, path, 2),
        "aio read": lambda: aio.ReadWriteLock("127.0.0.1:1", path).read_lock,
        "aio semaphore": lambda: aio.Semaphore("127.0.0.1:1", path, 2),
    }
    assert not hasattr(locks[kind](), "once")
    assert not hasattr(locks[kind](), "once_per")


@pytest.mark.parametrize("when", ["runs", "waits"])
def test_an_interrupt_ends_it_and_records_nothing(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str, when: str
) -> None:
    lock, far = zklock.Mutex(client, path), zklock.Mutex(other, path)
    if when == "waits":
        assert far.acquire()

    def call() -> None:
        threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,)).start()
        lock.once("slot", lambda lease: lease.wait_lost())

    with pytest.raises(KeyboardInterrupt):
        call()
    if when == "waits":
        far.release()
    assert recorded(observer, path) is None
    observer.wait_queue(path, 0)
    assert lock.once("slot", lambda _: "again") == "again"


def test_other_greenlets_run_meanwhile(hosts: str, path: str) -> None:
    head = "from gevent import monkey\nmonkey.patch_all()\nimport gevent\n" + scripts.HEAD
    done = scripts.run(
        """
        client = zklock.Client(hosts)
        lock = zklock.Mutex(client, path)
        runs = []
        def body(lease):
            gevent.sleep(0.1)
            assert lock.owned()
            runs.append(lease.fencing_token)
            return "ran"
        running = [gevent.spawn(lock.once, "slot", body) for _ in range(4)]
        gevent.joinall(running, timeout=10, raise_error=True)
        print(sorted(str(one.value) for one in running), len(runs))
        """,
        hosts,
        path,
        head=head,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "['None', 'None', 'None', 'ran'] 1\n", "")


def test_in_a_forked_child_it_fails(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        client = zklock.Client(hosts)
        lock = zklock.Mutex(client, path)
        pid = os.fork()
        if not pid:
            try:
                lock.once("slot", print)
            except zklock.Forked:
                print("forked", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        """,
        hosts,
        path,
    )
    assert (done.stdout, done.stderr) == ("forked\n", "")


def test_a_command_and_a_program_share_a_slot(
    client: zklock.Client, hosts: str, path: str, tmp_path: Any
) -> None:
    require("command")
    lines = tmp_path / "runs"
    command = [
        str(COMMAND),
        "run",
        "-z",
        hosts,
        "--once",
        "slot",
        path,
        "--",
        "sh",
        "-c",
        f"echo ran >> {lines}",
    ]

    def program() -> str | None:
        def body(_: zklock.Lease) -> str:
            with lines.open("a") as file:
                file.write("ran\n")
            return "ran"

        return zklock.Mutex(client, path).once("slot", body)

    with ThreadPoolExecutor(4) as pool:
        commands = [
            pool.submit(subprocess.run, command, capture_output=True, text=True, timeout=30, check=False)
            for _ in range(2)
        ]
        programs = [pool.submit(program) for _ in range(2)]
        assert [done.result().returncode for done in commands] == [0, 0]
        results = [done.result() for done in programs]
    assert lines.read_text() == "ran\n"
    skipped = sum("is recorded; the command is not run" in done.result().stderr for done in commands)
    assert skipped + results.count(None) == 3


def test_in_asyncio_a_body_runs_once(run: Run, observer: Observer, path: str) -> None:
    async def once(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)

        async def body(lease: aio.Lease) -> str:
            await asyncio.sleep(0.01)
            assert lock.owned()
            assert lock.lease is lease
            return "rows"

        results = await asyncio.gather(*(asyncio.create_task(lock.once("slot", body)) for _ in range(5)))
        assert sorted(results, key=str) == [None] * 4 + ["rows"]
        assert (lock.lease, lock.owned()) == (None, False)
        async with lock as outer:
            assert await lock.once("next", body) == "rows"
            assert lock.lease is outer
        # A function that returns an awaitable is also accepted.
        assert await lock.once("third", lambda lease: body(lease)) == "rows"

        @lock.once_per(HOUR * 24 * 365)
        async def clean_up(what: str) -> str:
            return what

        assert [await clean_up("all"), await clean_up("all")] == ["all", None]

    run(once)
    observer.assert_free(path)


def test_in_asyncio_a_body_that_fails_records_nothing(run: Run, observer: Observer, path: str) -> None:
    async def once(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)

        async def fail(_: aio.Lease) -> None:
            raise StopError

        with pytest.raises(StopError):
            await lock.once("slot", fail)
        assert recorded(observer, path) is None
        with pytest.raises(StopError):
            await lock.once("slot", fail, record="start")
        assert await lock.once("slot", fail) is None
        with pytest.raises(TypeError, match="must return an awaitable"):
            await lock.once("other", lambda _: 5)  # type: ignore[arg-type, return-value]
        with pytest.raises(TypeError, match="not an async function"):
            lock.once_per(HOUR)(print)  # type: ignore[arg-type]

    run(once)
    observer.assert_free(path)


@pytest.mark.parametrize("swallows", [False, True])
def test_in_asyncio_a_loss_cancels_the_body(run: Run, observer: Observer, path: str, swallows: bool) -> None:
    async def once(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        cancelled: list[bool] = []

        async def lose(lease: aio.Lease) -> None:
            await client.break_lock(lease.node)
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                cancelled.append(True)
                if not swallows:
                    raise

        with pytest.raises(zklock.LockLost):
            await lock.once("slot", lose)
        assert cancelled == [True]
        assert recorded(observer, path) is None
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        # Nothing of the cancellation is left.
        await asyncio.sleep(0)

    run(once)


@pytest.mark.parametrize("when", ["runs", "waits"])
def test_a_cancellation_ends_it_and_records_nothing(
    run: Run, other: zklock.Client, observer: Observer, path: str, when: str
) -> None:
    # Any thread can release it.
    nobody = zklock.Mutex(other, path, reentrant=False)

    async def once(client: aio.Client) -> None:
        began = asyncio.Event()

        async def body(_: aio.Lease) -> None:
            began.set()
            await asyncio.sleep(LONG)

        if when == "waits":
            await asyncio.to_thread(nobody.acquire)
        running = asyncio.create_task(aio.Mutex(client, path).once("slot", body))
        if when == "waits":
            await asyncio.to_thread(observer.wait_queue, path, 2)
        else:
            await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        if when == "waits":
            await asyncio.to_thread(nobody.release)

    run(once)
    observer.wait_queue(path, 0)
    assert recorded(observer, path) is None
