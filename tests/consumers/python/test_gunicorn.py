"""Requests use locks in gunicorn's gevent workers, where each request is a greenlet."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zklock

from harness.observer import Observer
from harness.ports import free_port
from harness.processes import reap, spawn
from harness.server import Standalone
from harness.steps import eventually

HERE = Path(__file__).parent


class Gunicorn:
    """A gunicorn master with two workers that run greenlets."""

    def __init__(self, hosts: str, path: str, log: Path, *options: str) -> None:
        self.log = log
        self.address = f"127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", "gunicorn", "--worker-class=gevent", "--workers=2", *options]
        command += ["--no-control-socket"]
        command += [f"--bind={self.address}", f"--worker-tmp-dir={log.parent}", "gunicorn_app:application"]
        environment = {**os.environ, "ZKLOCK_HOSTS": hosts, "LOCK_PATH": path}
        with log.open("wb") as errors:
            self.master = spawn(command, env=environment, stdout=errors, stderr=errors, cwd=HERE)
        # Wait until all workers listen. Before that they ignore SIGTERM, and the master would wait for them.
        self.expect_workers()

    def ask(self, page: str = "") -> dict[str, Any]:
        """Return the reply to a request, from either worker."""
        with urllib.request.urlopen(f"http://{self.address}/{page}", timeout=30) as answer:
            reported: dict[str, Any] = json.load(answer)
        return reported

    def expect_workers(self) -> None:
        """Wait until both workers have replied."""
        workers = set()

        def both() -> bool:
            with contextlib.suppress(OSError):
                workers.add(self.ask()["pid"])
            return len(workers) == 2

        eventually(both, "both workers answer", 20)


@pytest.fixture
def observer(server: Standalone) -> Iterator[Observer]:
    with Observer(server.hosts) as bystander:
        yield bystander


@pytest.fixture(params=[(), ("--preload",)], ids=["alone", "preload"])
def gunicorn(
    request: pytest.FixtureRequest, server: Standalone, path: str, tmp_path: Path
) -> Iterator[Gunicorn]:
    made = Gunicorn(server.hosts, path, tmp_path / "log", *request.param)
    try:
        yield made
    finally:
        made.master.terminate()
        reap(made.master, 10)
        print(made.log.read_text())


def test_requests_exclude_each_other(gunicorn: Gunicorn, observer: Observer, path: str) -> None:
    """Requests exclude each other, in the same worker and in different workers."""
    with ThreadPoolExecutor(20) as pool:
        reported = list(pool.map(lambda _: gunicorn.ask("enter"), range(40)))
    assert {answer["most"] for answer in reported} == {1}
    assert len({answer["pid"] for answer in reported}) == 2
    turns = sorted((answer["token"], answer["began"], answer["ended"]) for answer in reported)
    assert all(before[2] <= after[1] for before, after in pairwise(turns))
    assert all(before[0] < after[0] for before, after in pairwise(turns))
    assert {answer["patched"][1] for answer in reported} == {"gevent.hub"}
    observer.wait_queue(path, 0)


def test_a_worker_answers_while_its_requests_wait(
    gunicorn: Gunicorn, server: Standalone, observer: Observer, path: str
) -> None:
    with zklock.Client(server.hosts) as client, ThreadPoolExecutor(12) as pool:
        with zklock.Mutex(client, path):
            waiting = [pool.submit(gunicorn.ask, "enter") for _ in range(12)]
            observer.wait_queue(path, 13)
            gunicorn.expect_workers()
            assert not any(request.done() for request in waiting)
        assert {request.result(30)["most"] for request in waiting} == {1}


def test_all_locks_are_free_after_a_stop(gunicorn: Gunicorn, observer: Observer, path: str) -> None:
    """When gunicorn stops, all locks are free immediately, even a lock that a request never released."""
    gunicorn.ask("keep")
    observer.wait_queue(f"{path}-kept", 1)
    gunicorn.ask("enter")
    gunicorn.master.terminate()
    assert gunicorn.master.wait(20) == 0
    observer.wait_queue(f"{path}-kept", 0, timeout=5)
    observer.wait_queue(path, 0, timeout=5)
    log = gunicorn.log.read_text()
    assert "Traceback" not in log
    assert "panicked" not in log


def test_the_documentations_example_works(server: Standalone, observer: Observer, tmp_path: Path) -> None:
    """The module in docs/frameworks.md works as printed."""
    page = (HERE.parents[2] / "docs" / "frameworks.md").read_text()
    (snippet,) = re.findall(r"```python\n(# wsgi\.py.*?)```", page, re.DOTALL)
    (tmp_path / "wsgi.py").write_text(snippet)
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "gunicorn", "--worker-class=gevent", "--preload", f"--bind={address}"]
    command += ["--no-control-socket", f"--worker-tmp-dir={tmp_path}", "wsgi:application"]
    master = spawn(command, env={**os.environ, "ZKLOCK_HOSTS": server.hosts}, cwd=tmp_path)
    answers = set()

    def answered() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/", timeout=20) as answer:
            answers.add(answer.read())
        return bool(answers)

    try:
        eventually(answered, "it answers", 20)
    finally:
        master.terminate()
        reap(master, 10)
    assert answers == {b"written"}
    observer.wait_queue("/locks/report", 0)
