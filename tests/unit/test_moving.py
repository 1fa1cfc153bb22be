"""What docs/from-kazoo.md and docs/from-filelock.md say of the other library, and of ours, side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import filelock
import pytest
import zklock
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

from harness.server import Standalone


@contextlib.contextmanager
def holder(server: Standalone, path: str) -> Iterator[None]:
    """Somebody else holds the lock."""
    with zklock.Client(server.hosts) as other, zklock.Mutex(other, path):
        yield


def test_an_acquire_in_vain(server: Standalone, path: str) -> None:
    """kazoo raises where ours is false."""
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
    # Entered again by its owner.
    with held, held, holder(server, path), zklock.Client(server.hosts) as client:
        for options in ({"timeout": 0.1}, {"blocking": False}):
            with pytest.raises(filelock.Timeout):
                filelock.FileLock(file).acquire(**options)
            assert zklock.Mutex(client, path).acquire(**options) is False
    held.release()  # of what is not held: silent
    with zklock.Client(server.hosts) as client, pytest.raises(zklock.NotHeld):
        zklock.Mutex(client, path).release()
