"""The worker on zklock's blocking Python API. Owners are threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import zklock

from workers.line import Command, answer, emit, now, timeout_of
from workers.threaded import ThreadedWorker


def facts(lease: Any) -> dict[str, str]:
    """What a grant is told with."""
    return {
        "node": lease.node,
        "token": str(lease.fencing_token),
        "session": str(lease.session_id),
    }


def statistics(stats: Any) -> dict[str, Any]:
    """A client's statistics as the protocol has them."""
    fields = ("transport", "acquisitions", "contended", "busy", "timeouts", "losses", "requests")
    histograms = {
        name: {field: getattr(getattr(stats, name), field) for field in ("count", "sum", "max", "buckets")}
        for name in ("wait", "hold")
    }
    return {field: getattr(stats, field) for field in fields} | histograms


def make_lock(api: Any, client: Any, command: Command) -> Any:
    """A lock of `zklock` or of `zklock.aio`, as the command describes it."""
    kind = command.get("kind", "mutex")
    if kind == "mutex":
        return api.Mutex(client, command["path"], reentrant=command.get("reentrant", True))
    return getattr(api.ReadWriteLock(client, command["path"]), f"{kind}_lock")


class PythonWorker(ThreadedWorker):
    """Does what the commands say, with the names that they bring."""

    surface = "python"

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[str, Any] = {}
        self._locks: dict[str, Any] = {}
        self._leases: dict[str, Any] = {}

    def do_connect(self, command: Command) -> None:
        options = {key: command[key] for key in ("session_timeout", "connect_timeout") if key in command}
        client = zklock.Client(command["hosts"], **options)
        self._clients[command["client"]] = client
        answer(command, "connected", session=str(client.session_id))

    def make(self, command: Command) -> Any:
        client = self._clients[command["client"]] if "client" in command else command["hosts"]
        return make_lock(zklock, client, command)

    def do_lock(self, command: Command) -> None:
        self._locks[command["lock"]] = self.make(command)
        answer(command, "ready")

    def _granted(self, command: Command, lock: Any, granted: int) -> None:
        lease = lock.lease
        self._leases[command["lease"]] = lease
        answer(command, "acquired", t=granted, **facts(lease))
        if hasattr(lease, "on_lost"):
            name = command["lease"]
            lease.on_lost(lambda reason: emit("lost", lease=name, reason=str(reason)))

    def do_acquire(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        before = lock.lease
        try:
            with self.interrupts.armed():
                held = lock.acquire(timeout=timeout_of(command)) if "timeout" in command else lock.acquire()
        except KeyboardInterrupt:
            # It may hit between the return of the acquire and our disarming: then the lock is ours.
            held = lock.lease is not None and lock.lease is not before
            if not held:
                raise
        granted = now()
        if held:
            self._granted(command, lock, granted)
        else:
            answer(command, "timeout")

    def do_try(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        held = lock.acquire(blocking=False)
        granted = now()
        if held:
            self._granted(command, lock, granted)
        else:
            answer(command, "busy")

    def do_release(self, command: Command) -> None:
        lease = self._leases[command["lease"]]
        started = now()
        lease.release(wait=command.get("wait", True))
        answer(command, "released", t0=started)

    def do_unlock(self, command: Command) -> None:
        started = now()
        self._locks[command["lock"]].release()
        answer(command, "released", t0=started)

    def do_owned(self, command: Command) -> None:
        answer(command, "value", value=self._locks[command["lock"]].owned())

    def do_check(self, command: Command) -> None:
        self._leases[command["lease"]].check()
        answer(command, "value", value="held")

    def do_state(self, command: Command) -> None:
        state = self._leases[command["lease"]].state
        answer(command, "value", value=getattr(state, "value", state))

    def do_cycles(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        wait = command.get("wait", True)
        started = now()
        for _ in range(command["count"]):
            lock.acquire()
            lock.release(wait=wait)
        answer(command, "done", elapsed_ns=now() - started, count=command["count"])

    def do_stats(self, command: Command) -> None:
        answer(command, "value", value=statistics(self._clients[command["client"]].stats()))

    def do_close(self, command: Command) -> None:
        self._clients[command["client"]].close()
        answer(command, "closed")

    def close_all(self) -> None:
        for client in self._clients.values():
            client.close()

    @contextlib.contextmanager
    def scope(self, lock: Any) -> Iterator[Callable[[], dict[str, str]]]:
        with lock.hold() as lease:
            yield lambda: facts(lease)


if __name__ == "__main__":
    PythonWorker().run()
