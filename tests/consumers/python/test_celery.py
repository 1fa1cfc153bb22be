"""Celery tasks use locks in each of Celery's pools. The broker is a directory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import billiard
import pytest
import zklock

from harness.built import require
from harness.instances import APART, Records, assert_more_than_once
from harness.observer import Observer
from harness.paths import COMMAND, REPOSITORY
from harness.processes import reap, spawn
from harness.server import Standalone
from harness.steps import eventually

HERE = Path(__file__).parent
PAGE = REPOSITORY / "docs" / "frameworks.md"
BEAT = (sys.executable, "-m", "celery", "--app", "ticks", "beat")


def whole(file: Path) -> bool:
    """Return whether a result exists and is complete."""
    try:
        json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return False
    return True


class Station:
    """A broker, and the workers that run on it."""

    def __init__(self, hosts: str, path: str, files: Path) -> None:
        self.files, self.module, self.folder = files, "celery_app", HERE
        for name in ("queue", "control", "results"):
            (files / name).mkdir()
        self.environment = {
            **os.environ,
            "ZKLOCK_HOSTS": hosts,
            "LOCK_PATH": path,
            "CELERY_FILES": str(files),
            "PYTHONUNBUFFERED": "1",
        }
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, pool: str, concurrency: int) -> subprocess.Popen[bytes]:
        """Start a worker, and wait until it is ready for tasks."""
        log = self.files / f"log-{len(self.workers)}"
        command = [sys.executable, "-m", "celery", "-A", self.module, "worker", "--pool", pool]
        command += ["--concurrency", str(concurrency), "--loglevel", "INFO", "--without-gossip"]
        command += ["--without-mingle", "--hostname", f"w{len(self.workers)}@test"]
        with log.open("wb") as output:
            worker = spawn(command, env=self.environment, stdout=output, stderr=output, cwd=self.folder)
        self.workers.append(worker)
        eventually(lambda: b" ready." in log.read_bytes(), f"a worker is ready: {log}", 40)
        return worker

    def send(self, task: str, *arguments: Any, status: str = "SUCCESS") -> Callable[[], Any]:
        """Send a task. Return a function that waits for its result."""
        # Import celery_app too, because it makes the broker write messages atomically.
        code = f"import sys; sys.path.append({str(HERE)!r}); import celery_app, {self.module} as tasks; "
        code += f"print(tasks.{task}.delay(*{arguments!r}).id)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        task_id = done.stdout.strip()

        def result() -> Any:
            file = self.files / "results" / f"celery-task-meta-{task_id}"
            # The file exists before it has any content.
            eventually(lambda: whole(file), f"{task} is done: {self.notes()}", 40)
            reported = json.loads(file.read_text())
            assert reported["status"] == status, reported
            return reported["result"]

        return result

    def notes(self) -> list[str]:
        """Return the lines that tasks have noted."""
        notes = self.files / "notes"
        return notes.read_text().splitlines() if notes.exists() else []

    def logs(self) -> str:
        """Return the logs of all workers."""
        return "".join(file.read_text() for file in sorted(self.files.glob("log-*")))


@pytest.fixture
def observer(server: Standalone) -> Iterator[Observer]:
    with Observer(server.hosts) as bystander:
        yield bystander


@pytest.fixture
def station(server: Standalone, path: str, tmp_path: Path) -> Iterator[Station]:
    made = Station(server.hosts, path, tmp_path)
    try:
        yield made
    finally:
        for worker in made.workers:
            if worker.poll() is None:
                worker.kill()
            reap(worker, 10)
        print(made.logs())


@pytest.mark.parametrize("pool", ["prefork", "gevent", "threads"])
def test_tasks_exclude_each_other_and_a_warm_shutdown_frees_everything(
    station: Station, observer: Observer, path: str, pool: str
) -> None:
    """After SIGTERM, the worker finishes its running task, and frees a lock that a task never released."""
    worker = station.start(pool, 3)
    results = [station.send("work", 0.2) for _ in range(5)]
    reported = [result() for result in results]
    tokens = [token for token, _pid in reported]
    assert len(set(tokens)) == 5
    processes = {pid for _token, pid in reported}
    assert (worker.pid in processes) == (pool != "prefork"), (worker.pid, processes)

    station.send("keep")()
    observer.wait_queue(f"{path}-kept", 1)
    last = station.send("work", 2)
    eventually(lambda: len(station.notes()) == 7, "the last task runs", 20)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert last()[1] in processes | {worker.pid}
    # If the worker did not free the locks, they would stay taken until the session timeout of ten seconds.
    observer.wait_queue(path, 0, timeout=5)
    observer.wait_queue(f"{path}-kept", 0, timeout=5)
    assert "Traceback" not in station.logs()


def test_a_child_is_replaced(station: Station, observer: Observer, path: str) -> None:
    """A child that has reached its maximum number of tasks exits and frees its locks."""
    station.environment["MAX_TASKS"] = "1"
    station.start("prefork", 1)
    station.send("keep")()
    # The child exits after this task, which frees its lock.
    observer.wait_queue(f"{path}-kept", 0, timeout=8)


def test_a_child_is_killed(station: Station, observer: Observer, path: str) -> None:
    """If a child is killed, its lock is free after the session timeout. Another child repeats the task."""
    station.start("prefork", 2)
    done = station.send("die")
    other = station.send("work", 0.1)
    killed = done()
    (dead,) = [note.split()[1] for note in station.notes() if note.startswith("dies")]
    assert killed != int(dead)
    assert other()
    observer.wait_queue(path, 0, timeout=5)


def test_eventlet_is_refused(station: Station) -> None:
    """The task fails with an error that says what to do instead."""
    station.start("eventlet", 2)
    failed = station.send("work", 0.1, status="FAILURE")()
    assert failed["exc_type"] == "RuntimeError"
    assert "does not support eventlet" in failed["exc_message"][0]


def show(station: Station, name: str, *more: tuple[str, str]) -> None:
    """Write a module of docs/frameworks.md and a Celery configuration to the workers' directory."""
    (code,) = re.findall(rf"```python\n(# {name}\.py.*?)```", PAGE.read_text(), re.DOTALL)
    for old, new in more:
        assert code.count(old) == 1
        code = code.replace(old, new)
    (station.files / f"{name}.py").write_text(code)
    transport = {"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"}
    settings = {
        "broker_url": "filesystem://",
        "broker_transport_options": {
            **{key: str(station.files / folder) for key, folder in transport.items()},
            "polling_interval": 0.05,
        },
        "result_backend": f"file://{station.files / 'results'}",
        "broker_connection_retry_on_startup": True,
        "worker_redirect_stdouts": False,
    }
    config = "".join(f"{key} = {value!r}\n" for key, value in settings.items())
    # celery_app writes messages atomically, also for beats.
    config += f"import sys\nsys.path.append({str(HERE)!r})\nimport celery_app as _\n"
    (station.files / "celeryconfig.py").write_text(config)
    station.module, station.folder = name, station.files


