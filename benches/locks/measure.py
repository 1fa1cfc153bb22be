"""One workload with all its peers: they start together, and work in turns."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from harness.proxy import Proxy
from locks.peers import Peer
from locks.worker import Worker, WorkerFailed
from locks.workloads import RTT, Workload

READY = 60.0
"""Seconds that a worker has to connect and to hold, and then to queue up."""


ENOUGH = 100
"""How many pairs are enough to tell what one costs, and after how many turns there will not be more."""

MOST_TURNS = 8


@dataclass(frozen=True)
class Pace:
    """How long and how often is measured; in seconds."""

    warm_up: float
    turn: float
    rounds: int
    # Whether requests are counted, where there is no delay.
    counts: bool = True


FULL = Pace(1.0, 0.8, 3)
QUICK = Pace(0.25, 0.3, 3, counts=False)


@dataclass
class Traffic:
    """What went through a proxy meanwhile."""

    count: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0


@dataclass
class Result:
    """One peer at one workload."""

    workload: str
    peer: str
    version: str = ""
    rates: list[float] = field(default_factory=list)
    traffic: Traffic | None = None
    problem: str = ""


class Measurement:
    """Runs workloads on servers that stay the same."""

    def __init__(self, hosts: Mapping[str, str], pace: Pace, step: Callable[[str], None]) -> None:
        self._hosts = hosts
        self._pace = pace
        # Called after each turn, with what is next.
        self._step = step
        self._paths = 0

    def run(self, workload: Workload, peers: list[Peer]) -> list[Result]:
        """Rates of all peers in turns; then, for each that speaks ZooKeeper's protocol, what it sends."""
        with contextlib.ExitStack() as stack:
            hosts = dict(self._hosts)
            proxies: dict[str, Proxy] = {}
            for server, address in self._hosts.items() if workload.delayed else ():
                proxy = Proxy(address, delay=RTT / 2, opaque=server != "zookeeper")
                proxies[server] = stack.enter_context(proxy)
                hosts[server] = proxy.hosts
            # Those that poll have their turns when the others have gone, each alone.
            together = [peer for peer in peers if not peer.polls]
            groups = [together, *([peer] for peer in peers if peer.polls)]
            turns = (
                self._turns(workload, group, hosts, proxies.get("zookeeper"), self._pace) for group in groups
            )
            by_peer = {result.peer: result for results in turns for result in results}
            results = [by_peer[peer.name] for peer in peers]
        if self._pace.counts and workload.counted and not workload.delayed:
            once = Pace(self._pace.warm_up / 2, self._pace.turn / 2, 1)
            for peer, result in zip(peers, results, strict=True):
                # One after the other, for a proxy has room for a thousand connections.
                if peer.server == "zookeeper" and not result.problem:
                    with Proxy(self._hosts["zookeeper"]) as proxy:
                        (told,) = self._turns(workload, [peer], {"zookeeper": proxy.hosts}, proxy, once)
                    result.traffic = told.traffic
        return results

    def _turns(
        self, workload: Workload, peers: list[Peer], hosts: Mapping[str, str], proxy: Proxy | None, pace: Pace
    ) -> list[Result]:
        results = {peer.name: Result(workload.name, peer.name) for peer in peers}
        workers: dict[str, Worker] = {}
        paths: dict[str, str] = {}
        try:
            for peer in peers:
                self._paths += 1
                paths[peer.name] = f"/bench-{workload.name}-{self._paths}"
                workers[peer.name] = Worker(peer, workload, hosts[peer.server], paths[peer.name])
            for peer in peers:
                with self._noted(workers, results[peer.name]):
                    results[peer.name].version = workers[peer.name].ready(READY)
                    if workload.queues and peer.queues:
                        self._await_queue(paths[peer.name], workload.total)
            for peer in peers:
                self._step(peer.shown)
                with self._noted(workers, results[peer.name]):
                    if peer.name in workers:
                        workers[peer.name].count(pace.warm_up * peer.warm)
            for number in range(pace.rounds):
                # Nobody is always the first, nor always behind the same one.
                for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                    self._step(peer.shown)
                    with self._noted(workers, results[peer.name]):
                        if peer.name in workers:
                            self._turn(workers[peer.name], results[peer.name], proxy, pace.turn)
        finally:
            for worker in workers.values():
                worker.stop()
        return list(results.values())

    @staticmethod
    @contextlib.contextmanager
    def _noted(workers: dict[str, Worker], result: Result) -> Iterator[None]:
        """One that fails takes no further part."""
        try:
            yield
        except WorkerFailed as problem:
            result.problem = str(problem)
            workers.pop(result.peer).stop(0.5)

    @staticmethod
    def _turn(worker: Worker, result: Result, proxy: Proxy | None, seconds: float) -> None:
        if proxy is None:
            result.rates.append(worker.count(seconds).rate)
            return
        traffic = Traffic()
        # A few pairs would be counted with what others have just begun.
        for _ in range(MOST_TURNS):
            proxy.reset()
            counted = worker.count(seconds)
            counts = proxy.snapshot()
            result.rates.append(counted.rate)
            traffic.count += counted.count
            traffic.requests.update(counts.requests)
            traffic.sent += counts.sent
            traffic.received += counts.received
            if traffic.count >= ENOUGH or worker.peer.server != "zookeeper":
                break
        if worker.peer.server == "zookeeper":
            result.traffic = traffic

    def _await_queue(self, path: str, length: int) -> None:
        """Return when so many are in the queue: the holder is at the gate."""
        client = KazooClient(self._hosts["zookeeper"])
        client.start()
        try:
            deadline = time.monotonic() + READY
            while True:
                with contextlib.suppress(NoNodeError):
                    if client.get(path)[1].numChildren >= length:
                        return
                if time.monotonic() > deadline:
                    raise WorkerFailed(f"not all {length} were in the queue after {READY:.0f} s")
                time.sleep(0.02)
        finally:
            client.stop()
            client.close()
