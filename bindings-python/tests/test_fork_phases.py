"""A process can fork at any time. The child sends nothing on the parent's connection.

The parent is stopped while the child runs, so any traffic on the parent's connection would come from the
child.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import scripts
from harness.proxy import Proxy
from harness.steps import eventually

HEAD = """
    import logging, socket, warnings

    # From Python 3.12 on the interpreter itself warns of forks in processes with threads.
    warnings.filterwarnings("ignore", "This process")
    logging.basicConfig(level=logging.DEBUG, filename=os.devnull)
    parent, direct = os.getpid(), os.environ["DIRECT"]
    client = zklock.Client(hosts, session_timeout=60)
    lock = zklock.Mutex(client, path)
    node = path + "/lock-0000000000"
    # Calls that raise `Forked` in a child.
    attempts = [lock.acquire, lock.locked, lock.contenders, lock.owned, lock.release, client.close,
                lambda: client.revoke(node), lambda: client.break_lock(node)]

    def hold_until_queued(waiting):
        # Use a connection that does not pass through the proxy.
        holder = zklock.Mutex(zklock.Client(direct), path)
        holder.acquire()
        waiting()
        while len(holder.contenders()) < 2: time.sleep(0.01)
        return holder

    def inspect(): pass
    def go_on(): pass
"""

PHASES = {
    "idle": "",
    "connecting": """
    silent = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    threading.Thread(target=zklock.Mutex(address, path).acquire, daemon=True).start()
    connection, _ = silent.accept()
    # Never closed: what connects is left waiting.
    silent.detach(), connection.detach()
    """,
    "a thread waits": """
    def take():
        with lock: pass

    thread = threading.Thread(target=take)
    holder = hold_until_queued(thread.start)

    def go_on():
        holder.release()
        thread.join()
    """,
    "a task waits": """
    event_loop, aio_client = asyncio.new_event_loop(), aio.Client(hosts, session_timeout=60)

    async def acquire():
        async with aio.Mutex(aio_client, path): pass

    task = event_loop.create_task(acquire())
    holder = hold_until_queued(threading.Thread(target=event_loop.run_forever, daemon=True).start)

    async def outcome():
        await task
        await aio_client.close()

    def go_on():
        holder.release()
        asyncio.run_coroutine_threadsafe(outcome(), event_loop).result(30)
    """,
    "holding": """
    def never(lease):
        print("called in", os.getpid(), "of", parent)

    mutex, slots = zklock.Mutex(client, path + "-held"), zklock.Semaphore(client, path + "-slots", 5)
    table = zklock.ReadWriteLock(client, path + "-table")
    both = zklock.MultiLock([zklock.Mutex(client, path + "-one"), zklock.Mutex(client, path + "-two")])
    for one in (mutex, table.write_lock, table.read_lock, both):
        one.acquire()
    lease, leases, permits = mutex.lease, both.leases, slots.acquire_many(2)
    notices = [lease.on_lost(never), lease.on_revoke(never)]
    begun = lease.transaction().create(path + "-written")
    attempts += [lease.check, lease.release, begun.commit, lease.transaction().commit, mutex.acquire,
                 table.read_lock.acquire, table.write_lock.acquire, table.write_lock.release,
                 slots.acquire, lambda: slots.acquire_many(2), permits.check, permits.release, slots.locked,
                 leases.check, leases.release, both.acquire, both.release]

    def inspect():
        assert (lease.state, lease.remaining, lease.loss_reason) == ("lost", 0, "inherited through fork")
        assert lease.wait_lost()
        assert mutex.lease is None
        for notice in notices:
            notice.cancel()

    def go_on():
        for one in (lease, leases, permits, table.read_lock.lease, table.write_lock.lease):
            one.check()
        for notice in notices:
            notice.cancel()
    """,
}

TAIL = """
    pid = os.fork()
    if not pid:
        print(os.getpid())
        sys.stdin.readline()
        for attempt in attempts:
            try:
                attempt()
            except zklock.Forked as error:
                assert error.code == "FORKED"
            else:
                raise AssertionError(attempt)
        inspect()

        async def use():
            async with asyncio.timeout(10), aio.Mutex(direct, path + "-child"): pass

        asyncio.run(use())
        with zklock.Client(direct) as own, zklock.Mutex(own, path + "-child") as lease:
            lease.transaction().check(lease.node, 0).commit()
        # All inherited objects are dropped now.
        sys.exit()
    print("child ended with", os.waitpid(pid, 0)[1])
    go_on()
    with zklock.Mutex(client, path + "-parent") as lease:
        lease.check()
    client.close()
    print("parent fine")
"""


def has_ended(pid: int) -> bool:
    """Return whether a process is a zombie: it has ended, but its parent has not waited for it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("phase", PHASES)
def test_fork(hosts: str, path: str, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    monkeypatch.setenv("DIRECT", hosts)
    with Proxy(hosts) as proxy, scripts.start(HEAD + PHASES[phase] + TAIL, proxy.hosts, path) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGSTOP)
        os.waitpid(parent.pid, os.WUNTRACED)
        # Each of these two calls waits for one iteration of the proxy's loop. After two iterations, the proxy
        # has forwarded everything that the parent had sent.
        proxy.snapshot()
        proxy.reset()
        connections = set(proxy.connections)
        parent.stdin.write("go\n")
        parent.stdin.flush()
        eventually(lambda: has_ended(child), "the child ends", 20)
        assert proxy.snapshot().total == 0
        assert proxy.connections == connections
        parent.send_signal(signal.SIGCONT)
        output, errors = parent.communicate(timeout=20)
    assert output.splitlines() == ["child ended with 0", "parent fine"], errors
    assert errors == ""
    assert parent.returncode == 0
