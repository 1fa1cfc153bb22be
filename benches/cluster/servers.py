"""The servers: three of Apache ZooKeeper, three of etcd, one of PostgreSQL. All of them wait for a disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.server import Ensemble
from locks import servers
from locks.processor import used

MEMBERS = 3


class Cluster(NamedTuple):
    """The addresses and processes of the servers of one system. The last one leads, if there is a leader."""

    hosts: tuple[str, ...]
    pids: tuple[int, ...]

    def used(self) -> float:
        """Return the processor time of all servers in seconds, with the processes that they started."""
        return sum(used(pid) for parent in self.pids for pid in (parent, *children(parent)))


def children(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


@contextlib.contextmanager
def zookeeper() -> Iterator[Cluster]:
    """Run the block with three servers of Apache ZooKeeper."""
    # The default size of a step by which the log grows. The tests use a smaller one.
    jvm = (*servers.ZOOKEEPER.jvm, "-Dzookeeper.preAllocSize=65536")
    settings = replace(servers.ZOOKEEPER, fsync=True, jvm=jvm)
    with Ensemble(MEMBERS, settings, parent=servers.on_disk()) as ensemble:
        leader = ensemble.leader()
        ordered = [*ensemble.others(leader), leader]
        yield Cluster(tuple(one.hosts for one in ordered), tuple(one.pid for one in ordered))


@contextlib.contextmanager
def etcd() -> Iterator[Cluster]:
    """Run the block with three members of etcd."""
    with servers.etcds(MEMBERS, disk=True) as members:
        yield Cluster(tuple(one.hosts for one in members), tuple(one.pid or 0 for one in members))


@contextlib.contextmanager
def postgres() -> Iterator[Cluster]:
    """Run the block with one PostgreSQL server."""
    with servers.postgres(disk=True) as server:
        yield Cluster((server.hosts,), (server.pid or 0,))


SERVERS: dict[str, Callable[[], contextlib.AbstractContextManager[Cluster]]] = {
    "zookeeper": zookeeper,
    "etcd": etcd,
    "postgres": postgres,
}
