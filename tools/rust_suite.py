"""The Rust suites. Tests of one executable share a process, which is killed when one of them hangs."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from strays import marked
from suites import ROOT, Tally, run
from tiers import Second

HANG_LIMIT = 300.0
"""An executable is killed after this many seconds in which no test ends. The property tests take longest."""

WORLD_LIMIT = 1200.0
"""The same for the explorer's larger worlds: the largest has 1.9 million states."""

AT_A_TIME = 3
"""Number of processes that run in parallel, each with one test at a time. Many tests mostly wait."""

CHUNK = 15
"""Number of tests of one executable that share a process."""

_BEGAN = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. ")
_ENDED = re.compile(r"(?P<outcome>ok|FAILED)$")


def executables(*which: str) -> Iterator[str]:
    """Build Rust tests and yield their executables."""
    command = ["cargo", "test", "--locked", "--no-run", *which, "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("profile", {}).get("test"):
            yield message["executable"]


def tests_of(executable: str, *options: str) -> list[str]:
    """Return the sorted names of the tests in an executable."""
    command = [executable, "--list", "--format=terse", *options]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(line.removesuffix(": test") for line in listed.stdout.splitlines())


@dataclass
class Outcomes:
    """The outcomes of tests, from their process's output: a test's name at its start, and the outcome at its
    end.
    """

    ended: dict[str, bool] = field(default_factory=dict)
    running: str | None = None

    def read(self, line: str) -> None:
        """Process a line. A test's own output can be between its name and its outcome."""
        if match := _BEGAN.match(line):
            self.running = match["name"]
        if self.running is not None and (match := _ENDED.search(line)):
            self.ended[self.running] = match["outcome"] == "ok"
            self.running = None


def run_tests(executable: str, tests: Sequence[str], *options: str, limit: float = HANG_LIMIT) -> Tally:
    """Run tests of an executable in sequence. The result names those that fail, hang or end the process.

    The tests after one that hangs or ends the process run in another process.
    """
    tally, waiting = Tally(), list(tests)
    while waiting:
        part, waiting = run_process(executable, waiting, *options, limit=limit)
        tally.add(part)
    return tally


def run_process(executable: str, tests: list[str], *options: str, limit: float) -> tuple[Tally, list[str]]:
    """Run tests in one process. Return their outcomes, and the tests that have not started."""
    with marked() as environment:
        process = subprocess.Popen(
            [executable, "--exact", *tests, "--test-threads=1", *options],
            cwd=ROOT,
            env=environment,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        outcomes, text, hangs = follow(process, limit)
    tally = Tally(passed=sum(outcomes.ended.values()))
    tally.failures += [name for name, passed in outcomes.ended.items() if not passed]
    if awaited := [name for name in tests if name not in outcomes.ended]:
        why = f"had not ended after {limit:.0f} s" if hangs else f"ended the process: {process.returncode}"
        running = outcomes.running if outcomes.running in awaited else awaited[0]
        tally.failures.append(f"{running} ({why})")
        awaited.remove(running)
    if process.returncode != 0 and not tally.failures:
        tally.failures.append(f"{executable} (exit status {process.returncode})")
    if tally.failures:
        print(text, flush=True)
    return tally, awaited


def follow(process: subprocess.Popen[bytes], limit: float) -> tuple[Outcomes, str, bool]:
    """Read until a process ends, or kill it when no test has ended for too long."""
    assert process.stdout is not None
    outcomes, text, rest, hangs = Outcomes(), b"", b"", False
    deadline = time.monotonic() + limit
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                hangs = True
                os.killpg(process.pid, signal.SIGKILL)
                break
            if not (chunk := os.read(process.stdout.fileno(), 1 << 16)):
                break
            text += chunk
            *lines, rest = (rest + chunk).split(b"\n")
            before = len(outcomes.ended)
            for line in lines:
                outcomes.read(line.decode(errors="replace"))
            if len(outcomes.ended) > before:
                deadline = time.monotonic() + limit
    outcomes.read(rest.decode(errors="replace"))
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        # The process has closed its output but still runs.
        hangs = True
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return outcomes, text.decode(errors="replace"), hangs


def run_all(
    jobs: list[tuple[str, list[str]]], *options: str, at_a_time: int = AT_A_TIME, limit: float = HANG_LIMIT
) -> Tally:
    """Run tests of several executables, some of them in parallel."""
    tally = Tally()
    with ThreadPoolExecutor(at_a_time) as pool:
        for part in pool.map(lambda job: run_tests(*job, *options, limit=limit), jobs):
            tally.add(part)
    return tally


OPTIMIZED = tuple(
    part
    for setting in ("opt-level=3", "debug-assertions=false", "overflow-checks=false")
    for part in ("--config", f"profile.dev.package.zklock.{setting}")
)
"""Only the core is compiled again, with optimizations. All its dependencies are already built."""


def worlds() -> Tally:
    """Run the tests that are slow without optimizations, on one processor, because they run in parallel with
    others.
    """
    which = (*OPTIMIZED, "--workspace", "--test", "queue_explorer", "--test", "queue_costs")
    jobs = [
        (executable, [name])
        for executable in executables(*which)
        for name in tests_of(executable, "--ignored")
    ]
    return run_all(jobs, "--ignored", at_a_time=1, limit=WORLD_LIMIT)


def rust(whole: bool) -> Tally:
    """Run all other Rust tests, or their first tier."""
    jobs = []
    second = Second({} if whole else Second.of("rust").reasons)
    # The whole workspace, as in tools/build.py, so that most of the build is shared.
    for executable in executables("--workspace", "--tests"):
        ignored = set(tests_of(executable, "--ignored"))
        tests = [name for name in tests_of(executable) if name not in ignored and not second.has(name)]
        jobs += [(executable, tests[at : at + CHUNK]) for at in range(0, len(tests), CHUNK)]
    tally = run_all(jobs)
    examples = ["cargo", "test", "--locked", "--doc", "-p", "zklock", "-p", "zklock-embedded"]
    code, text = run(examples, limit=HANG_LIMIT, quiet=True)
    if code == 0:
        tally.passed += 1
    else:
        tally.failures.append("documentation examples")
        print(text, flush=True)
    return tally
