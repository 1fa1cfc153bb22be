"""Locks that a program does not release. A warning appears when the lock is dropped or its owner ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import scripts
from conftest import Run
from harness.observer import Observer
from harness.steps import eventually
from tasks import queued

import zklock
from zklock import aio
from zklock.compat import kazoo

RELEASED = "lock released: nothing refers to its lease any more"
STAYS = "lock stays held: its owner ended without releasing it"

Warnings = Callable[[], list[logging.LogRecord]]


@pytest.fixture
def lock_warnings(path: str, caplog: pytest.LogCaptureFixture) -> Iterator[Warnings]:
    """Provide the log warnings about the test's lock."""
    with caplog.at_level(logging.WARNING, logger="zklock"):
        yield lambda: [record for record in caplog.records if path in record.getMessage()]


@contextmanager
def shown(least: int = 0) -> Iterator[list[str]]:
    """Collect the texts of `ResourceWarning`s in the block. At its end, wait for at least `least` texts."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts

        def found() -> list[str]:
            return [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)]

        # The log message might arrive first.
        eventually(lambda: len(found()) >= least, f"{least} warnings of Python's")
        texts += found()


def expect_one_warning(lock_warnings: Warnings, message: str) -> None:
    """Wait for this message, and check that it is the only one."""
    eventually(lambda: bool(lock_warnings()), "a warning")
    (record,) = lock_warnings()
    assert record.getMessage().startswith(message + " "), record.getMessage()
    assert record.levelno == logging.WARNING
    assert re.search(r"lasted=\d", record.getMessage())


def expect_one_loss_warning(lock_warnings: Warnings) -> None:
    eventually(lambda: bool(lock_warnings()), "a warning")
    assert ["lock lost" in record.getMessage() for record in lock_warnings()] == [True]


def test_a_temporary_lock_warns(
    client: zklock.Client, observer: Observer, path: str, lock_warnings: Warnings
) -> None:
    with pytest.warns(ResourceWarning) as caught:
        assert zklock.Mutex(client, path).acquire()
    (warning,) = caught
    assert re.search(rf"the lock {path} was released after \d+\.\d+ s because", str(warning.message))
    assert warning.filename == __file__
    observer.wait_queue(path, 0)
    expect_one_warning(lock_warnings, RELEASED)


@pytest.mark.parametrize("kind", ["levels", "half", "permits", "lease", "both"])
def test_dropping_a_held_object_warns_once_per_hold(
    client: zklock.Client, observer: Observer, path: str, lock_warnings: Warnings, kind: str
) -> None:
    def forget() -> None:
        match kind:
            case "levels":
                lock = zklock.Mutex(client, path)
                assert lock.acquire()
                assert lock.acquire()
                lock.release()
                assert lock.acquire()
            case "half":
                assert zklock.ReadWriteLock(client, path).read_lock.acquire()
            case "permits":
                zklock.Semaphore(client, path, 2).acquire_many(1)
            case "lease":
                lock = zklock.Mutex(client, path)
                assert lock.acquire()
                lease = lock.lease
                del lock
                assert lease is not None
                lease.check()
            case _:
                assert zklock.MultiLock([zklock.Mutex(client, path)]).acquire()

    with shown() as texts:
        forget()
        gc.collect()
    assert len(texts) == 1
    expect_one_warning(lock_warnings, RELEASED)
    assert client.health().holds == []


def test_a_released_lost_or_closed_lock_is_dropped_without_a_warning(
    hosts: str, client: zklock.Client, path: str, lock_warnings: Warnings
) -> None:
    other = zklock.Client(hosts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for release in (lambda lock: lock.release(), lambda lock: lock.lease.release(wait=False)):
            lock = zklock.Mutex(client, path)
            assert lock.acquire()
            release(lock)
            del lock
        with zklock.Mutex(client, path), zklock.Mutex(client, path).hold(timeout=5):
            pass

        @zklock.Mutex(client, path)
        def decorated() -> None:
            pass

        decorated()
        lock = zklock.Mutex(client, path)
        assert lock.acquire()
        lease = lock.lease
        assert lease is not None
        client.break_lock(lease.node)
        assert lease.wait_lost(10)
        del lock, lease
        lock = zklock.Mutex(other, path)
        assert lock.acquire()
        other.close()
        del lock
        gc.collect()
    expect_one_loss_warning(lock_warnings)


def test_a_propagating_exception_survives_the_warning(client: zklock.Client, path: str) -> None:
    def fail() -> None:
        lock = zklock.Mutex(client, path)
        lock.acquire()
        raise KeyError(path)

    with pytest.warns(ResourceWarning), pytest.raises(KeyError):
        fail()


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_is_unraisable(
    client: zklock.Client, observer: Observer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda failed: seen.append(failed.exc_type))
    assert zklock.Mutex(client, path).acquire()
    assert seen == [ResourceWarning]
    observer.wait_queue(path, 0)


def test_a_temporary_lock_of_asyncio_warns(
    run: Run, observer: Observer, path: str, lock_warnings: Warnings
) -> None:
    async def body(client: aio.Client) -> None:
        with shown() as texts:
            assert await aio.Mutex(client, path).acquire()
            gc.collect()
        assert [path in text for text in texts] == [True]
        await queued(observer, path, 0)

    run(body)
    expect_one_warning(lock_warnings, RELEASED)


def test_a_thread_that_ends_while_it_holds_warns_once(
    client: zklock.Client, observer: Observer, path: str, lock_warnings: Warnings
) -> None:
    locks = [zklock.Mutex(client, path)]

    def work() -> None:
        assert locks[0].acquire()
        assert locks[0].acquire()
        assert zklock.Mutex(client, path + "-2").acquire(timeout=5)

    with shown(2) as texts:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        eventually(lambda: any(STAYS in record.getMessage() for record in lock_warnings()), "a warning")
    assert sorted(text.partition(" after ")[0] for text in texts) == [
        "a thread ended",
        f"the lock {path}-2 was released",
    ]
    (record,) = [record for record in lock_warnings() if f"path={path} " in record.getMessage()]
    assert record.getMessage().startswith(STAYS + " ")
    assert "owner=thread" in record.getMessage()
    # A warning is only a report.
    assert len(observer.queue(path)) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        locks.clear()
        gc.collect()
    observer.wait_queue(path, 0)


def test_an_ended_thread_whose_locks_others_can_release_causes_no_warning(
    client: zklock.Client, path: str, lock_warnings: Warnings
) -> None:
    locks = [zklock.Mutex(client, f"{path}-{number}") for number in range(5)]
    alone, slots = (
        zklock.Mutex(client, path + "-alone", reentrant=False),
        zklock.Semaphore(client, path + "-s", 1),
    )
    kept: list[object] = []

    def work() -> None:
        for lock in locks:
            assert lock.acquire()
        locks[0].release()
        kept.append(locks[1].lease)
        locks[2].lease.release()  # type: ignore[union-attr]
        client.break_lock(locks[3].lease.node)  # type: ignore[union-attr]
        assert locks[3].lease.wait_lost(10)  # type: ignore[union-attr]
        locks[4].release()
        locks[4].__enter__()
        assert alone.acquire()
        assert slots.acquire()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(20)
    # The next ended owner is reported after those.
    last = zklock.Mutex(client, path + "-last")
    thread = threading.Thread(target=last.acquire)
    thread.start()
    thread.join()
    eventually(lambda: any("-last" in record.getMessage() for record in lock_warnings()), "a warning")
    stays = [record.getMessage() for record in lock_warnings() if STAYS in record.getMessage()]
    assert len(stays) == 1, stays
    alone.release()
    slots.release()
    locks[4].__exit__(None, None, None)
    assert kept


async def acquire(lock: aio.Mutex) -> None:
    """Acquire in a task that forgets to release."""
    assert await lock.acquire()


def test_a_task_that_ends_while_it_holds_warns_once(
    run: Run, observer: Observer, path: str, lock_warnings: Warnings
) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        with shown(1) as texts:
            await asyncio.create_task(acquire(lock))
            while not lock_warnings():
                gc.collect()
                await asyncio.sleep(0.01)
        (text,) = texts
        assert re.search(f"a task ended after .* without releasing the lock {path}", text)
        await queued(observer, path, 1)
        assert "owner=task" in lock_warnings()[0].getMessage()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            del lock
            gc.collect()
        await queued(observer, path, 0)

    run(body)
    expect_one_warning(lock_warnings, STAYS)


def test_a_callback_may_release_what_an_ended_task_acquired(
    run: Run, path: str, lock_warnings: Warnings
) -> None:
    async def body(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)

        async def acquire_for_a_while() -> None:
            assert await lock.acquire()
            asyncio.get_running_loop().call_later(0.2, lock.release)

        await asyncio.create_task(acquire_for_a_while())
        gc.collect()
        async with aio.Mutex(client, path).hold(timeout=10):
            gc.collect()

    run(body)
    assert lock_warnings() == []


def test_an_election_continues_to_lead_without_its_leadership(
    client: zklock.Client, other: zklock.Client, path: str, lock_warnings: Warnings
) -> None:
    election, lost = zklock.Election(client, path), threading.Event()
    election.campaign(timeout=5).on_lost(lambda _: lost.set())
    # Forgotten campaigns of a leader keep only one leadership.
    for _ in range(3):
        election.campaign(timeout=5)
    gc.collect()
    assert election.is_leader
    with pytest.raises(zklock.LockTimeout):
        zklock.Election(other, path).campaign(timeout=0)
    (hold,) = client.health().holds
    assert (hold.pinned, hold.mode) == (True, "leadership")
    assert hold.levels <= 2
    client.break_lock(hold.node)
    assert lost.wait(10)
    # It can lead again, until it is resigned.
    leadership = election.campaign(timeout=10)
    second = election.campaign(timeout=5)
    leadership.resign()
    del second
    gc.collect()
    assert election.is_leader
    expect_one_loss_warning(lock_warnings)
    client.close()


def test_a_dropped_election_resigns_with_a_warning(
    client: zklock.Client, observer: Observer, path: str, lock_warnings: Warnings
) -> None:
    with shown() as texts:
        zklock.Election(client, path).campaign(timeout=5)
        gc.collect()
    assert [path in text for text in texts] == [True]
    observer.wait_queue(path, 0)
    expect_one_warning(lock_warnings, RELEASED)


def test_an_election_of_asyncio_continues_to_lead(
    run: Run, observer: Observer, path: str, lock_warnings: Warnings
) -> None:
    async def body(client: aio.Client) -> None:
        election, lost = aio.Election(client, path), asyncio.Event()
        (await election.campaign(timeout=5)).on_lost(lambda _: lost.set())
        gc.collect()
        assert election.is_leader
        (hold,) = client.health().holds
        assert hold.pinned
        await client.break_lock(hold.node)
        await asyncio.wait_for(lost.wait(), 10)
        leadership = await election.campaign(timeout=10)
        await leadership.resign()
        await queued(observer, path, 0)

    run(body)
    expect_one_loss_warning(lock_warnings)


def test_a_lock_of_kazoo_is_pinned(client: zklock.Client, path: str) -> None:
    lock = kazoo.Lock(client, path)
    assert lock.acquire()
    assert [hold.pinned for hold in client.health().holds] == [True]
    lock.release()
    with zklock.Mutex(client, path):
        assert [hold.pinned for hold in client.health().holds] == [False]


@pytest.mark.parametrize(
    "code",
    [
        "lock = zklock.Mutex(hosts, path); lock.acquire()",
        "lock = zklock.Mutex(hosts, path); lock.acquire(); sys.exit(0)",
        "election = zklock.Election(hosts, path); election.campaign()",
        """
        lock = zklock.Mutex(hosts, path)
        lock.acquire()
        if os.fork() == 0:
            del lock
            os._exit(0)
        os.wait()
        lock.release()
        """,
        """
        lock = zklock.Mutex(hosts, path)
        thread = threading.Thread(target=lambda: (lock.acquire(), threading.Event().wait()), daemon=True)
        thread.start()
        while not lock.locked():
            time.sleep(0.01)
        """,
    ],
)
def test_the_end_of_a_process_and_a_fork_cause_no_warning(hosts: str, path: str, code: str) -> None:
    done = scripts.run(code, hosts, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
