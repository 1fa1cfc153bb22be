"""Tests of `zklock.testing.Server`: threads, asyncio, gevent and forked processes call its methods."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import scripts

import zklock
from zklock import aio
from zklock.testing import Server


@pytest.fixture
def embedded() -> Iterator[Server]:
    """Provide the server under test."""
    with Server() as made:
        yield made


@pytest.fixture
def client(embedded: Server) -> Iterator[zklock.Client]:
    """Provide a client of the server."""
    with zklock.Client(embedded.hosts) as made:
        yield made


def until(done: Callable[[], bool]) -> None:
    """Wait until `done` returns a true value."""
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def threads() -> list[str]:
    """Return the names of this process's threads."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        # A thread can end meanwhile.
        with contextlib.suppress(OSError):
            names.append((task / "comm").read_text().strip())
    return names


def test_it_runs_on_a_thread_of_its_own() -> None:
    with Server() as one:
        assert re.fullmatch(r"127\.0\.0\.1:\d+", one.hosts)
        until(lambda: threads().count("zklock-server") == 1)
    # The kernel still lists a thread for a moment after it was joined.
    until(lambda: "zklock-server" not in threads())


@pytest.mark.parametrize("what", ["client", "lease", "id"])
def test_a_lock_is_lost(embedded: Server, client: zklock.Client, what: str) -> None:
    lock = zklock.Mutex(client, "/locks/report")
    assert lock.acquire()
    lease = lock.lease
    assert lease is not None
    assert embedded.expire({"client": client, "lease": lease, "id": lease.session_id}[what])
    assert lease.node not in embedded.tree()
    assert lease.wait_lost(timeout=20)
    assert lease.loss_reason == "session expired"
    assert not embedded.expire(lease)


def test_a_lock_of_asyncio_is_lost(embedded: Server) -> None:
    async def hold(client: aio.Client, lost_by: str) -> None:
        async with aio.Mutex(client, "/locks/report") as lease:
            assert embedded.disconnect(client)
            assert embedded.expire(client if lost_by == "client" else lease)
            await asyncio.Event().wait()

    async def job() -> None:
        async with aio.Client(embedded.hosts) as client:
            for lost_by in ("client", "lease"):
                with pytest.raises(zklock.LockLost):
                    await hold(client, lost_by)

    asyncio.run(job())


def test_a_cut_connection_loses_nothing(embedded: Server, client: zklock.Client) -> None:
    states: list[str] = []
    notice = client.on_state(states.append)
    with zklock.Mutex(client, "/locks/report") as lease:
        assert embedded.disconnect(lease)
        until(lambda: states[-2:] == ["suspended", "connected"] and lease.state == "held")
        assert client.session_id == lease.session_id
    notice.cancel()


def test_a_paused_server_does_not_reply(embedded: Server, client: zklock.Client) -> None:
    lock = zklock.Mutex(client, "/locks/report")
    embedded.pause()
    assert not lock.acquire(timeout=0.2)
    with pytest.raises(zklock.ConnectionFailed):
        zklock.Client(embedded.hosts, connect_timeout=0.2)
    embedded.resume()
    assert lock.acquire(timeout=20)


def test_latency_is_in_seconds(embedded: Server, client: zklock.Client) -> None:
    lock = zklock.Mutex(client, "/locks/report")
    embedded.latency(0.1)
    begun = time.monotonic()
    lock.contenders()
    assert time.monotonic() - begun >= 0.1


def test_the_tree(embedded: Server, client: zklock.Client) -> None:
    assert embedded.tree() == {}
    with zklock.Mutex(client, "/locks/report", label="nightly") as lease:
        tree = embedded.tree()
        assert sorted(tree) == ["/locks", "/locks/report", lease.node]
        assert tree["/locks"] == b""
        assert b"nightly" in tree[lease.node]


def test_after_a_stop(embedded: Server) -> None:
    embedded.stop()
    embedded.stop()
    calls: list[Callable[[], object]] = [
        lambda: embedded.expire(1),
        lambda: embedded.disconnect(1),
        embedded.pause,
        embedded.resume,
        lambda: embedded.latency(1),
        embedded.tree,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"^the server was stopped$"):
            call()
    assert str(embedded.hosts) in repr(embedded)
    host, port = embedded.hosts.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_the_last_reference_stops_it() -> None:
    server = Server()
    address = ("127.0.0.1", int(server.hosts.split(":")[1]))
    socket.create_connection(address).close()
    del server
    gc.collect()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_wrong_arguments(embedded: Server) -> None:
    with pytest.raises(zklock.BadArgument, match=r"port.*65535.*70000"):
        Server(70_000)
    with pytest.raises(OSError, match=rf"cannot listen on {embedded.hosts}: .*in use"):
        Server(int(embedded.hosts.split(":")[1]))
    with pytest.raises(TypeError, match="must be a client, a lease or a session id, not str"):
        embedded.expire("client")  # type: ignore[arg-type]
    with pytest.raises(zklock.BadArgument, match="has not connected yet"):
        embedded.expire(zklock.Client(embedded.hosts, connect=False))
    with pytest.raises(zklock.BadArgument, match="client"):
        embedded.disconnect(2**64)
    for wrong in (-1.0, float("nan")):
        with pytest.raises(zklock.BadArgument, match="seconds"):
            embedded.latency(wrong)
    assert not embedded.expire(42)


