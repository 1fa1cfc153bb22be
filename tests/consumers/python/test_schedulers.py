"""The programs of docs/frameworks.md for APScheduler and Dask, as printed: scheduled.py, dask_job.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

from harness.instances import Records, assert_more_than_once, instances
from harness.observer import Observer
from harness.paths import REPOSITORY
from harness.server import Standalone

PAGE = REPOSITORY / "docs" / "frameworks.md"

# A program whose task kills the Dask worker on which it first holds the lock.
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
    """Write a program of the page to a directory. Return its path."""
    (code,) = re.findall(rf"```python\n(# {name}:.*?)```", PAGE.read_text(), re.DOTALL)
    (directory / name).write_text(code)
    return directory / name


def test_apscheduler(server: Standalone, observer: Observer, tmp_path: Path) -> None:
    """Three hosts have clocks that differ by more time than the job takes. Exactly one runs each tick."""
    records = Records(observer, "/apscheduler/jobs/nightly")
    program = [sys.executable, str(written("scheduled.py", tmp_path))]
    with instances(program, tmp_path / "ran", {"ZKLOCK_HOSTS": f"{server.hosts}/apscheduler"}) as hosts:
        hosts.wait_lines(5)
        hosts.end()
        records.assert_once_each(hosts.lines())
        assert all(process.returncode == 0 for process in hosts.processes)
    observer.assert_free("/apscheduler/jobs/nightly")


def test_a_tick_of_apscheduler_runs_again_under_a_plain_lock(server: Standalone, tmp_path: Path) -> None:
    program = written("scheduled.py", tmp_path)
    plain = program.read_text().replace("@lock.once_per(1)", "@lock.hold()")
    assert plain != program.read_text()
    program.write_text(plain)
    env = {"ZKLOCK_HOSTS": f"{server.hosts}/apscheduler-plain"}
    with instances([sys.executable, str(program)], tmp_path / "ran", env) as hosts:
        assert_more_than_once(hosts.lines, 8)


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


def nightly(program: Path, server: Standalone, chroot: str) -> list[str]:
    """Return the parts that three programs write in two nights."""
    ran = program.with_name("ran")
    for day in ("2026-11-25", "2026-11-26"):
        command = [sys.executable, str(program), day]
        with instances(command, ran, {"ZKLOCK_HOSTS": f"{server.hosts}/{chroot}"}) as hosts:
            hosts.wait()
    return sorted(line.split(" token ")[0] for line in ran.read_text().splitlines())


def test_dask_once(server: Standalone, tmp_path: Path) -> None:
    """Three programs, each with its own cluster, run a night's job. Each part is written exactly once."""
    regions = ("east", "north", "south", "west")
    written_once = [f"{region} 2026-11-{day}" for region in regions for day in (25, 26)]
    assert nightly(written("dask_once.py", tmp_path), server, "dask-once") == written_once


def test_dask_runs_the_task_of_a_killed_worker_again(server: Standalone, tmp_path: Path) -> None:
    program, note = tmp_path / "killed.py", tmp_path / "note"
    program.write_text(KILLED)
    command = [sys.executable, str(program), f"{server.hosts}/dask-killed", str(note)]
    done = subprocess.run(command, stdout=PIPE, text=True, timeout=100, check=True)
    assert int(note.read_text()) < int(done.stdout)
