"""Measures the latencies of locks on three servers with a network: `make bench-cluster`."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from subprocess import CalledProcessError

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Shown

from cluster import results
from cluster.disk import Disk, fsync_ms
from cluster.measure import FULL, QUICK, WARM_UP, Measurement, Result, turns, warm_up
from cluster.servers import SERVERS, Cluster
from cluster.workloads import ALL_PEERS, CASES, WARMER, WARMING, members
from locks.__main__ import available
from locks.packages import Unavailable
from locks.peers import Peer
from locks.results import idle
from locks.servers import on_disk

PERCENTILES = ("p50", "p90", "p99")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(prog="make bench-cluster", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="three minutes instead of twenty: fewer workloads, shorter turns"
    )
    parser.add_argument("--only", nargs="+", metavar="CASE", choices=names, help="run only these")
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=[peer.name for peer in ALL_PEERS])
    parser.add_argument("--output", default=None, help="name of the results file; default: cluster")
    return parser.parse_args()


def command(given: argparse.Namespace) -> str:
    """Return the command that repeats this run."""
    chosen = [f"--only {' '.join(given.only)}"] if given.only else []
    chosen += [f"--peers {' '.join(given.peers)}"] if given.peers else []
    parts = ["make bench-cluster", *(["QUICK=1"] if given.quick else [])]
    return " ".join([*parts, *([f"BENCH='{' '.join(chosen)}'"] if chosen else [])])


@contextlib.contextmanager
def serving(peers: list[Peer], skipped: dict[str, str]) -> Iterator[dict[str, Cluster]]:
    """Run the block with the servers that these peers need. A peer whose servers cannot be started is
    recorded in `skipped`.
    """
    with contextlib.ExitStack() as stack:
        servers = {"zookeeper": stack.enter_context(SERVERS["zookeeper"]())}
        for peer in peers:
            if peer.server not in servers:
                try:
                    servers[peer.server] = stack.enter_context(SERVERS[peer.server]())
                except (Unavailable, RuntimeError, OSError, CalledProcessError) as problem:
                    skipped[peer.name] = str(problem)
        yield servers


def show(told: results.Json, console: Console) -> None:
    """Print the percentiles on the terminal: one table for each case."""
    table = results.Table(told)
    for case in table.cases:
        shown = Shown(title=case.shown, title_justify="left", box=SIMPLE_HEAD, padding=0)
        shown.add_column("", no_wrap=True)
        headings = [f"{name}, ms\n{'  '.join(PERCENTILES)}" for name in case.latencies]
        for heading in (*headings, "pairs/s", "requests", "client\nµs", "servers\nµs"):
            shown.add_column(heading, justify="right", no_wrap=True)
        for peer in ALL_PEERS:
            entry = table.entry(case, peer.name)
            if entry is None:
                continue
            found = [table.distribution(case, peer.name, name) for name in case.latencies]
            cells = [" ".join(f"{one[share]:4.3g}" for share in PERCENTILES) if one else "" for one in found]
            requests = entry.get("requests_total")
            cells += [f"{entry['rate']:,.3g}", "" if requests is None else f"{requests:.2f}"]
            shown.add_row(peer.name, *cells, *(f"{one:.0f}" for one in entry["processor_us"].values()))
        console.print(shown)
    for one in told["results"]:
        if "problem" in one:
            where = f"{one['peer']} at {one['workload']}, {one['delay_ms']} ms"
            console.print(f"no result: {where}: {one['problem']}", markup=False)
    for peer_name, why in told["skipped"].items():
        console.print(f"not measured: {peer_name}: {why}", markup=False)


def main() -> int:
    """Run all cases and write their results."""
    given, console = arguments(), Console()
    # Hide log messages about clients that close their connection while the proxy writes to it.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    pace = QUICK if given.quick else FULL
    cases = [case for case in CASES if case.name in given.only] if given.only else list(CASES)
    if given.quick and not given.only:
        cases = [case for case in cases if case.quick]
    peers, skipped = available([peer for peer in ALL_PEERS if not given.peers or peer.name in given.peers])
    where = on_disk()
    idle_before, usual, began = idle(), fsync_ms(where), time.monotonic()
    measured: list[Result] = []

    def told() -> results.Json:
        return results.document(
            measured,
            command=command(given),
            idle_before=idle_before,
            server="Apache ZooKeeper 3.9.5, three servers with fsync",
            fsync_ms=usual,
            skipped=skipped,
            seconds=time.monotonic() - began,
        )

    name = given.output or ("cluster-quick" if given.quick else "cluster")
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        serving(peers, skipped) as servers,
        Disk(where) as disk,
        Progress(*columns, console=console) as progress,
    ):
        peers = [peer for peer in peers if peer.server in servers]
        plan = [(case, those) for case in cases if (those := members(case, tuple(peers)))]
        steps = sum(turns(case, those, pace) for case, those in plan)
        bar = progress.add_task("warm up the servers", total=steps)
        warm_up(servers["zookeeper"], WARMING, WARMER, QUICK.turn if given.quick else WARM_UP)
        for case, those in plan:

            def step(shown: str, case_name: str = case.name) -> None:
                progress.update(bar, advance=1, description=f"{case_name}: {shown}")

            measured += Measurement(servers, disk, pace, step).run(case, those)
            # An interrupted run keeps its results so far.
            results.write(told(), name)
    path = results.write(told(), name)
    show(told(), console)
    console.print(
        f"written: {path}; before the run, the processors were {idle_before:.0%} idle", markup=False
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
