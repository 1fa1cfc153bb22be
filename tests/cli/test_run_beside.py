"""Tests of `zklock run` with orphaned child processes, and with locks of other kinds at the same path."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.command import LIMIT, Command, run, state
from harness.observer import Observer
from harness.paths import COMMAND
from harness.processes import spawn
from harness.server import Standalone
from harness.steps import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux a process gets orphans")

# Starts a process whose parent exits immediately, prints its PID, waits for a line, and exits with status 7.
JOB = "sh -c 'sleep 1000 & echo $!'; read end; exit 7"

PR_SET_CHILD_SUBREAPER = 36


class Reaper(Command):
    """A `zklock` that adopts orphaned processes, like the first process of a container."""

    def __init__(self, hosts: str, *words: str, directory: Path) -> None:
        # This setting survives the `exec` of `zklock`.
        start = (
            "import ctypes, os, sys;"
            f"ctypes.CDLL(None).prctl({PR_SET_CHILD_SUBREAPER}, 1, 0, 0, 0);"
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        self.out, self.err = (directory / "out").open("w+b"), (directory / "err").open("w+b")
        self.process = spawn(
            [sys.executable, "-c", start, str(COMMAND), *words],
            stdin=subprocess.PIPE,
            stdout=self.out,
            stderr=self.err,
            env={"ZKLOCK_HOSTS": hosts},
        )


def orphan_of(command: Command) -> int:
    """Return the PID of the job's orphaned process once `zklock` is its parent."""
    pid = int(command.read_until("\n"))
    eventually(lambda: parent(pid) == command.process.pid, "zklock has adopted the orphan")
    return pid


def parent(pid: int) -> int:
    """Return the PID of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_s740_orphans_are_reaped(server: Standalone, observer: Observer, path: str, tmp_path: Path) -> None:
    with Reaper(server.hosts, "run", path, "--", "sh", "-c", JOB, directory=tmp_path) as command:
        orphan = orphan_of(command)
        os.kill(orphan, signal.SIGKILL)
        eventually(lambda: state(orphan) == "", "it is reaped")
        assert len(observer.queue(path)) == 1, "the command is still running"
        command.type("\n")
        assert command.wait().status == 7, "the exit status is not the command's"
    observer.assert_free(path)


def test_s740_many_orphans_and_the_commands_status(server: Standalone, path: str, tmp_path: Path) -> None:
    """`zklock` returns the command's status, even if orphaned processes exit at the same time."""
    for _ in range(5):
        job = "for i in 1 2 3 4 5 6 7 8; do sh -c '(exit 3) & (exit 4) &'; done; exit 9"
        with Reaper(server.hosts, "run", path, "--", "sh", "-c", job, directory=tmp_path) as command:
            assert command.wait().status == 9


def test_s740_orphans_are_reaped_while_waiting(
    server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    """A shell that `zklock` replaces by `exec` has left it a child process."""
    start = f"sleep 1000 & echo $!; exec {COMMAND} run {path} -- true"
    with Command(server.hosts, "run", path, "--", "sh", "-c", "read end") as holder:
        observer.wait_queue(path, 1)
        out = (tmp_path / "out").open("w+b")
        waiting = spawn(["sh", "-c", start], stdout=out, env={"ZKLOCK_HOSTS": server.hosts})
        observer.wait_queue(path, 2)
        child = int((tmp_path / "out").read_text())
        os.kill(child, signal.SIGKILL)
        eventually(lambda: state(child) == "", "it is reaped")
        holder.type("\n")
        assert waiting.wait(LIMIT) == 0


def can_unshare() -> bool:
    """Return whether this user can create PID namespaces."""
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(
            ["unshare", "--pid", "--fork", "true"], check=False, stderr=subprocess.DEVNULL
        ).returncode
        == 0
    )


@pytest.mark.skipif(not can_unshare(), reason="needs the right to make a PID namespace")
def test_s740_as_process_1(server: Standalone, observer: Observer, path: str, tmp_path: Path) -> None:
    """As in a container, `zklock` passes signals on, reaps orphans, and returns the command's status."""
    out = (tmp_path / "out").open("w+b")
    job = "trap 'exit 5' TERM; echo $PPID; (sleep 1000 & echo started); while :; do sleep 0.05; done"
    process = spawn(
        ["unshare", "--pid", "--fork", str(COMMAND), "run", path, "--", "sh", "-c", job],
        stdout=out,
        env={"ZKLOCK_HOSTS": server.hosts},
    )
    eventually(lambda: (tmp_path / "out").read_text() == "1\nstarted\n", "zklock is process 1 there")
    (zklock,) = children(process.pid)
    # A child is briefly a shell before it executes its program.
    eventually(lambda: len(orphans(zklock)) == 1, "zklock has adopted the orphan")
    assert len(children(zklock)) == 2, "the other child is the command"
    (orphan,) = orphans(zklock)
    os.kill(orphan, signal.SIGKILL)
    eventually(lambda: state(orphan) == "", "it is reaped")
    os.kill(zklock, signal.SIGTERM)
    assert process.wait(LIMIT) == 5
    observer.assert_free(path)


def children(pid: int) -> list[int]:
    """Return the PIDs of a process's children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def orphans(pid: int) -> list[int]:
    """Return the adopted children of a process."""
    return [child for child in children(pid) if command_line(child) == "sleep 1000"]


def command_line(pid: int) -> str:
    """Return the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ").strip()


@pytest.mark.parametrize(
    ("first", "second"), [((), ("--slots", "1")), (("--slots", "1"), ()), (("-s",), ("--slots", "2"))]
)
def test_s741_two_kinds_of_locks_on_one_path(
    server: Standalone, observer: Observer, path: str, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    with Command(server.hosts, "run", "--label", "backup", *first, path, "--", "sleep", "60") as holder:
        below = "/leases" if "--slots" in first else ""
        observer.wait_queue(f"{path}{below}", 1)
        both = run(server.hosts, "run", *second, path, "--", "echo", "ran")
        assert (both.status, both.out) == (0, "ran\n"), "the two kinds exclude each other"
        how = "without --slots" if "--slots" in second else "with --slots"
        assert f'zklock: "{path}" is also used {how}, by backup (' in both.err
        assert f"process {holder.process.pid})" in both.err
        assert "use --slots on all hosts or on none" in both.err
        holder.signal(signal.SIGTERM)
        holder.wait()
    observer.assert_free(path)
    # Empty directories of other locks cause no warning.
    for words in (first, second):
        quiet = run(server.hosts, "run", *words, path, "--", "true")
        assert (quiet.status, quiet.err) == (0, "")


def test_s741_locks_below_a_semaphore_cause_no_warning(
    server: Standalone, observer: Observer, path: str
) -> None:
    """A semaphore's directory can contain another lock whose name is a number, such as an ID."""
    for _ in range(3):
        observer.client.create(f"{path}/x", b"", sequence=True, makepath=True)
    observer.create(f"{path}/10000000001")
    quiet = run(server.hosts, "run", "--slots", "1", path, "--", "true")
    assert (quiet.status, quiet.err) == (0, "")
