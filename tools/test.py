"""Builds outdated parts, runs the tests, each suite with a timeout, and prints a one-line summary.

Without --all, only the first tier runs, which covers every promise in minutes. tests/second-tier.toml lists
the rest.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from catalogue import APART, CARGO, STAGES, SUITES
from parts import PARTS, ROOT, within_reach
from suites import SECOND_TIER, Tally, second_tier


def timed(name: str, whole: bool) -> Tally:
    """Run one suite and report its result."""
    start = time.monotonic()
    tally = (SUITES | APART)[name](whole)
    took = time.monotonic() - start
    print(f"=== {name}: {tally.passed} passed, {len(tally.failures)} failed in {took:.0f} s", flush=True)
    return tally


def run(names: list[str], whole: bool) -> Tally:
    """Run the suites, up to three of a stage in parallel, and print the results."""
    total = Tally()
    for stage in STAGES:
        if not (together := [name for name in stage if name in names]):
            continue
        print(f"\n=== {', '.join(together)}", flush=True)
        with ThreadPoolExecutor(3) as pool:
            for tally in pool.map(lambda name: timed(name, whole), together):
                total.add(tally)
    # List the promises that no test has shown.
    for what in filter(None, (part.lacking() for part in PARTS.values() if not part.apart)):
        print(f"not shown: {what}")
    if PARTS["jars"].lacking() is not None:
        print("not shown: safety: all tests ran on the embedded server, which is for development and tests")
    for reason, count in sorted(total.left_out.items()):
        print(f"not shown: {count} tests left out: {reason}")
    for failure in total.failures:
        print(f"FAILED {failure}")
    print(f"{total.passed} passed, {len(total.failures)} failed", flush=True)
    return total


def chosen(named: list[str], whole: bool) -> list[str]:
    """Return the suites to run: the named ones, or all of the tier."""
    # Without a real server, `scenarios` runs on the embedded server. The suite `embedded` would do the same,
    # so leave it out.
    known = [name for name in SUITES if name != "embedded" or PARTS["jars"].lacking() is None]
    if whole:
        return named or [*known, *APART]
    # Leave out a suite that belongs to the second tier as a whole, unless the command line names it.
    return named or [name for name in known if "*" not in second_tier(name)]


def main() -> int:
    """Run the requested suites. Return 1 if a test fails, and 2 if something cannot be built."""
    known = SUITES | APART
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"only these suites: {', '.join(known)}")
    parser.add_argument("--all", action="store_true", help="both tiers")
    asked = parser.parse_args()
    if unknown := set(asked.suites) - set(known):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    names = chosen(asked.suites, asked.all)
    if set(names) - CARGO:
        parts = within_reach(apart="consumers" in names)
        if subprocess.run(["make", "--no-print-directory", *parts], cwd=ROOT, check=False).returncode != 0:
            return 2
    # A background process ignores SIGINT, and a process that was started by nohup ignores SIGHUP. Test
    # processes would inherit this, and the tests of signals would fail. If this process has a handler for a
    # signal, its children do not ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    total = run(names, asked.all)
    if not asked.all:
        print(f"`make test-all` runs every test; {SECOND_TIER.relative_to(ROOT)} says what it adds, and why")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
