"""`Election.run()`: repeated campaigns and leaderships, and the events that end the run."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import scripts
from conftest import Run
from harness.observer import Observer
from harness.ports import free_port

import zklock
from zklock import _zklock, aio
from zklock.testing import Server

SOON = 10.0
LONG = 600.0

Lost = Callable[[zklock.Leadership], None]


class StopError(Exception):
    """An exception of a body."""


def by_check(leadership: zklock.Leadership) -> None:
    """A body that notices the loss."""
    leadership.check()


def not_at_all(leadership: zklock.Leadership) -> None:
    """A body that does not notice the loss: only the end of the scope does."""


def test_it_leads_again_when_the_body_returns_until_the_body_fails(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    election = zklock.Election(client, path)
    tokens: list[int] = []

    def body(leadership: zklock.Leadership) -> None:
        assert election.is_leader
        leadership.check()
        tokens.append(leadership.fencing_token)
        if len(tokens) == 3:
            raise StopError

    with pytest.raises(StopError):
        election.run(body)
    assert len(set(tokens)) == 3
    assert tokens == sorted(tokens)
    assert not election.is_leader
    observer.assert_free(path)


@pytest.mark.parametrize("notice", [by_check, not_at_all])
def test_it_leads_again_after_a_loss(client: zklock.Client, path: str, notice: Lost) -> None:
    tokens: list[int] = []

    def body(leadership: zklock.Leadership) -> None:
        tokens.append(leadership.fencing_token)
        if len(tokens) == 2:
            raise StopError
        client.break_lock(leadership.node)
        assert leadership.wait_lost(SOON)
        notice(leadership)

    with pytest.raises(StopError):
        zklock.Election(client, path).run(body)
    assert tokens[0] < tokens[1]


def test_it_leads_again_after_a_session() -> None:
    reasons: list[str | None] = []

    def body(leadership: zklock.Leadership) -> None:
        if reasons:
            raise StopError
        server.expire(leadership)
        leadership.wait_lost(SOON)
        reasons.append(leadership.loss_reason)

    with Server() as server, zklock.Client(server.hosts) as client, pytest.raises(StopError):
        zklock.Election(client, "/election").run(body)
    assert reasons == ["session expired"]


def test_the_error_of_a_body_ends_it_even_after_a_loss(client: zklock.Client, path: str) -> None:
    def body(leadership: zklock.Leadership) -> None:
        client.break_lock(leadership.node)
        assert leadership.wait_lost(SOON)
        raise StopError

    with pytest.raises(StopError) as caught:
        zklock.Election(client, path).run(body)
    assert "LockLost" in caught.value.__notes__[0]


def test_the_loss_of_another_lock_ends_it(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    def body(_: zklock.Leadership) -> None:
        with zklock.Mutex(other, f"{path}-other") as lease:
            other.break_lock(lease.node)
            assert lease.wait_lost(SOON)

    with pytest.raises(zklock.LockLost, match="-other"):
        zklock.Election(client, path).run(body)
    observer.assert_free(path)


def test_an_error_of_the_campaign_that_would_be_repeated_ends_it(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    observer.client.create(f"{path}/0123456789abcdef0123456789abcdef__lock__0000000000", makepath=True)
    with pytest.raises(zklock.BadArgument, match="kazoo"):
        zklock.Election(client, path).run(lambda _: None)


def test_without_a_server_it_campaigns_until_there_is_one() -> None:
    port = free_port()
    client = zklock.Client(f"127.0.0.1:{port}", connect=False, connect_timeout=0.2)
    led, failed = threading.Event(), threading.Event()

    def body(_: zklock.Leadership) -> None:
        led.set()
        raise StopError

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "the campaign failed; campaigning again" in record.getMessage():
                failed.set()

    handler = Handler()
    logger = logging.getLogger("zklock")
    logger.addHandler(handler)
    try:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(zklock.Election(client, "/election").run, body)
            assert failed.wait(SOON)
            assert not led.is_set()
            with Server(port=port):
                with pytest.raises(StopError):
                    running.result(60)
                client.close()
    finally:
        logger.removeHandler(handler)


@pytest.mark.parametrize("drain", [None, LONG])
def test_it_ends_with_the_client(hosts: str, observer: Observer, path: str, drain: float | None) -> None:
    client = zklock.Client(hosts)
    leads, finish = threading.Event(), threading.Event()
    states: list[str] = []

    def body(leadership: zklock.Leadership) -> None:
        leads.set()
        assert finish.wait(SOON)
        states.append(leadership.state)

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(zklock.Election(client, path).run, body)
        assert leads.wait(SOON)
        closing = pool.submit(client.close, drain)
        if drain is None:
            closing.result(SOON)
        finish.set()
        assert running.result(SOON) is None
        closing.result(SOON)
    assert states == ["held" if drain else "lost"]
    observer.assert_free(path)


def test_it_ends_with_the_client_while_it_waits(
    hosts: str, other: zklock.Client, observer: Observer, path: str
) -> None:
    client = zklock.Client(hosts)
    with zklock.Election(other, path).lead(), ThreadPoolExecutor(1) as pool:
        running = pool.submit(zklock.Election(client, path).run, not_at_all)
        observer.wait_queue(path, 2)
        client.close(drain=LONG)
        assert running.result(SOON) is None


def test_a_pause_ends_with_the_client(hosts: str, path: str) -> None:
    client = zklock.Client(hosts)
    rounds = _zklock.Rounds(zklock.Election(client, path))
    with ThreadPoolExecutor(1) as pool:
        pausing = pool.submit(rounds.pause, LONG)
        client.close()
        pausing.result(SOON)
        # A pause that starts later returns immediately.
        pool.submit(rounds.pause, LONG).result(SOON)


def test_a_pause_of_asyncio_ends_with_the_client(run: Run, path: str) -> None:
    async def pause(client: aio.Client) -> None:
        rounds = _zklock.Rounds(aio.Election(client, path)._inner)
        await client.connect()
        pausing = rounds.start_pause(LONG)
        await client.close()
        async with asyncio.timeout(SOON):
            await pausing

    run(pause)


def test_pauses_grow_where_leaderships_end_at_once(client: zklock.Client, path: str) -> None:
    rounds = _zklock.Rounds(zklock.Election(client, path))
    pauses = []
    for _ in range(8):
        rounds.begin()
        pauses.append(rounds.end())
    assert pauses[0] == 0 < pauses[1] < pauses[7] <= 6
    for code in (zklock.ConnectionFailed, zklock.ClientClosed):
        pause = rounds.fail(code("it failed"))
        assert (pause is None) == (code is zklock.ClientClosed)
    for failure in (zklock.AuthFailed("refused"), zklock.Forked("forked")):
        with pytest.raises(type(failure)) as caught:
            rounds.fail(failure)
        assert caught.value is failure


@pytest.mark.parametrize("when", ["leads", "pauses"])
def test_an_interrupt_ends_it(client: zklock.Client, observer: Observer, path: str, when: str) -> None:
    election = zklock.Election(client, path)

    def body(leadership: zklock.Leadership) -> None:
        leadership.wait_lost()

    def wait() -> None:
        # Start the timer inside the `raises` block, so that even an early interrupt is caught.
        threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
        if when == "leads":
            election.run(body)
        else:
            _zklock.Rounds(election).pause(LONG)

    with pytest.raises(KeyboardInterrupt):
        wait()
    observer.wait_queue(path, 0)


@pytest.mark.parametrize("surface", ["sync", "aio"])
def test_it_ends_with_the_client_that_locks_on_the_same_hosts_share(
    hosts: str, observer: Observer, path: str, surface: str
) -> None:
    """`run` returns when the shared client is closed. Another campaign would create a new client."""
    done = scripts.run(
        """
        if SURFACE == "sync":
            zklock.Election(hosts, path).run(lambda leadership: zklock._zklock.shutdown())
        else:
            async def body(leadership):
                await asyncio.to_thread(zklock._zklock.shutdown)

            asyncio.run(aio.Election(hosts, path).run(body))
        print("ended")
        """,
        hosts,
        path,
        head=f"{scripts.HEAD}SURFACE = {surface!r}\n",
    )
    assert (done.stdout, done.stderr) == ("ended\n", "")
    observer.assert_free(path)


def test_in_a_forked_child_it_fails(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        client = zklock.Client(hosts)
        election = zklock.Election(client, path)
        pid = os.fork()
        if not pid:
            try:
                election.run(print)
            except zklock.Forked:
                print("forked", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        """,
        hosts,
        path,
    )
    assert (done.stdout, done.stderr) == ("forked\n", "")


