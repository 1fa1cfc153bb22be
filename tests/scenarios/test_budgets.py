"""Tests of the round trips, requests and threads that a lock needs. An import needs none of them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections import Counter
from functools import partial

from harness.embedded import NewServer
from harness.observer import Observer, watched_by
from harness.paths import NODE, NODE_PACKAGE, PYTHON
from harness.permits import counting
from harness.proxy import Proxy
from harness.readwrite import readwriter
from harness.server import Server, Standalone
from harness.stalls import STALL_MONITOR
from harness.steps import Start, eventually, nothing_watched, user
from harness.worker import Line, Worker

# Delay of the proxy in each direction. It is long, so that a busy machine changes the measured times only a
# little.
EACH_WAY = 0.05
ROUND_TRIP = 2 * EACH_WAY
CYCLES = 4
BATCHES = 3
HANDOFFS = 6
REQUESTED = 25
IN_VAIN = 50


def undisturbed(line: Line) -> float:
    """Return the seconds that a worker took, minus the stalls of the machine."""
    ended, took = int(line["t"]), int(line["elapsed_ns"])
    return took / 1e9 - STALL_MONITOR.stalled_seconds(ended - took, ended)


def test_s40_round_trips(surface: str, proxy: Proxy, observer: Observer, path: str, start: Start) -> None:
    # The parent is persistent. If the server removed it between two cycles, more requests would be needed.
    observer.create(path)
    worker = user(start, surface, proxy.hosts, path, session_timeout=30)
    proxy.delay = EACH_WAY
    worker.call("cycles", lock="m", owner="a", count=2)
    proxy.reset()
    lines = [worker.call("cycles", lock="m", owner="a", count=CYCLES) for _ in range(BATCHES)]
    flights = len(proxy.snapshot().flights) / (CYCLES * BATCHES)
    # Counting needs no clock, so this limit is exact.
    assert flights <= 2.3
    # The elapsed time shows that the worker waits for nothing except these round trips. The fastest batch
    # counts, because other programs share the machine.
    elapsed = min(map(undisturbed, lines)) / CYCLES / ROUND_TRIP
    assert elapsed <= 2.3


def test_s41_handoff(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    """After a release, the next waiter is granted the lock within one round trip. Three workers take turns.

    A waiter that joins as the third in the queue watches both nodes ahead of it. With a watch on only the
    nearer node, it would need another listing before its grant.
    """
    observer.create(path)
    trio = [user(start, surface, proxy.hosts, path, session_timeout=30) for _ in range(3)]
    proxy.delay = EACH_WAY
    trips = []
    times = []
    trio[0].hold("l0")
    waiting = trio[1].acquire("l1")
    observer.wait_queue(path, 2)
    for turn in range(1, HANDOFFS + 1):
        holder, waiter, third = (trio[(turn + place) % 3] for place in (-1, 0, 1))
        later = third.acquire(f"l{turn + 1}")
        ahead = observer.wait_queue(path, 3)
        session = waiter.sessions["c"]
        for place, waits in enumerate((waiter, third)):
            eventually(
                partial(
                    lambda node, who: node in watched_by(server, who, path),
                    f"{path}/{ahead[place]}",
                    waits.sessions["c"],
                ),
                "each watches the node before its own",
            )
        eventually(lambda: all(flight.closed for flight in proxy.snapshot().flights), "nothing is in flight")
        proxy.reset()
        released = holder.send("release", lease=f"l{turn - 1}", owner="a")
        granted = waiting.expect("acquired")["t"] / 1e9
        times.append((granted - released.expect("released")["t0"] / 1e9) / ROUND_TRIP)
        counts = proxy.snapshot()
        connection = proxy.session_connections[session]
        event = min(event.at for event in counts.events if event.connection == connection)
        # The holder's release and the event that it causes take one round trip. Each request whose reply the
        # waiter needs before the grant takes another one. Other requests in flight do not count.
        awaited = [
            flight
            for flight in counts.flights
            if flight.connection == connection
            and flight.opened >= event
            and flight.closed is not None
            and flight.closed <= granted
        ]
        trips.append(1 + len(awaited))
        waiting = later
    trio[HANDOFFS % 3].release(f"l{HANDOFFS}")
    waiting.expect("acquired")
    assert statistics.mean(trips) <= 1.3
    assert statistics.median(times) <= 1.3


def test_s42_requests(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, proxy.hosts, path, session_timeout=30)
    proxy.reset()
    worker.call("cycles", lock="m", owner="a", count=REQUESTED)
    requests = proxy.snapshot().requests
    assert requests.total() <= 3 * REQUESTED, requests
    nothing_watched(server, worker, path)


def test_s81_a_read_locks_cost(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    # Another reader does not change the cost.
    other = readwriter(start, surface, server.hosts, path)
    other.hold(lock="r")
    worker = readwriter(start, surface, proxy.hosts, path, session_timeout=30)
    proxy.delay = EACH_WAY
    worker.call("cycles", lock="r", owner="a", count=2)
    proxy.reset()
    worker.call("cycles", lock="r", owner="a", count=CYCLES)
    counts = proxy.snapshot()
    # The heartbeat belongs to the session, not to the lock.
    flights = [flight for flight in counts.flights if set(flight.requests) - {"multi", "ping"}]
    assert len(flights) <= 2 * CYCLES, flights
    asked = counts.requests.total() - counts.requests["multi"] - counts.requests["ping"]
    assert asked <= 3 * CYCLES, counts.requests
    nothing_watched(server, worker, path)
    other.release()


def test_s85_a_permits_cost(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    # Another contender's permit does not change the cost.
    other = counting(start, surface, server.hosts, path, 3)
    other.hold()
    worker = counting(start, surface, proxy.hosts, path, 3, session_timeout=30)
    worker.call("cycles", lock="m", owner="a", count=2)
    proxy.reset()
    worker.call("cycles", lock="m", owner="a", count=CYCLES)
    requests = proxy.snapshot().requests
    # An acquire sends five requests and its release one. Heartbeats do not count.
    asked = requests.total() - requests["multi"] - requests["ping"]
    assert asked <= (5 + 1) * CYCLES, requests
    nothing_watched(server, worker, path)
    other.release()


def thread_names(worker: Worker) -> list[str]:
    """Return the kernel's names of the worker's threads."""
    names: list[str] = worker.call("threads")["value"]
    return names


def test_s43_threads(surface: str, server: Standalone, path: str, start: Start) -> None:
    worker = start(surface)
    # Make the worker start its own threads before the count: one for the owner `main`, and one for commands
    # without an owner.
    worker.send("close", client="none").error()
    before = Counter(thread_names(worker))
    worker.connect(server.hosts)
    worker.lock(path)
    worker.hold(owner="main")
    worker.release(owner="main")
    worker.hold(owner="main")
    added = Counter(thread_names(worker)) - before
    allowed = {"zklock", "zklock-deliver"}
    if surface == "python":
        # The worker registers a callback, which runs in a Python thread named `python`.
        allowed.add("python")
    assert set(added) <= allowed, added
    assert max(added.values()) == 1, added
    worker.release(owner="main")


def test_s44_import(surface: str) -> None:
    before, after = json.loads(imports(surface))
    assert after == before


PYTHON_PROBE = """
import json, os
def state():
    tasks = len(os.listdir('/proc/self/task'))
    files = (os.path.join('/proc/self/fd', name) for name in os.listdir('/proc/self/fd'))
    links = (os.readlink(name) for name in files if os.path.islink(name))
    return [tasks, sum(link.startswith('socket:') for link in links)]
