"""Runs the demo: starts the processes, shows and checks their run, and draws it."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import zklock
from rich.console import Console
from zklock import testing

from demo import record
from demo.figures import SECOND, figures, sentence
from demo.picture import picture
from demo.roles import Role, demo_roles, without_curator
from demo.runner import KILLED_IN_ROUND, DemoRun
from demo.screen import Screen, summary
from demo.timeline import Timeline, layout
from harness import history

PATH = "/demo/lock"
SESSION_TIMEOUT = 2
"""Session timeout in seconds that the programs request."""

TYPICAL_HOLD = 0.38
START_TIMEOUT = 20.0
"""Timeout in seconds for all processes to start their first acquire."""

REFRESH = 0.1
TITLE = "One lock, {processes} processes, one of them killed while it holds"


def run_demo(roles: Sequence[Role], rounds: int, console: Console, scratch: Path, drawing: Path) -> int:
    """Run the demo. Return the exit status: 0 if the lock kept all its promises."""
    expected = len(roles) * rounds * TYPICAL_HOLD + SESSION_TIMEOUT
    limit = 3 * expected + 30
    with testing.Server() as server:
        # We hold the lock until every process waits for it.
        with zklock.Client(server.hosts) as client, zklock.Mutex(client, PATH):
            play = DemoRun(roles, server.hosts, PATH, rounds, scratch)
            play.wait_queued(START_TIMEOUT)
            start = time.monotonic_ns()

        def now() -> Timeline:
            return layout(play.record.events(), play.titles, start, time.monotonic_ns())

        screen = Screen(console, int(expected * SECOND))
        try:
            while play.tick() and time.monotonic_ns() - start < limit * SECOND:
                screen.show(now())
                time.sleep(REFRESH)
        finally:
            play.stop()
            screen.close(now())
        left = sorted(node for node in server.tree() if node.startswith(PATH + "/"))
    return conclude(play, start, left, console, drawing)


def conclude(play: DemoRun, start: int, left: list[str], console: Console, drawing: Path) -> int:
    """Print the verdict and write the picture. Return the exit status."""
    events = play.record.events()
    timeline = layout(events, play.titles, start, max((event.at for event in events), default=start))
    judged = record.holds(events, PATH, play.titles)
    overlaps = history.overlaps(judged)
    counted = figures(timeline)
    problems = play.problems() + history.problems(judged)
    problems += [f"a node is left: {node}" for node in left]
    problems += [
        f"{title} was never granted the lock"
        for title, grants in zip(play.titles, counted.grants, strict=True)
        if not grants
    ]
    summed_up = sentence(counted, len(overlaps))
    drawing.write_text(picture(timeline, TITLE.format(processes=len(play.titles)), summed_up))
    console.print(summary(play.titles, counted))
    console.print(f"{summed_up}; {len(left)} nodes left", soft_wrap=True)
    console.print(f"The picture: {drawing.resolve()}", soft_wrap=True)
    for problem in problems:
        console.print(problem, style="bold red", markup=False, soft_wrap=True)
    return 1 if problems else 0


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of times that each process acquires the lock"
    )
    parser.add_argument("--picture", type=Path, default=Path("demo.svg"), help="file for the picture")
    options = parser.parse_args()
    if options.rounds < KILLED_IN_ROUND:
        parser.error(f"--rounds must be at least {KILLED_IN_ROUND}: one process is killed in that round")
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="zklock-demo-") as directory:
        scratch = Path(directory)
        roles = demo_roles(scratch)
        console.print(
            f"{len(roles)} processes contend for one lock, on an in-memory server, which is for development "
            "and tests only.",
            soft_wrap=True,
        )
        if (missing := without_curator()) is not None:
            console.print(missing, soft_wrap=True)
        return run_demo(roles, options.rounds, console, scratch, options.picture)


if __name__ == "__main__":
    sys.exit(main())