def test_a_call_lets_other_threads_run(embedded: Server) -> None:
    """`stop` returns while another Python thread is busy, because it lets that thread run."""
    busy = threading.Event()
    done = threading.Thread(target=lambda: [None for _ in iter(busy.is_set, True)])
    done.start()
    embedded.stop()
    busy.set()
    done.join(20)
    assert not done.is_alive()


def test_a_forked_child_neither_uses_nor_harms_it() -> None:
    done = scripts.run(
        """
        import zklock.testing
        with zklock.testing.Server() as server:
            child = os.fork()
            if child == 0:
                for call in (server.tree, server.stop, lambda: server.expire(1)):
                    try:
                        call()
                    except zklock.Forked as error:
                        print("refused:", error)
                with zklock.Mutex(server.hosts, path) as lease:
                    print(lease.state)
            else:
                os.waitpid(child, 0)
                print(list(server.tree()) != [], flush=True)
        """,
        "",
        "/locks/report",
    )
    refused = (
        "refused: this server runs in the process that this one was forked from; start one in this process"
    )
    assert done.stdout.splitlines() == [refused] * 3 + ["held", "True"], done
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_program_that_ends_without_a_stop() -> None:
    done = scripts.run(
        """
        import zklock.testing
        server = zklock.testing.Server()
        lock = zklock.Mutex(server.hosts, path)
        lock.acquire()
        server.pause()
        """,
        "",
        "/locks/report",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_greenlets_use_it() -> None:
    done = scripts.run(
        """
        from gevent import monkey
        monkey.patch_all()
        import gevent, gevent.event, zklock.testing

        with zklock.testing.Server() as server, zklock.Client(server.hosts) as client:
            held = gevent.event.Event()

            def job():
                try:
                    with zklock.Mutex(client, path) as lease:
                        held.set()
                        lease.wait_lost()
                except zklock.LockLost:
                    print("lost")

            greenlet = gevent.spawn(job)
            # A node alone is not enough: a waiter whose session ends joins again.
            held.wait()
            server.latency(0.01)
            print(server.expire(client))
            greenlet.join()
        """,
        "",
        "/locks/report",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("True\nlost\n", "", 0)


def test_the_testing_module_is_imported_only_on_request() -> None:
    code = "import sys, zklock; print('zklock.testing' in sys.modules, zklock.testing.Server.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.split() == ["False", "zklock.testing"]


MODULE = [sys.executable, "-m", "zklock.testing"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_server_of_a_shell(end: signal.Signals) -> None:
    with subprocess.Popen(MODULE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        hosts = line.split()[2].rstrip(",")
        with zklock.Mutex(hosts, "/locks/report") as lease:
            assert lease.state == "held"
        taken = subprocess.run(
            [*MODULE, "--port", hosts.split(":")[1]], capture_output=True, text=True, check=False, timeout=20
        )
        assert (taken.returncode, taken.stdout) == (1, "")
        assert re.fullmatch(f"cannot listen on {hosts}: .+ in use.*\n", taken.stderr)
        process.send_signal(end)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (0, "", "")


def test_the_help_has_examples() -> None:
    done = subprocess.run([*MODULE, "--help"], capture_output=True, text=True, check=True, timeout=20)
    assert "Production is Apache\nZooKeeper" in done.stdout or "Production is Apache ZooKeeper" in done.stdout
    assert "python -m zklock.testing --port 2181" in done.stdout
    wrong = subprocess.run(
        [*MODULE, "--port", "70000"], capture_output=True, text=True, check=False, timeout=20
    )
    assert (wrong.returncode, "65535" in wrong.stderr, "Traceback" in wrong.stderr) == (1, True, False)


def test_a_start_takes_less_than_50_ms() -> None:
    """Measures several starts and checks the fastest one, because a busy machine can delay the others."""
    took = []
    for _ in range(10):
        begun = time.perf_counter()
        server = Server()
        took.append(time.perf_counter() - begun)
        server.stop()
    assert min(took) < 0.05, took
