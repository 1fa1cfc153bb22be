"""Measures one workload: starts all its peers together, and then lets them run in turn."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from harness.proxy import Proxy
from locks.peers import BARE, Peer
from locks.processor import Used, used
from locks.servers import Serving
from locks.worker import Counted, Worker, WorkerFailed
from locks.workloads import DELAY, Workload

READY = 60.0
"""Time limit in seconds for a worker to connect and acquire its locks, and again for all its contenders to
join the queue.
"""


ENOUGH = 100
"""Requests are counted until this many pairs of acquire and release are complete, or `MOST_TURNS` turns have
been run.
"""

MOST_TURNS = 8


@dataclass(frozen=True)
class Pace:
    """Durations in seconds, and numbers of turns."""

    warm_up: float
    turn: float
    rounds: int
    # True if requests are counted for workloads without a delay.
    counts: bool = True
    # True if some workloads have longer turns.
    stretches: bool = True


# Five short turns instead of three long ones, so that two disturbed turns do not change the median.
FULL = Pace(0.6, 0.4, 5)
QUICK = Pace(0.15, 0.25, 3, counts=False, stretches=False)
COUNTING = Pace(0.2, 0.4, 1, stretches=False)


def turn_length(workload: Workload, pace: Pace, number: int, pair: float) -> float:
    """Return the length of a turn in seconds. `pair` is the duration of one pair of acquire and release.

    With a network delay, a turn has time for only a few dozen pairs, and its last pair is usually incomplete
    and not counted. Therefore each turn is a fraction of a pair longer than the previous turn, so that the
    uncounted parts add up to less than one pair.
    """
    turn = pace.turn * (workload.stretch if pace.stretches else 1)
    return turn + (pair * number / pace.rounds if workload.delayed else 0.0)


def grouped(workload: Workload, peers: list[Peer]) -> list[list[Peer]]:
    """Group the peers that take turns with each other. Peers whose waiters poll run alone, after the other
    peers have stopped.
    """
    groups = [[peer for peer in peers if not peer.polls], *([peer] for peer in peers if peer.polls)]
    return [[*group, BARE] if workload.delayed else group for group in groups if group]


def is_counted(workload: Workload, peer: Peer, pace: Pace) -> bool:
    """Return whether a peer has separate turns in which its requests are counted."""
    return pace.counts and workload.counted and not workload.delayed and peer.server == "zookeeper"


def planned(workload: Workload, peers: list[Peer], pace: Pace) -> float:
    """Return the planned duration of all turns in seconds, without the time to start and stop the workers."""
    members = [peer for group in grouped(workload, peers) for peer in group]
    turns = sum(
        pace.warm_up * peer.warm + pace.rounds * turn_length(workload, pace, 0, 0.0) for peer in members
    )
    counting = COUNTING.warm_up + COUNTING.rounds * COUNTING.turn
    return turns + counting * sum(is_counted(workload, peer, pace) for peer in peers)


@dataclass
class Traffic:
    """The traffic through a proxy during a turn."""

    count: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0


@dataclass
class Result:
    """The result of one peer at one workload."""

    workload: str
    peer: str
    version: str = ""
    turns: list[Counted] = field(default_factory=list)
    traffic: Traffic | None = None
    problem: str = ""
    # Processor time. None if other processes, whose time is not measured, do part of the work.
    used: Used | None = None
    # Turns of plain reads with the same network delay, which measure the time of a round trip.
    bare: list[Counted] = field(default_factory=list)


class Place(NamedTuple):
    """The address to which a peer connects, and the proxy at that address if requests are counted."""

    hosts: str
    proxy: Proxy | None = None


class Measurement:
    """Runs workloads. All of them use the same servers."""

    def __init__(self, servers: Mapping[str, Serving], pace: Pace, step: Callable[[str], None]) -> None:
        self._servers = servers
        self._pace = pace
        # Called after each turn with the next step.
        self._step = step
        self._paths = 0

    def run(self, workload: Workload, peers: list[Peer]) -> list[Result]:
        """Measure the rates of all peers in turns. Then count the requests of each peer that speaks
        ZooKeeper's protocol.
        """
        with contextlib.ExitStack() as stack:
            by_peer: dict[str, Result] = {}
            for group in grouped(workload, peers):
                results = self._turns(workload, group, self._places(workload, group, stack), self._pace)
                told = {result.peer: result for result in results}
                bare = told.pop(BARE.name, Result(workload.name, BARE.name))
                for result in told.values():
                    result.bare = bare.turns
                by_peer |= told
            results = [by_peer[peer.name] for peer in peers]
        for peer, result in zip(peers, results, strict=True):
            # Run one peer at a time, because a proxy has room for only a thousand connections.
            if is_counted(workload, peer, self._pace) and not result.problem:
                with Proxy(self._servers["zookeeper"].hosts) as proxy:
                    places = {peer.name: Place(proxy.hosts, proxy)}
                    (counted,) = self._turns(workload, [peer], places, COUNTING)
                result.traffic = counted.traffic
        return results

    def _places(self, workload: Workload, peers: list[Peer], stack: contextlib.ExitStack) -> dict[str, Place]:
        """Return the address for each peer. With a delay, each peer has its own proxy, so that the traffic of
        other peers does not affect its results.
        """
        places = {}
        for peer in peers:
            hosts = self._servers[peer.server].hosts
            if workload.delayed:
                opaque = peer.server != "zookeeper"
                proxy = stack.enter_context(Proxy(hosts, delay=DELAY / 2, opaque=opaque))
                places[peer.name] = Place(proxy.hosts, None if opaque else proxy)
            else:
                places[peer.name] = Place(hosts)
        return places

    def _turns(
        self, workload: Workload, peers: list[Peer], places: Mapping[str, Place], pace: Pace
    ) -> list[Result]:
        results = {peer.name: Result(workload.name, peer.name) for peer in peers}
        workers: dict[str, Worker] = {}
        paths: dict[str, str] = {}
        # Duration of one pair in the warm-up, in seconds.
        single: dict[str, float] = {}
        try:
            for peer in peers:
                self._paths += 1
                paths[peer.name] = f"/bench-{workload.name}-{self._paths}"
                workers[peer.name] = Worker(peer, workload, places[peer.name].hosts, paths[peer.name])
            for peer in peers:
                with self._noted(workers, results[peer.name]):
                    results[peer.name].version = workers[peer.name].ready(READY)
                    if workload.queues and peer.queues:
                        zookeeper = self._servers["zookeeper"].hosts
                        await_queue(zookeeper, paths[peer.name], workload.total)
            for peer in peers:
                self._step(peer.shown)
                with self._noted(workers, results[peer.name]):
                    if peer.name in workers:
                        # Counting requests does not need a warmed-up compiler.
                        times = 1.0 if pace is COUNTING else peer.warm
                        warmed = workers[peer.name].count(pace.warm_up * times)
                        single[peer.name] = warmed.seconds / max(warmed.count, 1)
            for number in range(pace.rounds):
                # Rotate the order, so that no peer is always first or always follows the same peer.
                for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                    self._step(peer.shown)
                    with self._noted(workers, results[peer.name]):
                        if peer.name not in workers:
                            continue
                        seconds = turn_length(workload, pace, number, single[peer.name])
                        proxy = places[peer.name].proxy
                        most = MOST_TURNS if pace is COUNTING else 1
                        if proxy is None:
                            self._direct(workers[peer.name], results[peer.name], seconds)
                        else:
                            through(proxy, workers[peer.name], results[peer.name], seconds, most)
        finally:
            for worker in workers.values():
                worker.stop()
        return list(results.values())

    @staticmethod
    @contextlib.contextmanager
    def _noted(workers: dict[str, Worker], result: Result) -> Iterator[None]:
        """Run the block. If it fails, record the problem and drop the peer's worker."""
        try:
            yield
        except WorkerFailed as problem:
            result.problem = str(problem)
            workers.pop(result.peer).stop(0.5)

    def _direct(self, worker: Worker, result: Result, seconds: float) -> None:
        """Run a turn and measure its processor time."""
        pid = self._servers[worker.peer.server].pid
        if pid is None:
            result.turns.append(worker.count(seconds))
            return
        before = used(worker.pid), used(pid)
        counted = worker.count(seconds)
        after = used(worker.pid), used(pid)
        result.turns.append(counted)
        total = result.used = result.used or Used()
        total.count += counted.count
        total.worker += after[0] - before[0]
        total.server += after[1] - before[1]


def through(proxy: Proxy, worker: Worker, result: Result, seconds: float, most: int) -> None:
    """Run turns through a proxy that counts requests, until there are enough pairs."""
    traffic = result.traffic = result.traffic or Traffic()
    for _ in range(most):
        proxy.reset()
        counted = worker.count(seconds)
        counts = proxy.snapshot()
        result.turns.append(counted)
        traffic.count += counted.count
        traffic.requests.update(counts.requests)
        traffic.sent += counts.sent
        traffic.received += counts.received
        if traffic.count >= ENOUGH:
            break


def await_queue(hosts: str, path: str, length: int) -> None:
    """Wait until this many contenders are in the queue, including the holder."""
    client = KazooClient(hosts)
    client.start()
    try:
        deadline = time.monotonic() + READY
        while True:
            with contextlib.suppress(NoNodeError):
                if client.get(path)[1].numChildren >= length:
                    return
            if time.monotonic() > deadline:
                raise WorkerFailed(f"fewer than {length} contenders were in the queue after {READY:.0f} s")
            time.sleep(0.02)
    finally:
        client.stop()
        client.close()
