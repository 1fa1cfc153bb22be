"""Servers that create all lock objects before they fork their workers, and pools that replace workers."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from http.client import RemoteDisconnected
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import pytest
import scripts
from harness.observer import Observer
from harness.ports import free_port
from harness.processes import reap, spawn
from harness.steps import eventually

import zklock


class Gunicorn:
    """A master that loaded `prefork_app`, with two workers."""

    def __init__(self, hosts: str, path: str, log: Path) -> None:
        self.log = log
        self.address = f"127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", "gunicorn", "--preload", "--workers=2", f"--bind={self.address}"]
        command += [
            f"--chdir={Path(__file__).parent}",
            f"--worker-tmp-dir={log.parent}",
            "prefork_app:application",
        ]
        with log.open("wb") as errors:
            self.master = spawn(command, env=scripts.environment(hosts, path), stdout=errors, stderr=errors)
        self.workers: dict[int, dict[str, Any]] = {}
        self.expect_workers(15)

    def ask(self, page: str = "") -> dict[str, Any]:
        """Return the report of any one worker."""
        with urllib.request.urlopen(f"http://{self.address}/{page}", timeout=10) as answer:
            received: dict[str, Any] = json.load(answer)
        self.workers[received["pid"]] = received
        return received

    def expect_workers(self, timeout: float = 10) -> None:
        """Wait until two workers have answered, and are still running."""

        def both() -> bool:
            try:
                self.ask()
            except OSError:
                return False
            return len(self.workers) == 2

        eventually(both, "two workers answer", timeout)

    def expect_end(self, worker: int) -> None:
        """Wait until a worker has exited, and its replacement answers."""
        eventually(lambda: not Path(f"/proc/{worker}").exists(), "a worker ends", 10)
        del self.workers[worker]
        self.expect_workers()


@pytest.fixture
def gunicorn(hosts: str, path: str, tmp_path: Path) -> Iterator[Gunicorn]:
    """Provide a server that forks its workers after all objects have been created."""
    log = tmp_path / "log"
    server = Gunicorn(hosts, path, log)
    try:
        yield server
    finally:
        server.master.terminate()
        reap(server.master, 10)


def test_a_prefork_server_with_preload(gunicorn: Gunicorn, observer: Observer, path: str) -> None:
    (kept,) = observer.queue(f"{path}/master")
    master = observer.owner(f"{path}/master/{kept}")
    for answer in gunicorn.workers.values():
        assert answer["inherited"] == "FORKED"
    sessions = {answer["session"] for answer in gunicorn.workers.values()}
    assert len({*sessions, master, *(answer["master"] for answer in gunicorn.workers.values())}) == 4
    lazy = {answer[who] for answer in gunicorn.workers.values() for who in ("lazy", "lazy_master")}
    assert len(lazy - sessions) == 3

    # A worker that receives SIGTERM frees its locks immediately.
    keeper = gunicorn.ask("keep")["pid"]
    observer.wait_queue(f"{path}/worker", 1)
    os.kill(keeper, signal.SIGTERM)
    observer.wait_queue(f"{path}/worker", 0, timeout=5)
    gunicorn.expect_end(keeper)

    # The locks of a killed worker are freed with its session.
    both = set(gunicorn.workers)
    with pytest.raises(RemoteDisconnected):
        gunicorn.ask("die")
    observer.wait_queue(f"{path}/worker", 0, timeout=8)
    eventually(lambda: any(not Path(f"/proc/{pid}").exists() for pid in both), "a worker ends")
    (dead,) = (pid for pid in both if not Path(f"/proc/{pid}").exists())
    gunicorn.expect_end(dead)
    assert {answer["inherited"] for answer in gunicorn.workers.values()} == {"FORKED"}

    # The master has held its lock all the time. It frees the lock when it exits.
    assert observer.queue(f"{path}/master") == [kept]
    gunicorn.master.terminate()
    observer.wait_queue(f"{path}/master", 0, timeout=5)
    assert gunicorn.master.wait(10) == 0
    log = gunicorn.log.read_text()
    assert "Traceback" not in log, log
    assert "panicked" not in log, log


inherited: zklock.Mutex | None = None


def _work(hosts: str, path: str) -> tuple[int, str]:
    """Try to acquire the lock of the parent, then acquire a lock of this worker of the pool. Return the
    worker's session id, and `acquired` or the error code for the parent's lock.
    """
    assert inherited is not None
    try:
        inherited.acquire()
        outcome = "acquired"
    except zklock.Forked as error:
        outcome = error.code
    with zklock.Mutex(hosts, path) as lease:
        return lease.session_id, outcome


@pytest.fixture
def parent(
    client: zklock.Client, hosts: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[zklock.Lease]:
    """Create the objects that the workers inherit: a held lock, and a shared client that was used before."""
    lock = zklock.Mutex(client, f"{path}-parent")
    monkeypatch.setattr(f"{__name__}.inherited", lock)
    with zklock.Mutex(hosts, path), lock as lease:
        pass
    with lock as lease:
        yield lease
        lease.check()


def test_a_pool_that_renews_its_workers(parent: zklock.Lease, hosts: str, path: str) -> None:
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=2) as pool:
        received = pool.starmap(_work, [(hosts, path)] * 12, chunksize=1)
    sessions = {session for session, _outcome in received}
    # Each worker has its own session, for its two tasks.
    assert len(sessions) >= 6
    assert parent.session_id not in sessions
    assert {outcome for _session, outcome in received} == {"FORKED"}


def _die(hosts: str, path: str) -> None:
    """Kill this worker while it holds the lock, which then stays taken until the session expires."""
    zklock.Mutex(zklock.Client(hosts, session_timeout=1), path).acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_that_replaces_a_worker(parent: zklock.Lease, hosts: str, path: str) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        received = [pool.apply_async(_work, (hosts, path)).get(30)]
        pool.apply_async(_die, (hosts, path))
        received += [pool.apply_async(_work, (hosts, path)).get(30) for _ in range(2)]
    first, second, third = (session for session, _outcome in received)
    assert parent.session_id != first != second == third
    assert {outcome for _session, outcome in received} == {"FORKED"}


def test_an_executor_of_processes(parent: zklock.Lease, hosts: str, path: str) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        received = [task.result(timeout=30) for task in [pool.submit(_work, hosts, path) for _ in range(8)]]
    assert parent.session_id not in {session for session, _outcome in received}
    assert {outcome for _session, outcome in received} == {"FORKED"}


kept: list[zklock.Mutex] = []


def _keep(hosts: str, path: str, session_timeout: float, held: SimpleQueue[bool], end: str) -> None:
    """A child that exits while it holds the lock."""
    kept.append(zklock.Mutex(zklock.Client(hosts, session_timeout=session_timeout), path))
    held.put(kept[0].acquire())
    exec(end)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(
    ("end", "status", "at_once"),
    [("pass", 0, True), ("sys.exit(3)", 3, True), ("1 / 0", 1, True), ("os._exit(3)", 3, False)],
)
def test_a_child_that_ends_while_it_holds(
    observer: Observer, hosts: str, path: str, method: str, end: str, status: int, at_once: bool
) -> None:
    """`multiprocessing` ends its children without running `atexit` handlers."""
    context: Any = multiprocessing.get_context(method)
    held = context.SimpleQueue()
    child = context.Process(target=_keep, args=(hosts, path, 30 if at_once else 1, held, end))
    child.start()
    assert held.get()
    child.join()
    assert child.exitcode == status
    observer.wait_queue(path, 0)
