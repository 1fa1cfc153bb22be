"""Measures one case: starts all its peers together, and then lets them run in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hdrh.histogram import HdrHistogram

from cluster.disk import STALL, Disk
from cluster.network import Network
from cluster.servers import Cluster
from cluster.workloads import DELAYS, Case
from harness.proxy import Proxy
from locks.measure import COUNTING, MOST_TURNS, READY, Pace, Traffic, await_queue, through
from locks.measure import Result as Counting
from locks.peers import Peer
from locks.processor import Used, used
from locks.worker import Counted, Worker, WorkerFailed

LONGEST = 60_000_000
"""Longest latency in microseconds that a histogram can contain. The workers use the same limit."""

WARM_UP = 8.0
"""Time in seconds for which a workload warms up the servers before a full run. The compiler of their virtual
machines would otherwise occupy both processors for up to a tenth of a second, in the turns of some peers.
"""

MOST_REPEATED = 3
"""A turn is repeated at most so many times. If the disk stalls in the last one too, that turn counts."""

FULL = Pace(0.6, 1.0, 6)
QUICK = Pace(0.2, 0.6, 2, counts=False)


@dataclass
class Result:
    """The result of one peer in one case."""

    case: Case
    peer: str
    version: str = ""
    turns: list[Counted] = field(default_factory=list)
    used: Used = field(default_factory=Used)
    # Bytes of all turns, from the delaying proxies.
    sent: int = 0
    received: int = 0
    # Turns that were repeated because the disk stalled.
    repeated: int = 0
    # Requests, counted in separate turns.
    traffic: Traffic | None = None
    problem: str = ""

    def histogram(self, name: str) -> HdrHistogram:
        """Return the latencies with this name of all turns together."""
        merged = HdrHistogram(1, LONGEST, 3)
        for turn in self.turns:
            if text := turn.latencies.get(name):
                merged.decode_and_add(text)
        return merged


def is_counted(case: Case, peer: Peer, pace: Pace) -> bool:
    """Return whether a peer has separate turns in which its requests are counted. The delay does not change
    the requests, so they are counted with one delay only.
    """
    return pace.counts and peer.server == "zookeeper" and case.delay_ms == DELAYS[0]


def turns(case: Case, peers: list[Peer], pace: Pace) -> int:
    """Return the number of steps of the progress bar."""
    return len(peers) * (1 + pace.rounds * case.more) + sum(is_counted(case, peer, pace) for peer in peers)


def planned(case: Case, peers: list[Peer], pace: Pace) -> float:
    """Return the planned duration of all turns in seconds, without the time to start and stop the workers."""
    counting = COUNTING.warm_up + MOST_TURNS / 2 * COUNTING.turn
    each = pace.rounds * case.more * pace.turn * case.longer
    spent = sum(pace.warm_up * peer.warm + each for peer in peers)
    return spent + counting * sum(is_counted(case, peer, pace) for peer in peers)


class Measurement:
    """Runs cases. All of them use the same servers."""

    def __init__(
        self, servers: Mapping[str, Cluster], disk: Disk, pace: Pace, step: Callable[[str], None]
    ) -> None:
        self._servers = servers
        self._disk = disk
        self._pace = pace
        # Called before each turn with the peer's name.
        self._step = step
        self._paths = 0

    def run(self, case: Case, peers: list[Peer]) -> list[Result]:
        """Measure all peers in turns. Then count the requests of each peer that speaks
        ZooKeeper's protocol.
        """
        results = {peer.name: Result(case, peer.name) for peer in peers}
        workers: dict[str, Worker] = {}
        with contextlib.ExitStack() as stack:
            # Each peer has its own proxies, so that the traffic of the others does not affect its results.
            networks = {
                peer.name: stack.enter_context(Network(self._servers[peer.server].hosts, case.delay))
                for peer in peers
            }
            try:
                paths = {}
                for peer in peers:
                    paths[peer.name] = self._path(case)
                    hosts = ",".join(networks[peer.name].hosts)
                    workers[peer.name] = Worker(peer, case.workload, hosts, paths[peer.name])
                for peer in peers:
                    with noted(workers, results[peer.name]):
                        results[peer.name].version = workers[peer.name].ready(READY)
                        self._await(case, peer, paths[peer.name])
                for peer in peers:
                    self._step(peer.shown)
                    with noted(workers, results[peer.name]):
                        if peer.name in workers:
                            workers[peer.name].count(self._pace.warm_up * peer.warm)
                for number in range(self._pace.rounds * case.more):
                    # Rotate the order, so that no peer is always first or always follows the same peer.
                    for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                        self._step(peer.shown)
                        with noted(workers, results[peer.name]):
                            if peer.name in workers:
                                self.turn(workers[peer.name], networks[peer.name], results[peer.name])
            finally:
                for worker in workers.values():
                    worker.stop()
        for peer in peers:
            if is_counted(case, peer, self._pace) and not results[peer.name].problem:
                self._step(f"{peer.shown}, requests")
                results[peer.name].traffic = self._counted(case, peer)
        return list(results.values())

    def _path(self, case: Case) -> str:
        self._paths += 1
        return f"/bench-{case.name}-{self._paths}"

    def _await(self, case: Case, peer: Peer, path: str) -> None:
        if case.workload.queues and peer.queues:
            await_queue(self._servers["zookeeper"].hosts[0], path, case.workload.total)

    def turn(self, worker: Worker, network: Network, result: Result) -> None:
        """Let a worker run for one turn and add what it did to its result."""
        servers = self._servers[worker.peer.server]
        for left in reversed(range(1 + MOST_REPEATED)):
            network.take()
            self._disk.take()
            before = used(worker.pid), servers.used()
            counted = worker.count(self._pace.turn * result.case.longer)
            after = used(worker.pid), servers.used()
            moved = network.take()
            if left == 0 or self._disk.take() < STALL:
                break
            result.repeated += 1
        result.turns.append(counted)
        result.used.count += counted.count
        result.used.worker += after[0] - before[0]
        result.used.server += after[1] - before[1]
        result.sent += moved.sent
        result.received += moved.received

    def _counted(self, case: Case, peer: Peer) -> Traffic | None:
        """Count a peer's requests with the same delay, through a proxy that understands them."""
        counting, path = Counting(case.name, peer.name), self._path(case)
        with Proxy(self._servers["zookeeper"].hosts[0], delay=case.delay / 2) as proxy:
            worker = Worker(peer, case.workload, proxy.hosts, path)
            try:
                worker.ready(READY)
                self._await(case, peer, path)
                worker.count(COUNTING.warm_up)
                through(proxy, worker, counting, COUNTING.turn, MOST_TURNS)
            except WorkerFailed:
                return None
            finally:
                worker.stop()
        return counting.traffic


def warm_up(cluster: Cluster, cases: list[Case], peer: Peer, seconds: float) -> None:
    """Let a peer run the workloads of these cases on the servers, as fast as it can and without a delay."""
    for number, case in enumerate(cases):
        workload = replace(case.workload, period=0)
        worker = Worker(peer, workload, ",".join(cluster.hosts), f"/warm-up-{number}")
        try:
            worker.ready(READY)
            worker.count(seconds)
        finally:
            worker.stop()


@contextlib.contextmanager
def noted(workers: dict[str, Worker], result: Result) -> Iterator[None]:
    """Run the block. If it fails, record the problem and drop the peer's worker."""
    try:
        yield
    except WorkerFailed as problem:
        result.problem = str(problem)
        workers.pop(result.peer).stop(0.5)