def test_other_greenlets_run_meanwhile(hosts: str, path: str) -> None:
    head = "from gevent import monkey\nmonkey.patch_all()\nimport gevent\n" + scripts.HEAD
    done = scripts.run(
        """
        client = zklock.Client(hosts)
        election = zklock.Election(client, path)
        rounds = []
        def body(leadership):
            rounds.append(leadership.fencing_token)
        ticks = []
        def tick():
            while True:
                ticks.append(len(rounds))
                gevent.sleep(0.001)
        ticking = gevent.spawn(tick)
        running = gevent.spawn(election.run, body)
        # The third round follows a pause.
        while len(rounds) < 3:
            gevent.sleep(0.01)
        client.close()
        running.get(timeout=10)
        ticking.kill()
        print(ticks.count(2) > 1)
        """,
        hosts,
        path,
        head=head,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


async def async_body(_: object) -> None: ...


def generator(_: object) -> object:
    yield


@pytest.mark.parametrize(
    ("body", "problem"),
    [(5, "but 5 is not"), (async_body, "is an async function"), (generator, "is a generator")],
)
def test_bodies_that_are_refused(client: zklock.Client, path: str, body: object, problem: str) -> None:
    election = zklock.Election(client, path)
    with pytest.raises(TypeError, match=problem):
        election.run(body)  # type: ignore[arg-type]
    assert client.stats().acquisitions == 0


@pytest.mark.parametrize(
    ("body", "problem"),
    [(5, "but 5 is not"), (generator, "is a generator"), (not_at_all, "must return an awaitable")],
)
def test_bodies_that_asyncio_refuses(
    run: Run, observer: Observer, path: str, body: object, problem: str
) -> None:
    async def lead(client: aio.Client) -> None:
        with pytest.raises(TypeError, match=problem):
            await aio.Election(client, path).run(body)  # type: ignore[arg-type]

    run(lead)
    observer.assert_free(path)


def test_in_asyncio_it_leads_again_after_the_body_and_after_a_loss(
    run: Run, observer: Observer, path: str
) -> None:
    async def lead(client: aio.Client) -> None:
        ends: list[str] = []

        async def body(leadership: aio.Leadership) -> None:
            if len(ends) == 1:
                await client.break_lock(leadership.node)
                try:
                    await asyncio.sleep(LONG)
                except asyncio.CancelledError:
                    ends.append("cancelled")
                    raise
            if len(ends) == 2:
                raise StopError
            ends.append("returned")

        election = aio.Election(client, path)
        with pytest.raises(StopError):
            await election.run(lambda leadership: body(leadership))
        assert ends == ["returned", "cancelled"]
        assert not election.is_leader
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(lead)
    observer.assert_free(path)


@pytest.mark.parametrize("drain", [None, LONG])
def test_in_asyncio_it_ends_with_the_client(run: Run, path: str, drain: float | None) -> None:
    async def lead(client: aio.Client) -> None:
        leads, finish = asyncio.Event(), asyncio.Event()
        ends: list[str] = []

        async def body(leadership: aio.Leadership) -> None:
            leads.set()
            try:
                await finish.wait()
            finally:
                ends.append(leadership.state)

        running = asyncio.create_task(aio.Election(client, path).run(body))
        await leads.wait()
        closing = client.close(drain)
        if drain is not None:
            finish.set()
        async with asyncio.timeout(SOON):
            assert await running is None  # type: ignore[func-returns-value]
            await closing
        assert ends == ["lost" if drain is None else "held"]

    run(lead)


@pytest.mark.parametrize("when", ["leading", "waiting", "pausing"])
def test_a_cancellation_ends_it(
    run: Run, other: zklock.Client, observer: Observer, path: str, when: str
) -> None:
    holder = zklock.Election(other, path).campaign() if when == "waiting" else None

    async def lead(client: aio.Client) -> None:
        rounds: asyncio.Queue[str] = asyncio.Queue()

        async def body(leadership: aio.Leadership) -> None:
            rounds.put_nowait("leads")
            if when == "leading":
                await asyncio.sleep(LONG)

        running = asyncio.create_task(aio.Election(client, path).run(body))
        if holder:
            await asyncio.to_thread(observer.wait_queue, path, 2)
        elif when == "leading":
            await rounds.get()
        else:
            # Pauses follow from the second round on.
            for _ in range(3):
                await rounds.get()
            await asyncio.to_thread(observer.wait_queue, path, 0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        if holder:
            await asyncio.to_thread(observer.wait_queue, path, 1)

    run(lead)
    if holder:
        holder.resign()
    observer.wait_queue(path, 0)
