"""Measures zklock and every peer: `make bench`, or `make bench QUICK=1`."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Shown

from locks import results
from locks.measure import FULL, QUICK, Measurement, Pace, Result, grouped, is_counted
from locks.packages import Unavailable
from locks.peers import PEERS, Peer
from locks.servers import SERVERS, Serving
from locks.workloads import WORKLOADS, Workload


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    names = [workload.name for workload in WORKLOADS]
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="three minutes instead of twenty: fewer workloads, shorter turns, no request counts",
    )
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", choices=names, help="run only these")
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=[peer.name for peer in PEERS])
    parser.add_argument("--output", default=None, help="name of the results file; default: full, or quick")
    return parser.parse_args()


def command(given: argparse.Namespace) -> str:
    """Return the command that repeats this run."""
    parts = ["make bench"] + (["QUICK=1"] if given.quick else [])
    chosen = [f"--only {' '.join(given.only)}"] if given.only else []
    chosen += [f"--peers {' '.join(given.peers)}"] if given.peers else []
    return " ".join(parts + ([f"BENCH='{' '.join(chosen)}'"] if chosen else []))


def turns(workload: Workload, peers: list[Peer], pace: Pace) -> int:
    """Return the number of steps of the progress bar."""
    counting = 2 * sum(is_counted(workload, peer, pace) for peer in peers)
    return sum(map(len, grouped(workload, peers))) * (1 + pace.rounds) + counting


def available(peers: list[Peer]) -> tuple[list[Peer], dict[str, str]]:
    """Return the peers whose programs are available, and for each other peer the reason why it is skipped."""
    skipped = {peer.name: what for peer in peers if (what := peer.missing()) is not None}
    return [peer for peer in peers if peer.name not in skipped], skipped


@contextlib.contextmanager
def serving(peers: list[Peer], skipped: dict[str, str]) -> Iterator[dict[str, Serving]]:
    """Run the block with the servers that these peers need. The result maps names to servers. A peer whose
    server cannot be started is recorded in `skipped`.
    """
    with contextlib.ExitStack() as stack:
        servers = {"zookeeper": stack.enter_context(SERVERS["zookeeper"]())}
        for peer in peers:
            if peer.server not in servers:
                try:
                    servers[peer.server] = stack.enter_context(SERVERS[peer.server]())
                except (Unavailable, RuntimeError, OSError) as problem:
                    skipped[peer.name] = str(problem)
        yield servers


def show(told: results.Json, console: Console) -> None:
    """Print the figures on the terminal."""
    table = results.Table(told)
    shown = Shown(title=told["made"])
    for name in ("", "peer", "figure", "low", "high", "to Curator", "to client", "requests", "µs"):
        shown.add_column(name, justify="left" if name in ("", "peer") else "right")
    for workload in WORKLOADS:
        for peer in PEERS:
            if (entry := table.entry(workload.name, peer.name)) is None:
                continue
            figures = [f"{entry[one]:,.4g}" for one in ("figure", "low", "high")]
            ratios = [table.ratio(workload.name, peer.name, to) for to in ("curator", "raw")]
            requests = table.requests(workload.name, peer.name)
            cells = ["" if one is None else f"{one:,.2f}" for one in (*ratios, requests)]
            processor = table.processor(workload.name, peer.name)
            cells.append("" if processor is None else " + ".join(f"{one:.0f}" for one in processor))
            shown.add_row(f"{workload.name}, {workload.unit}", peer.name, *figures, *cells)
        shown.add_section()
    console.print(shown)
    for one in told["results"]:
        if "problem" in one:
            console.print(f"no result: {one['peer']} at {one['workload']}: {one['problem']}", markup=False)
    for peer_name, why in told["skipped"].items():
        console.print(f"not measured: {peer_name}: {why}", markup=False)


def main() -> int:
    """Run all workloads and write their results."""
    given, console = arguments(), Console()
    # Hide log messages about clients that close their connection while the proxy writes to it.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    pace = QUICK if given.quick else FULL
    workloads = [one for one in WORKLOADS if one.name in given.only] if given.only else list(WORKLOADS)
    if given.quick and not given.only:
        workloads = [one for one in workloads if one.quick]
    peers, skipped = available([peer for peer in PEERS if not given.peers or peer.name in given.peers])
    idle_before, began = results.idle(), time.monotonic()
    measured: list[Result] = []

    def told() -> results.Json:
        return results.document(
            measured,
            command=command(given),
            idle_before=idle_before,
            server="Apache ZooKeeper 3.9.5, one server on loopback, forceSync=no",
            skipped=skipped,
            seconds=time.monotonic() - began,
        )

    name = given.output or ("quick" if given.quick else "full")
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with serving(peers, skipped) as servers, Progress(*columns, console=console) as progress:
        peers = [peer for peer in peers if peer.server in servers]
        plan = [(one, [peer for peer in peers if peer.does(one)]) for one in workloads]
        plan = [(one, those) for one, those in plan if those]
        bar = progress.add_task("", total=sum(turns(one, those, pace) for one, those in plan))
        for workload, those in plan:

            def step(shown: str, workload: Workload = workload) -> None:
                progress.update(bar, advance=1, description=f"{workload.name}: {shown}")

            measured += Measurement(servers, pace, step).run(workload, those)
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
