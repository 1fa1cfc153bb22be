"""Measures the time from a kill to the next grant: `make bench-failover`, optionally with `QUICK=1`."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
import time

from failover import holders, servers
from failover.clusters import TICK, Cluster, Etcds, ZooKeepers
from failover.report import PUBLISHED, table
from failover.samples import EVENTS, HOLDER, TIMEOUT, Json, Sample
from locks.packages import Unavailable
from locks.programs import PROGRAMS, Program
from locks.results import RESULTS, idle, machine

PEERS = ("rust", "python", "node", "curator", "kazoo", "go", "etcd")
FULL, QUICK = 20, 3


def available(names: list[str]) -> tuple[list[Program], dict[str, str]]:
    """Return the programs that can be started, and for each other one the reason why it cannot."""
    programs = [PROGRAMS[name] for name in names]
    skipped = {one.name: what for one in programs if (what := one.missing()) is not None}
    return [one for one in programs if one.name not in skipped], skipped


def main() -> int:
    """Measure, write the results, and print the table."""
    parser = argparse.ArgumentParser(prog="make bench-failover", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} repetitions instead of {FULL}")
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=PEERS, default=PEERS)
    parser.add_argument("--events", nargs="+", metavar="EVENT", choices=EVENTS, default=EVENTS)
    given = parser.parse_args()
    # The observer's client reports each server that is killed.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    repetitions = QUICK if given.quick else FULL
    began, idle_before = time.monotonic(), idle()
    programs, skipped = available(given.peers)
    samples: list[Json] = []

    def step(sample: Sample) -> None:
        samples.append(sample.json())
        print(f"{time.monotonic() - began:.1f} s: {json.dumps(sample.json())}", flush=True)

    with contextlib.ExitStack() as stack:
        zookeepers = stack.enter_context(ZooKeepers())
        clusters: dict[str, Cluster] = {one.name: zookeepers for one in programs}
        if "etcd" in clusters:
            try:
                clusters["etcd"] = stack.enter_context(Etcds())
            except (Unavailable, RuntimeError, OSError) as problem:
                skipped["etcd"] = str(problem)
                programs = [one for one in programs if one.name != "etcd"]
        commit = zookeepers.commit()
        if HOLDER in given.events:
            holders.measure(programs, clusters, repetitions, step)
        if events := tuple(event for event in servers.ORDER if event in given.events):
            servers.measure(programs, clusters, events, repetitions, step)
    told: Json = {
        "day": time.strftime("%Y-%m-%d"),
        "command": "make bench-failover" + (" QUICK=1" if given.quick else ""),
        "machine": machine() | {"idle_before": idle_before},
        "session_timeout": TIMEOUT,
        "tick_ms": TICK,
        "commit_ms": round(commit * 1e3, 2),
        "repetitions": repetitions,
        "seconds": round(time.monotonic() - began),
        "skipped": skipped,
        "samples": samples,
    }
    target = RESULTS / "failover-quick.json" if given.quick else PUBLISHED
    target.write_text(json.dumps(told, indent=1) + "\n")
    print(table(told))
    print(f"written: {target}, after {told['seconds']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
