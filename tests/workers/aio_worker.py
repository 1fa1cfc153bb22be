"""Worker on the asyncio API. Owners are tasks. `main` is the main task, which Ctrl-C cancels."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import threading
from collections.abc import Coroutine
from typing import Any

from zklock import ClientClosed, LockTimeout, aio

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
from workers.line import Command, answer, emit, exchange, fail, now, ready, thread_names, timeout_of

MAIN = "main"
CONTROL = "control"

Being = tuple[Coroutine[Any, Any, dict[str, Any]], "asyncio.Future[dict[str, Any]]"]
"""The coroutine of an inner scope, and the future of its result."""

Inner = asyncio.Queue[Being | None]


class AioWorker:
    """Passes each command to the task of its owner."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._locks: dict[str, Any] = {}
        self._leases: dict[str, Any] = {}
        # For each scope, its result and a queue of commands that enter further scopes inside it. `None` in
        # the queue ends the scope.
        self._scopes: dict[str, tuple[asyncio.Future[dict[str, Any]], Inner]] = {}
        self._queues: dict[str, asyncio.Queue[Command | None]] = {MAIN: asyncio.Queue()}
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._background: set[asyncio.Task[None]] = set()
        # The task of each pending acquire. A `cancel` command can cancel only these.
        self._pending: dict[Any, asyncio.Task[Any]] = {}

    async def run(self) -> None:
        """Work until `exit` or the end of the input."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[MAIN] = task
        loop = asyncio.get_running_loop()
        # Read the input in a thread, because an asyncio pipe would also put standard output into non-blocking
        # mode.
        threading.Thread(target=self._read, args=(loop,), name="reader", daemon=True).start()
        ready("aio")
        await self._serve(MAIN)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(self._dispatch, json.loads(line))
        loop.call_soon_threadsafe(self._dispatch, {"cmd": "exit"})

    def _start(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _dispatch(self, command: Command) -> None:
        name = command["cmd"]
        if name == "exit":
            self._start(self._end(command))
        elif name == "threads":
            answer(command, "value", value=thread_names())
        elif name == "cancel":
            self._cancel(command)
        elif name == "contend":
            self._start(self._do(command))
        else:
            owner = command.get("owner", CONTROL)
            if owner not in self._queues:
                self._queues[owner] = asyncio.Queue()
                self._tasks[owner] = asyncio.get_running_loop().create_task(self._serve(owner), name=owner)
            self._queues[owner].put_nowait(command)

    def _cancel(self, command: Command) -> None:
        task = self._pending.pop(command["target"], None)
        if task is not None:
            task.cancel()
        answer(command, "cancelled")

    async def _end(self, command: Command) -> None:
        for client in self._clients.values():
            await client.close()
        if "id" in command:
            answer(command, "bye")
        self._queues[MAIN].put_nowait(None)

    async def _serve(self, owner: str) -> None:
        while (command := await self._queues[owner].get()) is not None:
            await self._do(command)

    async def _do(self, command: Command) -> None:
        method = getattr(self, f"do_{command['cmd']}", None)
        if method is None:
            answer(command, "unsupported")
            return
        try:
            await method(command)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.uncancel() > 0 or command["cmd"] != "acquire":
                raise
            answer(command, "cancelled")
        except Exception as error:
            fail(command, error)

    async def do_connect(self, command: Command) -> None:
        client = aio.Client(command["hosts"], **connect_options(command))
        await client.connect()
        name = command["client"]
        self._clients[name] = client
        client.on_state(lambda state: emit("state", client=name, state=state))
        answer(command, "connected", session=str(client.session_id))

    def _make(self, command: Command) -> Any:
        client = self._clients[command["client"]] if "client" in command else command.get("hosts")
        return make_lock(aio, client, command, self._locks)

    async def do_lock(self, command: Command) -> None:
        self._locks[command["lock"]] = self._make(command)
        answer(command, "ready")

    async def do_client(self, command: Command) -> None:
        client = self._clients[command["client"]] = self._locks[command["lock"]].client
        answer(command, "value", value=str(client.session_id))

    async def do_once(self, command: Command) -> None:
        lock = self._make(command)
        low, high = command["hold_ms"]
        asked, count = now(), 0

        async def body(lease: Any) -> str:
            nonlocal count
            count += 1
            granted, fields = now(), facts(lease)
            await asyncio.sleep(random.uniform(low, high) / 1000)
            names = {"lease": str(command["id"]), "owner": command["owner"]}
            answer(command, "held", t=granted, t_wait=asked, t_end=now(), **names, **fields)
            return "ran"

        async def with_lease() -> str:
            return await body(lock.lease)

        if "period" in command:
            ran = await lock.once_per(command["period"])(with_lease)()
        else:
            ran = await lock.once(command["key"], body)
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

    async def do_acquire(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        task = asyncio.current_task()
        assert task is not None
        self._pending[command["id"]] = task
        options = {"timeout": timeout_of(command)} if "timeout" in command else {}
        try:
            await self._acquire(command, lock, options, "timeout")
        finally:
            self._pending.pop(command["id"], None)

    async def _acquire(self, command: Command, lock: Any, options: dict[str, Any], otherwise: str) -> None:
        if isinstance(lock, aio.Election):
            try:
                leadership = await lock.campaign(
                    options.get("timeout", -1) if "blocking" not in options else 0
                )
            except LockTimeout:
                answer(command, otherwise)
                return
            self._granted(command, leadership, now())
            return
        if isinstance(lock, aio.Semaphore):
            # Use the returned leases. The semaphore's property `lease` might be the lease of another task.
            try:
                leases = await lock.acquire_many(command.get("count", 1), **options)
            except LockTimeout:
                answer(command, otherwise)
                return
            granted = now()
            if "count" in command:
                self._granted_all(command, leases, granted)
            else:
                self._granted(command, leases[0], granted)
            return
        held = await lock.acquire(**options)
        granted = now()
        if not held:
            answer(command, otherwise)
        elif isinstance(lock, aio.MultiLock):
            self._granted_all(command, lock.leases, granted)
        else:
            self._granted(command, lock.lease, granted)

    async def do_try(self, command: Command) -> None:
        await self._acquire(command, self._locks[command["lock"]], {"blocking": False}, "busy")

    async def do_release(self, command: Command) -> None:
        lease = self._leases[command["lease"]]
        started = now()
        await lease.release(**release_options(command))
        answer(command, "released", t0=started)

    async def do_enter(self, command: Command) -> None:
        # The library cancels the task that has entered the scope if the lock is lost. Each outermost scope
        # therefore runs in a separate task. An inner scope runs in the task of its outer scope.
        entered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        inner: Inner = asyncio.Queue()
        being = self._be_in(command, entered, inner)
        task: asyncio.Future[dict[str, Any]]
        if (around := command.get("within")) is None:
            task = asyncio.create_task(being)
        else:
            task = asyncio.get_running_loop().create_future()
            self._scopes[around][1].put_nowait((being, task))
        self._scopes[command["scope"]] = (task, inner)
        await asyncio.wait((entered, task), return_when=asyncio.FIRST_COMPLETED)
        if not entered.done():
            # The acquire failed, and this raises its error.
            await task
        answer(command, "entered", **first_facts(await entered))

    async def _be_in(self, command: Command, entered: asyncio.Future[Any], inner: Inner) -> dict[str, Any]:
        options = {name: command[name] for name in ("timeout", "connect_timeout") if name in command}
        lock = self._locks[command["lock"]]
        scope = lock.lead(**options) if isinstance(lock, aio.Election) else lock.hold(**options)
        async with scope as held:
            entered.set_result(held)
            while (scope_inside := await inner.get()) is not None:
                being, left = scope_inside
                try:
                    left.set_result(await being)
                except Exception as error:
                    left.set_exception(error)
            remaining = longest(held)
            started = now()
        return {"t0": started, "remaining": remaining}

    async def do_leave(self, command: Command) -> None:
        task, inner = self._scopes.pop(command["scope"])
        inner.put_nowait(None)
        answer(command, "left", **await task)

    async def do_unlock(self, command: Command) -> None:
        started = now()
        await self._locks[command["lock"]].release()
        answer(command, "released", t0=started)

    async def do_owned(self, command: Command) -> None:
        answer(command, "value", value=self._locks[command["lock"]].owned())

    async def do_locked(self, command: Command) -> None:
        answer(command, "value", value=await self._locks[command["lock"]].locked())

    async def do_contenders(self, command: Command) -> None:
        contenders = await self._locks[command["lock"]].contenders()
        answer(command, "value", value=[describe(contender) for contender in contenders])

    async def do_shown(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        answer(command, "value", value=[repr(lock), *map(repr, await lock.contenders())])

    async def do_log(self, command: Command) -> None:
        listen_to_log()
        answer(command, "listening")

    async def do_check(self, command: Command) -> None:
        self._leases[command["lease"]].check()
        answer(command, "value", value="held")

    async def do_state(self, command: Command) -> None:
        lease = self._leases[command["lease"]]
        asked = now()
        state = getattr(lease.state, "value", lease.state)
        answer(command, "value", value=state, t0=asked, remaining=lease.remaining)

    async def do_contend(self, command: Command) -> None:
        """Let many owners contend for one path, each with its own lock object, or all with the same one."""
        shared = self._make(command) if command["objects"] == "shared" else None
        low, high = command["hold_ms"]

        async def contend(number: int) -> int:
            lock = shared if shared is not None else self._make(command)
            for turn in range(command["rounds"]):
                asked = now()
                async with scope_of(lock) as lease:
                    granted = now()
                    await asyncio.sleep(random.uniform(low, high) / 1000)
                    ended = now()
                names = {"lease": f"{command['id']}-{number}-{turn}", "owner": f"{command['id']}-{number}"}
                answer(command, "held", t=granted, t_wait=asked, t_end=ended, **names, **facts(lease))
            return int(command["rounds"])

        tasks = [asyncio.create_task(contend(number)) for number in range(command["owners"])]
        answer(command, "done", count=sum(await asyncio.gather(*tasks)))

    async def do_tell(self, command: Command) -> None:
        answer(command, "value", value=await asyncio.to_thread(exchange, command))

    async def do_listen(self, command: Command) -> None:
        name = command["lease"]
        self._leases[name].on_revoke(lambda _: emit("revoked", lease=name))
        answer(command, "listening")

    async def do_transact(self, command: Command) -> None:
        transaction = self._leases[command["lease"]].transaction()
        await add_operations(transaction, command["operations"]).commit()
        answer(command, "done")

    async def do_revoke(self, command: Command) -> None:
        await self._clients[command["client"]].revoke(command["node"])
        answer(command, "done")

    async def do_break(self, command: Command) -> None:
        await self._clients[command["client"]].break_lock(command["node"])
        answer(command, "done")

    async def do_get(self, command: Command) -> None:
        found = await self._clients[command["client"]].get(command["node"])
        answer(command, "value", value=found and {"data": found.data.decode(), "version": found.version})

    async def do_count(self, command: Command) -> None:
        await self._clients[command["client"]].set_shared_count(command["node"], command["count"])
        answer(command, "done")

    async def do_cycles(self, command: Command) -> None:
        lock = self._locks[command["lock"]]
        wait = command.get("wait", True)
        started = now()
        for _ in range(command["count"]):
            await lock.acquire()
            await lock.release(wait=wait)
        answer(command, "done", elapsed_ns=now() - started, count=command["count"])

    async def do_leads(self, command: Command) -> None:
        answer(command, "value", value=self._locks[command["lock"]].is_leader)

    async def do_leader(self, command: Command) -> None:
        answer(command, "value", value=candidate(await self._locks[command["lock"]].leader()))

    async def do_candidates(self, command: Command) -> None:
        found = await self._locks[command["lock"]].candidates()
        answer(command, "value", value=[candidate(each) for each in found])

    async def do_observe(self, command: Command) -> None:
        self._start(self._observe(command["lock"]))
        answer(command, "listening")

    async def _observe(self, name: str) -> None:
        with contextlib.suppress(ClientClosed):
            async for leader in self._locks[name].observe():
                emit("leader", lock=name, leader=candidate(leader))

    async def do_stats(self, command: Command) -> None:
        answer(command, "value", value=statistics(self._clients[command["client"]].stats()))

    async def do_health(self, command: Command) -> None:
        asked = now()
        health = self._clients[command["client"]].health()
        answer(command, "value", value=condition(health), t0=asked)

    async def do_scrape(self, command: Command) -> None:
        clients = {name: self._clients[name] for name in command["clients"]}
        asked = now()
        answer(command, "value", value=scrape(clients, command["exporter"]), t0=asked)

    async def do_close(self, command: Command) -> None:
        await self._clients[command["client"]].close()
        answer(command, "closed")


if __name__ == "__main__":
    asyncio.run(AioWorker().run())
