"""The programs of docs/frameworks.md for APScheduler and Dask, as printed: scheduled.py, dask_job.py."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import zklock

from harness.observer import Observer
from harness.paths import REPOSITORY
from harness.processes import reap, spawn
from harness.server import Standalone

PAGE = REPOSITORY / "docs" / "frameworks.md"

# A task that kills the worker on which it first holds the lock.
KILLED = """
import os, signal, sys
import zklock
from distributed import Client, LocalCluster

hosts, path = sys.argv[1:]
lock = zklock.Mutex(hosts, "/locks/report")

def append():
    with lock as lease:
        try:
            with open(path, "x") as note:
                note.write(str(lease.fencing_token))
        except FileExistsError:
            return lease.fencing_token
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
        print(client.submit(append).result())
"""


def written(name: str, directory: Path) -> Path:
    """A program of the page."""
    (code,) = re.findall(rf"```python\n(# {name}:.*?)```", PAGE.read_text(), re.DOTALL)
    (directory / name).write_text(code)
    return directory / name


def test_apscheduler(server: Standalone, observer: Observer, tmp_path: Path) -> None:
    hosts = f"{server.hosts}/apscheduler"
    program = [sys.executable, str(written("scheduled.py", tmp_path))]
    with zklock.Client(hosts) as other:
        lock = zklock.Mutex(other, "/locks/nightly")
        lock.acquire()
        process = spawn(program, env={"ZKLOCK_HOSTS": hosts}, stdout=PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"another host is at it\n"
            lock.release()
            lines = iter(process.stdout.readline, b"another host is at it\n")
            assert re.fullmatch(rb"written, with token \d+\n", next(lines))
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            reap(process)
    observer.assert_free("/apscheduler/locks/nightly")


def test_dask(server: Standalone, observer: Observer, tmp_path: Path) -> None:
    hosts = f"{server.hosts}/dask"
    program = written("dask_job.py", tmp_path)
    done = subprocess.run(
        [sys.executable, program],
        env={"ZKLOCK_HOSTS": hosts},
        stdout=PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "4 parts, one after the other\n"
    observer.assert_free("/dask/locks/report")


def test_dask_runs_the_task_of_a_killed_worker_again(server: Standalone, tmp_path: Path) -> None:
    program, note = tmp_path / "killed.py", tmp_path / "note"
    program.write_text(KILLED)
    command = [sys.executable, str(program), f"{server.hosts}/dask-killed", str(note)]
    done = subprocess.run(command, stdout=PIPE, text=True, timeout=100, check=True)
    assert int(note.read_text()) < int(done.stdout)