def test_the_documentations_example_works(station: Station) -> None:
    show(station, "tasks")
    station.start("prefork", 2)
    assert station.send("report")() < station.send("report")()


@contextmanager
def beats(station: Station, *before: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run three Celery beat processes, started one after another, as if on three hosts.

    Between two starts, more time passes than a task takes.
    """
    with ExitStack() as stack:
        started = []
        for number in range(3):
            # Each host has its own schedule.
            options = ("--schedule", str(station.files / f"schedule-{number}"), "--loglevel", "INFO")
            command = [*before, *BEAT, *options]
            with (station.files / f"log-beat-{number}").open("wb") as log:
                beat = spawn(command, env=station.environment, stdout=log, stderr=log, cwd=station.folder)
            stack.callback(reap, beat)
            started.append(beat)
            time.sleep(APART)
        yield started


def written(station: Station) -> list[str]:
    """Return the lines of the tasks that completed."""
    return [line for line in station.logs().splitlines() if line.startswith("written, with token ")]


def test_a_tick_of_three_beats_runs_once(station: Station, observer: Observer) -> None:
    station.environment["ZKLOCK_HOSTS"] += "/beats"
    show(station, "ticks")
    records = Records(observer, "/beats/jobs/report")
    worker = station.start("prefork", 3)
    with beats(station):
        eventually(lambda: len(written(station)) >= 5, "ticks are done", 60)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    records.assert_once_each(written(station))


def test_a_tick_of_three_beats_runs_again_under_a_plain_lock(station: Station) -> None:
    station.environment["ZKLOCK_HOSTS"] += "/beats-plain"
    show(station, "ticks", ("@lock.once_per(1)", "@lock.hold()"))
    station.start("prefork", 3)
    with beats(station):
        assert_more_than_once(lambda: written(station), 8)


def test_another_beat_takes_over(station: Station, observer: Observer) -> None:
    """One of three beats runs. When it exits, the next one takes over."""
    require("command")
    (line,) = re.findall(r"^(zklock run .*) -- celery --app ticks beat$", PAGE.read_text(), re.MULTILINE)
    station.environment["ZKLOCK_HOSTS"] += "/beat"
    show(station, "ticks")
    (station.files / "zklock").symlink_to(COMMAND)
    words = [str(station.files / "zklock"), *line.split()[1:], "--"]

    def sends(number: int) -> bool:
        return "Sending due task" in (station.files / f"log-beat-{number}").read_text()

    with beats(station, *words) as started:
        observer.wait_queue("/beat/locks/beat", 3, timeout=20)
        running: list[int] = []
        for _ in range(2):
            eventually(lambda: sum(map(sends, range(3))) > len(running), "a beat sends ticks", 60)
            (number,) = [number for number in range(3) if sends(number) and number not in running]
            running.append(number)
            started[number].send_signal(signal.SIGTERM)
            assert started[number].wait(20) is not None


kept: list[zklock.Mutex] = []


def _keep(hosts: str, path: str) -> int:
    """Acquire a lock in a child that then exits without releasing it."""
    kept.append(zklock.Mutex(hosts, path))
    kept[0].acquire()
    return os.getpid()


def test_children_of_billiard_alone(server: Standalone, observer: Observer, path: str) -> None:
    """Without Celery, a billiard process and a pool worker both free their locks when they exit."""
    process = billiard.Process(target=_keep, args=(server.hosts, f"{path}-process"))
    process.start()
    process.join(20)
    assert process.exitcode == 0
    observer.wait_queue(f"{path}-process", 0, timeout=2)

    pool = billiard.Pool(1)
    assert pool.apply(_keep, (server.hosts, f"{path}-pool")) != os.getpid()
    observer.wait_queue(f"{path}-pool", 1)
    pool.close()
    pool.join()
    observer.wait_queue(f"{path}-pool", 0, timeout=2)
