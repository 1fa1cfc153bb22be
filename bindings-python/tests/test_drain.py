"""`close(drain=…)`: the client lets its holders finish before it closes."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import scripts
from conftest import Run
from harness.observer import Observer
from harness.steps import eventually

import zklock
from zklock import aio

SOON = 10.0
LONG = 600.0


def is_draining(client: zklock.Client | aio.Client, lock: zklock.Mutex) -> bool:
    """Return whether the client refuses an acquire."""
    try:
        lock.acquire(timeout=0)
    except zklock.ClientClosed:
        return client.state != "closed"
    lock.release()
    return False


def test_it_waits_for_another_thread_and_refuses_new_acquires(
    hosts: str, observer: Observer, path: str
) -> None:
    client = zklock.Client(hosts)
    held, free = zklock.Mutex(client, path), zklock.Mutex(client, f"{path}-free")
    entered, finish = threading.Event(), threading.Event()

    def work() -> str:
        with held as lease:
            entered.set()
            assert finish.wait(SOON)
            with pytest.raises(zklock.ClientClosed):
                free.acquire()
            with held:
                return lease.state

    with ThreadPoolExecutor(3) as pool:
        working = pool.submit(work)
        assert entered.wait(SOON)
        waiting = pool.submit(held.acquire)
        observer.wait_queue(path, 2)
        closing = pool.submit(client.close, LONG)
        with pytest.raises(zklock.ClientClosed):
            waiting.result(SOON)
        with pytest.raises(zklock.ClientClosed):
            free.acquire()
        assert not closing.done()
        finish.set()
        assert working.result(SOON) == "held"
        assert closing.result(SOON) is None
    assert client.state == "closed"
    client.close(drain=LONG)


@pytest.mark.parametrize("drain", [0.2, 0, None])
def test_locks_held_at_the_end_of_a_drain_are_lost(hosts: str, path: str, drain: float | None) -> None:
    client = zklock.Client(hosts)
    lock = zklock.Mutex(client, path)
    assert lock.acquire()
    lease = lock.lease
    assert lease is not None
    client.close(drain=drain)
    assert (client.state, lease.loss_reason) == ("closed", "client closed")


@pytest.mark.parametrize("drain", [LONG, float("inf"), 10**400])
def test_a_close_ends_the_draining(hosts: str, path: str, drain: float) -> None:
    client = zklock.Client(hosts)
    lock = zklock.Mutex(client, path)
    with ThreadPoolExecutor(1) as pool:
        assert lock.acquire()
        draining = pool.submit(client.close, drain)
        other = zklock.Mutex(client, f"{path}-free")
        eventually(lambda: is_draining(client, other), "the client drains")
        client.close()
        draining.result(SOON)
    assert client.state == "closed"


@pytest.mark.parametrize("drain", [-1, -0.5, float("nan"), -(10**400)])
def test_invalid_drain_times_are_refused(client: zklock.Client, drain: float) -> None:
    async_client = aio.Client("127.0.0.1:1")
    for close in (client.close, async_client.close):
        with pytest.raises(zklock.BadArgument, match="drain: must not be negative or NaN"):
            close(drain=drain)
    assert (client.state, async_client.state) == ("connected", "idle")


def test_a_drain_that_is_not_a_number_is_refused(client: zklock.Client) -> None:
    for close in (client.close, aio.Client("127.0.0.1:1").close):
        with pytest.raises(TypeError, match="drain must be a number, not str"):
            close(drain="5")  # type: ignore[arg-type]
    assert client.state == "connected"


def test_an_interrupt_leaves_it_draining(hosts: str, path: str) -> None:
    client = zklock.Client(hosts)
    lock = zklock.Mutex(client, path)
    assert lock.acquire()

    def close() -> None:
        # Start the timer inside the `raises` block, so that even an early interrupt is caught.
        threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
        client.close(drain=LONG)

    with pytest.raises(KeyboardInterrupt):
        close()
    with pytest.raises(zklock.ClientClosed):
        zklock.Mutex(client, f"{path}-free").acquire()
    assert lock.lease is not None
    lock.lease.check()
    lock.release()
    eventually(lambda: client.state == "closed", "it closes when nothing is held")


def test_a_client_that_has_not_connected_closes_immediately() -> None:
    client = zklock.Client("127.0.0.1:1", connect=False)
    client.close(drain=LONG)
    assert client.state == "closed"
    with pytest.raises(zklock.ClientClosed):
        zklock.Mutex(client, "/a").acquire()


def test_each_process_drains_its_own(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        shared, inherited = zklock.Client(hosts, connect=False), zklock.Client(hosts)
        mine = zklock.Mutex(shared, path)
        mine.acquire()
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            lock = zklock.Mutex(shared, path + "-child")
            with lock:
                pass
            shared.close(drain=60)
            print("child", shared.state)
            try:
                inherited.close(drain=60)
            except zklock.Forked:
                print("forked")
            sys.stdout.flush()
            os._exit(0)
        print(os.waitpid(pid, 0)[1], shared.state, inherited.state, mine.lease.state)
        mine.release()
        shared.close(drain=60)
        print(shared.state)
        """,
        hosts,
        path,
    )
    assert (done.stdout, done.stderr) == ("child closed\nforked\n0 connected connected held\nclosed\n", "")


def test_other_greenlets_run_meanwhile(hosts: str, path: str) -> None:
    head = "from gevent import monkey\nmonkey.patch_all()\nimport gevent\n" + scripts.HEAD
    done = scripts.run(
        """
        client = zklock.Client(hosts)
        lock = zklock.Mutex(client, path)
        entered, finish = gevent.event.Event(), gevent.event.Event()
        def work():
            with lock as lease:
                entered.set()
                finish.wait()
                print(lease.state)
        worker = gevent.spawn(work)
        entered.wait()
        gevent.spawn_later(0.1, finish.set)
        client.close(drain=60)
        worker.join()
        print(client.state)
        """,
        hosts,
        path,
        head=head,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "held\nclosed\n", "")


def test_in_asyncio_it_waits_for_another_task(run: Run, path: str) -> None:
    async def drain(client: aio.Client) -> None:
        entered, finish = asyncio.Event(), asyncio.Event()
        lock, free = aio.Mutex(client, path), aio.Mutex(client, f"{path}-free")

        async def work() -> str:
            async with lock as lease:
                entered.set()
                await finish.wait()
                return lease.state

        working = asyncio.create_task(work())
        await entered.wait()
        closing = client.close(drain=LONG)
        # The drain has begun.
        with pytest.raises(zklock.ClientClosed):
            await free.acquire()
        waiting = asyncio.create_task(asyncio.wait_for(closing, 0.1))
        with pytest.raises(TimeoutError):
            await waiting
        # The drain continues after the cancellation.
        with pytest.raises(zklock.ClientClosed):
            await free.acquire()
        assert client.state == "connected"
        again = client.close(drain=LONG)
        finish.set()
        assert await working == "held"
        await asyncio.wait_for(again, SOON)
        assert client.state == "closed"

    run(drain)


@pytest.mark.parametrize("drain", [0.2, 0])
def test_in_asyncio_locks_held_at_the_end_of_a_drain_are_lost(run: Run, path: str, drain: float) -> None:
    async def hold(client: aio.Client) -> None:
        lock = aio.Mutex(client, path)
        await lock.acquire()
        lease = lock.lease
        assert lease is not None
        await client.close(drain=drain)
        assert (client.state, lease.loss_reason) == ("closed", "client closed")

    run(hold)
