"""A client of the test itself: it reads nodes, waits for changes, and performs an operator's actions."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from harness import wire
from harness.server import Server

WAIT = 10.0
SEQUENCED = re.compile(r"\d{10}$")


def sequence(node: str) -> int:
    """Return the sequence number in a node's name."""
    match = SEQUENCED.search(node)
    if match is None:
        raise ValueError(f"{node} has no sequence number")
    return int(match.group())


class Observer:
    """A kazoo client that watches lock directories."""

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self.client: Any = KazooClient(hosts=hosts, timeout=10.0)

    def __enter__(self) -> Self:
        self.client.start(timeout=15)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.stop()
        self.client.close()

    def exists(self, path: str) -> bool:
        """Return whether the node exists."""
        return self.client.exists(path) is not None

    def create(self, path: str) -> None:
        """Create a persistent node with its parents. The server never deletes it, unlike a container node."""
        try:
            self.client.create(path, makepath=True)
        except NodeExistsError:
            return

    def delete(self, path: str) -> None:
        """Delete a node, as an operator might."""
        self.client.delete(path)

    def children(self, path: str) -> list[str]:
        """Return all children, also those without a sequence number. Return none if the path is missing."""
        try:
            return sorted(self.client.get_children(path))
        except NoNodeError:
            return []

    def queue(self, path: str) -> list[str]:
        """Return the contenders in the order of their sequence numbers."""
        return sorted((node for node in self.children(path) if SEQUENCED.search(node)), key=sequence)

    def czxid(self, path: str) -> int:
        """Return the id of the transaction that created a node."""
        return int(self.client.get(path)[1].czxid)

    def owner(self, path: str) -> int:
        """Return the id of the session that owns a node."""
        return int(self.client.get(path)[1].ephemeralOwner)

    def wait_queue(self, path: str, length: int, timeout: float = WAIT) -> list[str]:
        """Wait until the lock has this many contenders. Return them in order."""
        return self.wait(path, lambda queue: len(queue) == length, f"{length} contenders", timeout)

    def assert_free(self, path: str) -> None:
        """Assert that the lock has no contender. Wait for deletions that have not arrived yet."""
        assert self.wait_queue(path, 0) == []

    def wait(
        self, path: str, wanted: Callable[[list[str]], bool], what: str, timeout: float = WAIT
    ) -> list[str]:
        """Wait until the queue of a lock satisfies `wanted`. Return the queue."""
        deadline = time.monotonic() + timeout
        while True:
            changed = threading.Event()
            try:
                children = self.client.get_children(path, watch=lambda _event, changed=changed: changed.set())
            except NoNodeError:
                children = []
                if self.client.exists(path, watch=lambda _event, changed=changed: changed.set()):
                    continue
            queue = sorted((node for node in children if SEQUENCED.search(node)), key=sequence)
            if wanted(queue):
                return queue
            if not changed.wait(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"{path}: no {what} within {timeout} s, but {queue}")

    def wait_gone(self, path: str, timeout: float = WAIT) -> None:
        """Wait until a node is deleted."""
        deadline = time.monotonic() + timeout
        while True:
            gone = threading.Event()
            if self.client.exists(path, watch=lambda _event, gone=gone: gone.set()) is None:
                return
            if not gone.wait(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"{path} is still there after {timeout} s")

    def kill_session(self, session_id: int, password: bytes) -> None:
        """Close a session on the server.

        An expiry event injected into the client would leave the session open on the server.
        """
        host, port = self.hosts.split(",")[0].rsplit(":", 1)
        deadline = time.monotonic() + WAIT
        tried = False
        while time.monotonic() < deadline:
            try:
                if wire.close_session(host, int(port), session_id, password):
                    return
            except wire.SessionGone:
                if tried:
                    return
                raise
            tried = True
        raise AssertionError(f"session {session_id:#x} could not be ended")


def watched_by(server: Server, session: int, under: str) -> set[str]:
    """Return the paths at and below ``under`` that a session watches, according to the server."""
    found: set[str] = set()
    path = ""
    for line in server.four_letter("wchp").splitlines():
        if line.startswith("/"):
            path = line
        elif line.strip() and (path == under or path.startswith(under + "/")) and int(line, 16) == session:
            found.add(path)
    return found
