"""Runs a suite of another language with a timeout and sums up its tests, even if the suite was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from strays import marked

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
PLUGINS = ROOT / "tools" / "plugins"

SUITE_LIMIT = 20 * 60.0
"""Timeout of a suite in seconds. Its runner ends single tests much earlier."""

KILLED = 124
"""Exit status of a command that timed out, as with timeout(1)."""


@dataclass
class Tally:
    """The result of a suite."""

    passed: int = 0
    failures: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of skipped tests for each reason."""

    def add(self, other: Tally) -> None:
        self.passed += other.passed
        self.failures += other.failures
        self.left_out += other.left_out


def run(
    command: list[str],
    *,
    cwd: Path = ROOT,
    limit: float,
    quiet: bool = False,
    env: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Run a command in its own process group. On a timeout, kill it with all processes
    that it has started.
    """
    output = subprocess.PIPE if quiet else None
    with marked() as environment:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            start_new_session=True,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env={**environment, **(env or {})},
        )
        try:
            text, _ = process.communicate(timeout=limit)
            return process.returncode, text or ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    # The processes that kept its output open are killed as well.
    text, _ = process.communicate()
    print(f"KILLED after {limit:.0f} s: {' '.join(command)}", flush=True)
    return KILLED, (text or "") + f"\nkilled after {limit:.0f} s\n"


def recorded(record: Path, code: int, suite: str) -> Tally:
    """Sum up the record of a suite. A suite that fails without a failed test counts as one failure."""
    outcomes: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    # Tests that have not ended, and whether they have started.
    awaited: dict[str, bool] = {}
    for line in record.read_text().splitlines() if record.exists() else ():
        try:
            entries: dict[str, str | list[str]] = json.loads(line)
        except ValueError:
            # The incomplete last line of a suite that was killed.
            continue
        for event, what in entries.items():
            if event == "reason":
                left_out.update([what] if isinstance(what, str) else what)
                continue
            for test in [what] if isinstance(what, str) else what:
                if event == "collected":
                    # A replacement worker collects all tests again.
                    if test not in outcomes:
                        awaited.setdefault(test, False)
                elif event == "began":
                    awaited[test] = True
                elif event == "ended":
                    awaited.pop(test, None)
                # Setup and teardown can only make the outcome worse.
                elif outcomes.get(test) != "failed":
                    outcomes[test] = event
    # A test that crashed its worker has failed and never ends.
    awaited = {test: began for test, began in awaited.items() if outcomes.get(test) != "failed"}
    tally = Tally(passed=sum(outcome == "passed" for outcome in outcomes.values()), left_out=left_out)
    tally.failures += [test for test, outcome in outcomes.items() if outcome == "failed"]
    if code != 0:
        # Tests that were running when the suite was killed or crashed.
        tally.failures += [
            f"{test} (had not ended when {suite} was killed)" for test in awaited if awaited[test]
        ]
        if not_begun := [test for test in awaited if not awaited[test]]:
            tally.failures.append(f"{len(not_begun)} tests that {suite} never began: {', '.join(not_begun)}")
    if code != 0 and not tally.failures:
        tally.failures.append(f"{suite} (exit status {code})")
    if code == 0 and tally.passed == 0:
        tally.failures.append(f"{suite} ran no test")
    return tally


def pytest(
    directory: str, *options: str, cwd: str | Path, quiet: bool = True, limit: float = SUITE_LIMIT
) -> Tally:
    """Run a directory of Python tests."""
    with TemporaryDirectory() as scratch:
        record = Path(scratch, "record")
        plugins = ("-p", "recorded", f"--record={record}", "-p", "ended")
        command = [PYTHON, "-m", "pytest", *plugins, "-q", directory, *options]
        env = {"PYTHONPATH": os.pathsep.join(filter(None, [str(PLUGINS), os.environ.get("PYTHONPATH")]))}
        code, text = run(command, cwd=ROOT / cwd, limit=limit, quiet=quiet, env=env)
        print(text, end="", flush=True)
        return recorded(record, code, directory)


def node(
    *command: str, suite: str = "node", cwd: str | Path = "bindings-node", limit: float = SUITE_LIMIT
) -> Tally:
    """Run Node's tests with the given command, by default the binding's own."""
    with TemporaryDirectory() as scratch:
        record = Path(scratch, "record")
        reporters = [f"--test-reporter={PLUGINS / 'recorded.mjs'}", f"--test-reporter-destination={record}"]
        reporters += ["--test-reporter=spec", "--test-reporter-destination=stdout"]
        runner = command or ("npm", "test", "--silent", "--")
        env = {"ZKLOCK_PYTHON": PYTHON}
        code, text = run([*runner, *reporters], cwd=ROOT / cwd, limit=limit, quiet=True, env=env)
        print(text, end="", flush=True)
        return recorded(record, code, suite)
