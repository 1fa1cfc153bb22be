"""Tests of the pages about moving to zklock: statements about other libraries, and ShedLock's job."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import filelock
import pytest
import zklock
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

from harness.instances import INSTANCES, instances, three_o_clock
from harness.paths import NODE, REPOSITORY
from harness.programs import programs
from harness.server import Standalone

NIGHTS = 3


@contextlib.contextmanager
def holder(server: Standalone, path: str) -> Iterator[None]:
    """Run the block while another client holds the lock."""
    with zklock.Client(server.hosts) as other, zklock.Mutex(other, path):
        yield


def test_a_timed_out_acquire(server: Standalone, path: str) -> None:
    """If the lock stays taken, kazoo raises an exception and zklock returns `False`."""
    kazoo = KazooClient(hosts=server.hosts)
    kazoo.start()
    try:
        with holder(server, path), zklock.Client(server.hosts) as client:
            theirs = kazoo.Lock(path, "me", extra_lock_patterns=["-lock-"])
            with pytest.raises(LockTimeout):
                theirs.acquire(timeout=0.1)
            assert zklock.Mutex(client, path).acquire(timeout=0.1) is False
            with pytest.raises(zklock.LockTimeout), zklock.Mutex(client, path).hold(timeout=0.1):
                pass
    finally:
        kazoo.stop()
        kazoo.close()


def test_filelock_raises_where_ours_is_false(server: Standalone, path: str, tmp_path: Path) -> None:
    file = tmp_path / "lock"
    held = filelock.FileLock(file)
    # `FileLock` is reentrant, so the owner acquires it twice.
    with held, held, holder(server, path), zklock.Client(server.hosts) as client:
        for options in ({"timeout": 0.1}, {"blocking": False}):
            with pytest.raises(filelock.Timeout):
                filelock.FileLock(file).acquire(**options)
            assert zklock.Mutex(client, path).acquire(**options) is False
    held.release()  # a release of a lock that is not held: no error
    with zklock.Client(server.hosts) as client, pytest.raises(zklock.NotHeld):
        zklock.Mutex(client, path).release()


@pytest.mark.parametrize("runtime", [sys.executable, NODE], ids=["python", "node"])
def test_the_job_of_shedlock_runs_once_a_night(
    server: Standalone, path: str, node_project: Path, runtime: str
) -> None:
    """Three hosts with different clocks run the job once a night, although each of them starts it twice."""
    page = REPOSITORY / "docs" / "from-shedlock.md"
    (program,) = [
        one for one in programs(page) if one.name.endswith(".py" if runtime == sys.executable else ".mjs")
    ]
    file = node_project / program.name
    # The program runs in a chroot for this test.
    file.write_text(program.for_server(server.hosts + path))
    printed = node_project / "printed"
    for night in range(NIGHTS):
        with instances([runtime, str(file)], printed, {}, ahead=three_o_clock(night)) as hosts:
            hosts.wait()
    lines = printed.read_text().splitlines()
    assert lines.count("written") == NIGHTS, lines
    assert lines.count("another host has written it") == NIGHTS * (2 * INSTANCES - 1), lines
