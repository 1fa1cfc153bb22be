"""Worker on zklock's blocking Python API. Owners are threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import zklock

from workers.grants import (
    add_operations,
    all_facts,
    candidate,
    condition,
    connect_options,
    describe,
    facts,
    first_facts,
    listen_to_log,
    longest,
    make_lock,
    release_options,
    scope_of,
    scrape,
    statistics,
)
from workers.line import Command, answer, emit, exchange, now, timeout_of
from workers.threaded import ThreadedWorker


class PythonWorker(ThreadedWorker):
    """Executes commands on the named clients, locks and leases."""

    surface = "python"

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[str, Any] = {}
        self._locks: dict[str, Any] = {}
        self._leases: dict[str, Any] = {}
        # The context manager of each scope, and its result.
        self._scopes: dict[str, tuple[Any, Any]] = {}
        # Locks without a name, which are held until the process ends.
        self._held: list[Any] = []

    def do_connect(self, command: Command) -> None:
        client = zklock.Client(command["hosts"], **connect_options(command))
        name = command["client"]
        self._clients[name] = client
        client.on_state(lambda state: emit("state", client=name, state=state))
        answer(command, "connected", session=str(client.session_id))

    def make(self, command: Command) -> Any:
        client = self._clients[command["client"]] if "client" in command else command.get("hosts")
        return make_lock(zklock, client, command, self._locks)

    def do_hold(self, command: Command) -> None:
        client = self._clients[command["client"]]
        for number in range(command["first"], command["first"] + command["count"]):
            lock = zklock.Mutex(client, f"{command['path']}/{number}")
            lock.acquire()
            self._held.append(lock)
        answer(command, "done")

    def do_lock(self, command: Command) -> None:
        self._locks[command["lock"]] = self.make(command)
        answer(command, "ready")

    def do_client(self, command: Command) -> None:
        client = self._clients[command["client"]] = self._locks[command["lock"]].client
        answer(command, "value", value=str(client.session_id))

    def do_once(self, command: Command) -> None:
        lock = self.make(command)
        asked, count = now(), 0

        def body(lease: Any) -> str:
            nonlocal count
            count += 1
            granted, fields = now(), facts(lease)
            self.pass_time(command)
            names = {"lease": str(command["id"]), "owner": command["owner"]}
            answer(command, "held", t=granted, t_wait=asked, t_end=now(), **names, **fields)
            return "ran"

        if "period" in command:
            ran = lock.once_per(command["period"])(lambda: body(lock.lease))()
        else:
            ran = lock.once(command["key"], body)
        assert (ran == "ran") == (count == 1)
        answer(command, "done", count=count)

    def _granted_all(self, command: Command, leases: Any, granted: int) -> None:
        name = command["lease"]
        self._leases[name] = leases
        for number, lease in enumerate(leases):
            self._leases[f"{name}/{number}"] = lease
        answer(command, "acquired", t=granted, **all_facts(name, leases))
        for number, lease in enumerate(leases):
            self._tell_loss(f"{name}/{number}", lease)

    def _granted(self, command: Command, lease: Any, granted: int) -> None:
        self._leases[command["lease"]] = lease
        answer(command, "acquired", t=granted, **facts(lease))
        self._tell_loss(command["lease"], lease)

    @staticmethod
    def _tell_loss(name: str, lease: Any) -> None:
        lease.on_lost(lambda lease: emit("lost", lease=name, reason=lease.loss_reason))

    def do_acquire(self, command: Command) -> None:
        options = {"timeout": timeout_of(command)} if "timeout" in command else {}
        self._acquire(command, options, "timeout")

    def do_try(self, command: Command) -> None:
        self._acquire(command, {"blocking": False}, "busy")

    def _acquire(self, command: Command, options: dict[str, Any], otherwise: str) -> None:
        lock = self._locks[command["lock"]]
        if isinstance(lock, zklock.Election):
            try:
                with self.interrupts.armed():
                    leadership = lock.campaign(options.get("timeout", -1) if "blocking" not in options else 0)
            except zklock.LockTimeout:
                answer(command, otherwise)
                return
            self._granted(command, leadership, now())
            return
        if isinstance(lock, zklock.Semaphore):
            # Use the returned leases. The semaphore's property `lease` might be the lease of another thread.
            try:
                with self.interrupts.armed():
                    leases = lock.acquire_many(command.get("count", 1), **options)
            except zklock.LockTimeout:
                answer(command, otherwise)
                return
            granted = now()
            if "count" in command:
                self._granted_all(command, leases, granted)
            else:
                self._granted(command, leases[0], granted)
            return
        newest = "leases" if isinstance(lock, zklock.MultiLock) else "lease"
        before = getattr(lock, newest)
        try:
            with self.interrupts.armed():
                held = lock.acquire(**options)
        except KeyboardInterrupt:
            # If SIGINT arrives just after the acquire has returned, the call raises an exception although the
            # owner holds the lock.
            held = getattr(lock, newest) not in (None, before)
            if not held:
                raise
        granted = now()
        if not held:
            answer(command, otherwise)
        elif newest == "leases":
            self._granted_all(command, lock.leases, granted)
        else:
            self._granted(command, lock.lease, granted)

    def do_release(self, command: Command) -> None:
        lease = self._leases[command["lease"]]
        started = now()
        lease.release(**release_options(command))
        answer(command, "released", t0=started)

    def do_enter(self, command: Command) -> None:
        options = {name: command[name] for name in ("timeout", "connect_timeout") if name in command}
        lock = self._locks[command["lock"]]
        scope = lock.lead(**options) if isinstance(lock, zklock.Election) else lock.hold(**options)
        held = scope.__enter__()
        self._scopes[command["scope"]] = (scope, held)
        answer(command, "entered", **first_facts(held))

    def do_leave(self, command: Command) -> None:
        scope, held = self._scopes.pop(command["scope"])
        remaining = longest(held)
        started = now()
        scope.__exit__(None, None, None)
        answer(command, "left", t0=started, remaining=remaining)

    def do_unlock(self, command: Command) -> None:
        started = now()
        self._locks[command["lock"]].release()
        answer(command, "released", t0=started)

    def do_owned(self, command: Command) -> None:
        answer(command, "value", value=self._locks[command["lock"]].owned())

    def do_locked(self, command: Command) -> None:
        answer(command, "value", value=self._locks[command["lock"]].locked())

    def do_contenders(self, command: Command) -> None:
        contenders = self._locks[command["lock"]].contenders()
        answer(command, "value", value=[describe(contender) for contender in contenders])

    def do_shown(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        answer(command, "value", value=[repr(lock), *map(repr, lock.contenders())])

    def do_log(self, command: Command) -> None:
        listen_to_log()
        answer(command, "listening")

    def do_check(self, command: Command) -> None:
        self._leases[command["lease"]].check()
        answer(command, "value", value="held")

    def do_state(self, command: Command) -> None:
        lease = self._leases[command["lease"]]
        asked = now()
        state = getattr(lease.state, "value", lease.state)
        answer(command, "value", value=state, t0=asked, remaining=lease.remaining)

    def do_tell(self, command: Command) -> None:
        answer(command, "value", value=exchange(command))

    def do_listen(self, command: Command) -> None:
        name = command["lease"]
        self._leases[name].on_revoke(lambda _: emit("revoked", lease=name))
        answer(command, "listening")

    def do_transact(self, command: Command) -> None:
        transaction = self._leases[command["lease"]].transaction()
        add_operations(transaction, command["operations"]).commit()
        answer(command, "done")

    def do_revoke(self, command: Command) -> None:
        self._clients[command["client"]].revoke(command["node"])
        answer(command, "done")

    def do_break(self, command: Command) -> None:
        self._clients[command["client"]].break_lock(command["node"])
        answer(command, "done")

    def do_get(self, command: Command) -> None:
        found = self._clients[command["client"]].get(command["node"])
        answer(command, "value", value=found and {"data": found.data.decode(), "version": found.version})

    def do_count(self, command: Command) -> None:
        self._clients[command["client"]].set_shared_count(command["node"], command["count"])
        answer(command, "done")

    def do_cycles(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        wait = command.get("wait", True)
        started = now()
        for _ in range(command["count"]):
            lock.acquire()
            lock.release(wait=wait)
        answer(command, "done", elapsed_ns=now() - started, count=command["count"])

    def do_leads(self, command: Command) -> None:
        answer(command, "value", value=self._locks[command["lock"]].is_leader)

    def do_leader(self, command: Command) -> None:
        answer(command, "value", value=candidate(self._locks[command["lock"]].leader()))

    def do_candidates(self, command: Command) -> None:
        found = self._locks[command["lock"]].candidates()
        answer(command, "value", value=[candidate(each) for each in found])

    def do_observe(self, command: Command) -> None:
        name = command["lock"]
        self._locks[name].on_leader(lambda leader: emit("leader", lock=name, leader=candidate(leader)))
        answer(command, "listening")

    def do_stats(self, command: Command) -> None:
        answer(command, "value", value=statistics(self._clients[command["client"]].stats()))

    def do_health(self, command: Command) -> None:
        asked = now()
        health = self._clients[command["client"]].health()
        answer(command, "value", value=condition(health), t0=asked)

    def do_scrape(self, command: Command) -> None:
        clients = {name: self._clients[name] for name in command["clients"]}
        asked = now()
        answer(command, "value", value=scrape(clients, command["exporter"]), t0=asked)

    def do_close(self, command: Command) -> None:
        self._clients[command["client"]].close()
        answer(command, "closed")

    def close_all(self) -> None:
        for client in self._clients.values():
            client.close()

    @contextlib.contextmanager
    def scope(self, lock: Any) -> Iterator[Callable[[], dict[str, str]]]:
        with scope_of(lock) as lease:
            yield lambda: facts(lease)


if __name__ == "__main__":
    PythonWorker().run()
