"""Worker on kazoo's own locks, configured to see Curator's nodes too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError, LockTimeout, NoNodeError

from workers.line import Command, answer, now
from workers.threaded import ThreadedWorker


class NotHeld(Exception):
    """The lock to release was not held. kazoo's `release` returns False in this case."""

    code = "NOT_HELD"


class KazooWorker(ThreadedWorker):
    """A worker that uses kazoo's locks.

    Each lease is a lock object here, because a kazoo lock can be held only once.
    """

    surface = "kazoo"

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[str, Any] = {}
        self._locks: dict[str, Any] = {}
        self._leases: dict[str, Any] = {}
        # Lock objects by the id of the acquire command.
        self._asked: dict[Any, Any] = {}
        # Locks without a name, which are held until the process ends.
        self._held: list[Any] = []

    def cancel(self, command: Command) -> None:
        lock = self._asked.get(command["target"])
        if lock is not None:
            lock.cancel()
        answer(command, "cancelled")

    def do_connect(self, command: Command) -> None:
        client = KazooClient(hosts=command["hosts"], timeout=command.get("session_timeout", 10.0))
        client.start(timeout=command.get("connect_timeout", 10.0))
        self._clients[command["client"]] = client
        answer(command, "connected", session=str(client.client_id[0]))

    def make(self, command: Command) -> Any:
        client = self._clients[command["client"]]
        recipe, seen = {
            "mutex": (client.Lock, ["-lock-"]),
            # Name patterns of the nodes that a contender waits for. A reader does not wait for Curator's
            # readers (`__READ__`).
            "read": (client.ReadLock, ["-lock-", "__WRIT__"]),
            "write": (client.WriteLock, ["-lock-", "__WRIT__", "__READ__"]),
        }[command.get("kind", "mutex")]
        if command.get("naming") == "kazoo":
            seen = []
        return recipe(command["path"], "kazoo", extra_lock_patterns=seen)

    def do_hold(self, command: Command) -> None:
        client = self._clients[command["client"]]
        for number in range(command["first"], command["first"] + command["count"]):
            lock = client.Lock(f"{command['path']}/{number}", "kazoo", extra_lock_patterns=["-lock-"])
            lock.acquire()
            self._held.append(lock)
        answer(command, "done")

    def do_lock(self, command: Command) -> None:
        self._locks[command["lock"]] = self.make(command)
        answer(command, "ready")

    @staticmethod
    def seen(lock: Any) -> dict[str, str]:
        """Return node, token and session of a held lock."""
        found = {"node": str(lock.node), "session": str(lock.client.client_id[0])}
        with contextlib.suppress(NoNodeError):
            found["token"] = str(lock.client.get(f"{lock.path}/{lock.node}")[1].czxid)
        return found

    def do_acquire(self, command: Command) -> None:
        lock = self._asked[command["id"]] = self._locks[command["lock"]]
        try:
            with self.interrupts.armed():
                held = lock.acquire(timeout=command.get("timeout"))
        except LockTimeout:
            held = False
        except CancelledError:
            answer(command, "cancelled")
            return
        if not held:
            answer(command, "timeout")
            return
        granted = now()
        self._leases[command["lease"]] = lock
        answer(command, "acquired", t=granted, **self.seen(lock))

    def do_try(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        if lock.acquire(blocking=False):
            granted = now()
            self._leases[command["lease"]] = lock
            answer(command, "acquired", t=granted, **self.seen(lock))
        else:
            answer(command, "busy")

    def do_release(self, command: Command) -> None:
        started = now()
        if not self._leases[command["lease"]].release():
            raise NotHeld("not held")
        answer(command, "released", t0=started)

    def do_owned(self, command: Command) -> None:
        answer(command, "value", value=self._locks[command["lock"]].is_acquired)

    def do_close(self, command: Command) -> None:
        self._stop(self._clients.pop(command["client"]))
        answer(command, "closed")

    @staticmethod
    def _stop(client: Any) -> None:
        client.stop()
        client.close()

    def close_all(self) -> None:
        for client in self._clients.values():
            self._stop(client)

    @contextlib.contextmanager
    def scope(self, lock: Any) -> Iterator[Callable[[], dict[str, str]]]:
        with lock:
            yield lambda: self.seen(lock)


if __name__ == "__main__":
    KazooWorker().run()
