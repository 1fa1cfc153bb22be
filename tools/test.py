"""Runs the tests, each with a timeout, and ends with a one-line summary.

Without --all, only the first tier runs, which covers every promise in minutes. tests/second-tier.toml lists
the rest. With --repeat N, the tests run N times. With --load L, L processes keep a processor busy meanwhile.
The output ends with the tests that failed in some of the runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from catalogue import APART, CARGO, STAGES, SUITES
from parts import EVERYTHING, PARTS, everything, lacking
from strays import end_strays, mark
from suites import Tally
from tiers import LIST, Second

SUITES_AT_A_TIME = 3
"""Number of suites that run in parallel."""


def unshown(left_out: Counter[str]) -> Iterator[str]:
    """Yield what this run has not shown, because this machine lacks something or for other reasons."""
    for name, part in PARTS.items():
        if not part.apart and (what := lacking(name)) is not None:
            yield what
    if lacking("jars") is not None:
        yield "safety: all tests ran on the embedded server, which is for development and tests"
    for reason, count in sorted(left_out.items()):
        yield f"{count} tests left out: {reason}"


def stages(names: list[str]) -> Iterator[list[str]]:
    """Yield the suites in order. The suites of one stage run in parallel."""
    for stage in STAGES:
        if together := [name for name in stage if name in names]:
            yield together


def timed(name: str, whole: bool) -> Tally:
    """Run one suite and report its result."""
    start = time.monotonic()
    tally = (SUITES | APART)[name](whole)
    took = time.monotonic() - start
    print(f"=== {name}: {tally.passed} passed, {len(tally.failures)} failed in {took:.0f} s", flush=True)
    return tally


def run_once(names: list[str], whole: bool) -> Tally:
    """Run the suites and print the results."""
    total = Tally()
    for stage in stages(names):
        print(f"\n=== {', '.join(stage)}", flush=True)
        with ThreadPoolExecutor(SUITES_AT_A_TIME) as pool:
            for tally in pool.map(lambda name: timed(name, whole), stage):
                total.add(tally)
        total.failures += [f"{', '.join(stage)} left a process behind: {stray}" for stray in end_strays()]
    for what in unshown(total.left_out):
        print(f"not shown: {what}")
    for failure in total.failures:
        print(f"FAILED {failure}")
    print(f"{total.passed} passed, {len(total.failures)} failed", flush=True)
    return total


def run_often(names: list[str], whole: bool, runs: int) -> bool:
    """Run the suites several times and print how often each test failed. Return whether none failed."""
    failed: Counter[str] = Counter()
    passed = []
    for number in range(runs):
        if runs > 1:
            print(f"\n=== run {number + 1} of {runs}", flush=True)
        total = run_once(names, whole)
        failed.update(set(total.failures))
        passed.append(total.passed)
    if runs > 1:
        print(f"\n{runs} runs, with {', '.join(map(str, passed))} tests passed")
        for test, times in failed.most_common():
            print(f"FAILED in {times} of {runs} runs: {test}")
        print(f"{len(failed)} tests failed in some run", flush=True)
    return not failed


def busy(stack: ExitStack, load: int) -> None:
    """Start processes that keep processors busy and end with this process."""
    spin = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
    for _ in range(load):
        process = subprocess.Popen([sys.executable, "-c", spin])
        stack.callback(process.kill)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    known = ", ".join(SUITES | APART)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, epilog=f"suites: {known}"
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="only these suites")
    parser.add_argument("--all", action="store_true", help="both tiers")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run them N times")
    parser.add_argument("--load", type=int, default=0, metavar="L", help="keep L processes busy meanwhile")
    asked = parser.parse_args()
    if unknown := set(asked.suites) - set(SUITES) - set(APART):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {known}")
    if asked.repeat < 1 or asked.load < 0:
        parser.error("--repeat takes 1 or more, --load 0 or more")
    return asked


def chosen(asked: argparse.Namespace) -> list[str]:
    """Return the suites to run: the named ones, or all of the tier."""
    # Without a real server, the scenarios already run on the embedded one.
    known = [name for name in SUITES if name != "embedded" or lacking("jars") is None]
    if asked.all:
        return asked.suites or [*known, *APART]
    # A suite that is in the second tier as a whole runs only if it is named.
    return asked.suites or [name for name in known if not Second.of(name).whole]


def main() -> int:
    """Run the requested suites. Return 1 if a test fails, and 2 if something is missing."""
    asked = arguments()
    names = chosen(asked)
    parts = [part for part in PARTS.values() if not part.apart or "consumers" in names]
    missing = [what for part in parts if (what := lacking(part.name)) is not None]
    if missing and everything():
        print(f"{EVERYTHING} is set: nothing may be left out\n" + "\n".join(missing), file=sys.stderr)
        return 2
    parts = [part for part in parts if lacking(part.name) is None]
    if set(names) - CARGO and (problems := [what for part in parts if (what := part.problem())]):
        print("\n".join(problems), file=sys.stderr)
        return 2
    # A shell that starts this process in the background ignores SIGINT, and nohup ignores SIGHUP. Child
    # processes would inherit that, and the signal tests would wait in vain. A signal with a handler here has
    # its default action in the children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    with ExitStack() as stack:
        busy(stack, asked.load)
        mark()
        well = run_often(names, asked.all, asked.repeat)
    if not asked.all:
        print(f"`make test-all` runs every test; {os.path.relpath(LIST)} says what it adds, and why")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
