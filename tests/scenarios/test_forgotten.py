"""If a program drops a lease without a release, the client keeps the lock, or releases it with a warning."""

from __future__ import annotations

import os
import re
import subprocess
from textwrap import dedent

from harness.observer import Observer
from harness.paths import NODE, NODE_PACKAGE, PYTHON
from harness.server import Standalone

_PYTHON = r"""
    import asyncio, gc, logging, os, sys, threading, time
    import zklock
    from zklock import aio
    hosts, path = os.environ["ZKLOCK_HOSTS"], os.environ["LOCK_PATH"]
    logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout, level=logging.WARNING)
    logged = threading.Event()
    class LogHandler(logging.Handler):
        def emit(self, record):
            logged.set()
    # Added after the handler that prints, so that the log line is complete when the event is set.
    logging.getLogger().addHandler(LogHandler())
    client = zklock.Client(hosts)
    def print(*values):
        # In one write, because the log prints on another thread.
        sys.stdout.write(" ".join(map(str, values)) + "\n")
    def taken():
        return len(zklock.Mutex(client, path).contenders()) > 0
    def wait(condition):
        while not condition():
            gc.collect()
            time.sleep(0.01)
    """

_NODE = """
    const { Client, Election, Mutex, on } = require('zklock')
    const path = process.env.LOCK_PATH
    on('log', ({ level, message, fields }) => {
      const rest = Object.entries(fields).map(([name, value]) => `${name}=${value}`).join(' ')
      console.log(`${level.toUpperCase()}ING ${message} ${rest}`)
    }, { level: 'warn' })
    const taken = async (client) => (await new Mutex(client, path).contenders()).length > 0
    const wait = async (condition) => {
      while (!(await condition())) {
        gc()
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    }
    /** Waits until garbage was collected: until a lease that nothing refers to is released. */
    const collect = async (client) => {
      const other = new Mutex(client, `${path}-collected`)
      await (async () => void (await other.acquire()))()
      await wait(async () => !(await other.locked()))
    }
    const run = async (body) => {
      const client = (await Client.connect(process.env.ZKLOCK_HOSTS)).ref()
      await body(client)
      await client.close()
    }
    """


def say(surface: str, server: Standalone, path: str, programs: dict[str, str]) -> list[str]:
    """Return the output of this surface's program."""
    head = _NODE if surface == "node" else _PYTHON
    code = dedent(head) + dedent(programs[surface])
    command = [NODE, "--expose-gc", "-e"] if surface == "node" else [PYTHON, "-c"]
    environment = {**os.environ, "ZKLOCK_HOSTS": server.hosts, "LOCK_PATH": path}
    done = subprocess.run(
        [*command, code],
        env=environment,
        cwd=NODE_PACKAGE,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


KEPT = {
    "python": """
        election = zklock.Election(client, path)
        election.campaign()
        gc.collect()
        print(election.is_leader, [hold.pinned for hold in client.health().holds])
        """,
    "aio": """
        election = aio.Election(hosts, path)
        async def main():
            await election.campaign()
            gc.collect()
            print(election.is_leader, taken())
        asyncio.run(main())
        """,
    "node": """
        run(async (client) => {
          const election = new Election(client, path)
          await (async () => void (await election.campaign()))()
          await collect(client)
          console.log(election.isLeader, client.health().holds.map(({ pinned }) => pinned))
        })
        """,
}


def test_s660_a_referenced_election_keeps_leading(
    surface: str, server: Standalone, observer: Observer, path: str
) -> None:
    said = [line for line in say(surface, server, path, KEPT) if f"{path}-collected" not in line]
    expected = {"python": "True [True]", "aio": "True True", "node": "true [ true ]"}
    assert said == [expected[surface]]
    observer.wait_queue(path, 0)


FORGOTTEN = {
    "python": """
        print(zklock.Mutex(client, path).acquire())
        wait(lambda: not taken())
        """,
    "aio": """
        async def main():
            print(await aio.Mutex(hosts, path).acquire())
        asyncio.run(main())
        wait(lambda: not taken())
        """,
    "node": """
        run(async (client) => {
          await (async () => console.log((await new Mutex(client, path).acquire()).state))()
          await wait(async () => !(await taken(client)))
        })
        """,
}


def test_s661_a_garbage_collected_lease_is_logged(
    surface: str, server: Standalone, observer: Observer, path: str
) -> None:
    # The program prints on one thread and the log on another, so the lines come in either order.
    held, warning = sorted(say(surface, server, path, FORGOTTEN), key=lambda line: line.startswith("WARNING"))
    assert held in ("True", "held")
    assert re.match(r"WARNING lock released: nothing refers to its lease any more path=", warning), warning
    assert re.search(rf"path={path} node=\S+ lasted=\d", warning)
    observer.wait_queue(path, 0)


PINNED = {
    "node": """
        run(async (client) => {
          const { signal, fencingToken } = await new Mutex(client, path).acquire()
          await collect(client)
          const [hold] = client.health().holds
          console.log(hold.pinned, hold.fencingToken === fencingToken, signal.aborted)
          const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve))
          await client.breakLock(hold.node)
          await aborted
          console.log(signal.reason.code)
        })
        """,
}


def test_s662_a_signal_that_was_read_keeps_its_lease(
    surface: str, server: Standalone, observer: Observer, path: str
) -> None:
    said = [line for line in say(surface, server, path, PINNED) if "WARNING" not in line]
    assert said == ["true true false", "LOCK_LOST"]
    observer.wait_queue(path, 0)


ENDED = {
    "python": """
        lock = zklock.Mutex(client, path)
        thread = threading.Thread(target=lambda: print(lock.acquire() and lock.acquire()))
        thread.start()
        thread.join()
        # Another thread notices the lock that the ended thread left.
        logged.wait(30)
        print(taken())
        """,
    "aio": """
        async def acquire(lock):
            print(await lock.acquire() and await lock.acquire())
        async def main():
            lock = aio.Mutex(hosts, path)
            await asyncio.create_task(acquire(lock))
            # The event loop refers to the task until this coroutine waits.
            await asyncio.sleep(0)
            gc.collect()
            print(taken())
        asyncio.run(main())
        """,
}


def test_s663_an_owner_that_ends_while_holding_is_logged_once(
    surface: str, server: Standalone, observer: Observer, path: str
) -> None:
    said = say(surface, server, path, ENDED)
    assert said.count("True") == 2, said
    (warning,) = [line for line in said if line != "True"]
    assert warning.startswith("WARNING lock stays held: its owner ended without releasing it path="), warning
    owner = "task" if surface == "aio" else "thread"
    assert re.search(rf"path={path} node=\S+ lasted=\S+ owner={owner}$", warning)
    observer.wait_queue(path, 0)