before = state()
import {module}
print(json.dumps([before, state()]))
"""

NODE_PROBE = """
const fs = require('node:fs')
const { createRequire } = require('node:module')
function state() {
  const links = fs.readdirSync('/proc/self/fd').map((name) => {
    try { return fs.readlinkSync(`/proc/self/fd/${name}`) } catch { return '' }
  })
  return [fs.readdirSync('/proc/self/task').length, links.filter((link) => link.startsWith('socket:')).length]
}
const load = createRequire(process.env.ZKLOCK_NODE_PACKAGE + '/package.json')
const before = state()
load('zklock')
console.log(JSON.stringify([before, state()]))
"""


def imports(surface: str) -> str:
    """Return the threads and sockets of a fresh process before and after the import."""
    if surface == "node":
        command = [NODE, "-e", NODE_PROBE]
    else:
        module = {"python": "zklock", "aio": "zklock.aio"}[surface]
        command = [PYTHON, "-c", PYTHON_PROBE.format(module=module)]
    environment = {**os.environ, "ZKLOCK_NODE_PACKAGE": str(NODE_PACKAGE)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=20)
    return run.stdout


def watches(server: Server) -> int:
    """Return the number of watches that the server holds for all clients."""
    return int(server.four_letter("wchs").rsplit("Total watches:", 1)[1])


def test_s168_the_servers_watches(surface: str, new_server: NewServer, path: str, start: Start) -> None:
    # A separate server, on which no other client sets watches.
    with new_server() as server:
        holder, asker = (user(start, surface, server.hosts, path) for _ in range(2))
        holder.hold()
        # A holder watches its own node after a while.
        eventually(lambda: watches(server) > 0, "the holder watches")
        before = watches(server)
        for _ in range(IN_VAIN):
            assert asker.try_acquire("t")["event"] == "busy"
        waiting = [asker.acquire(f"w{number}", owner=f"o{number}", timeout=1) for number in range(IN_VAIN)]
        eventually(lambda: watches(server) > before, "the waiters watch")
        for pending in waiting:
            pending.expect("timeout")
        eventually(lambda: watches(server) == before, f"no more watches than before, which were {before}")
