"""Runs a suite with a timeout, and counts the results that the suite's own runner reports."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
SECOND_TIER = ROOT / "tests" / "second-tier.toml"

SUITE_LIMIT = 20 * 60.0
"""Timeout of a suite in seconds. The suite's runner ends a single test much earlier."""

TEST_LIMIT = 360
"""Time in seconds after which a pytest process ends if a test's own timeout does not end the test."""

PROGRAM_LIMIT = 900
"""Timeout of one program of Rust tests, in seconds. On a busy machine, the slowest takes five minutes."""

KILLED = 124
"""Exit status of a command that timed out, as with timeout(1)."""

ENDING = 10.0
"""Time in seconds that a command that timed out has to write its report."""

STRAY_LIMIT = 5.0
"""Time in seconds that child processes have to exit after the command that started them has ended."""

MARK = "ZKLOCK_TEST_RUN"
"""Environment variable that all processes of a command inherit, even if they start a new session."""


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


class Ended(NamedTuple):
    """The exit status of a command, its output (unless it was printed), and processes that it left behind."""

    code: int
    text: str
    strays: list[str]


def marked(mark: str) -> list[str]:
    """Return the process ids and commands of all processes with this mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # Other processes have ended or belong to another user.
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{process.name} {command.strip()}")
    return found


def execute(
    command: list[str], *, cwd: Path, limit: float, quiet: bool = True, env: dict[str, str] | None = None
) -> Ended:
    """Run a command. When it ends or times out, kill all processes that it has started."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, **(env or {}), MARK: mark}
    with TemporaryFile() as output:
        out = output if quiet else None
        process = subprocess.Popen(
            command, cwd=cwd, start_new_session=True, stdout=out, stderr=subprocess.STDOUT, env=environment
        )
        try:
            code, patience = process.wait(limit), STRAY_LIMIT
        except subprocess.TimeoutExpired:
            code, patience = KILLED, 0.0
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDING)
            process.kill()
            process.wait()
        deadline = time.monotonic() + patience
        while (strays := marked(mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for stray in strays:
            with suppress(ProcessLookupError):
                os.kill(int(stray.split()[0]), signal.SIGKILL)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if code == KILLED:
        text += f"\nKILLED after {limit:.0f} s: {' '.join(command)}\n"
    return Ended(code, text, strays if code != KILLED else [])


def run(
    command: list[str], *, cwd: Path = ROOT, limit: float, quiet: bool, env: dict[str, str] | None = None
) -> tuple[int, str]:
    """Run a command and return its exit status and its output."""
    return execute(command, cwd=cwd, limit=limit, quiet=quiet, env=env)[:2]


def summed(suite: str, tally: Tally, ended: Ended, limit: float) -> Tally:
    """Add the failures of the suite itself, such as a timeout, to those of its tests."""
    if ended.code == KILLED:
        tally.failures.append(f"{suite} had not ended after {limit:.0f} s")
    elif ended.code != 0 and not tally.failures:
        tally.failures.append(f"{suite} (exit status {ended.code})")
    elif ended.code == 0 and tally.passed == 0:
        tally.failures.append(f"{suite} ran no test")
    tally.failures += [f"{suite} left a process behind: {stray}" for stray in ended.strays]
    return tally


def step(name: str, command: list[str], *, cwd: Path = ROOT, limit: float) -> Tally:
    """Run a command that counts as one test."""
    ended = execute(command, cwd=cwd, limit=limit)
    if ended.code != 0:
        print(ended.text, flush=True)
    return summed(name, Tally(passed=int(ended.code == 0)), ended, limit)


def second_tier(suite: str) -> dict[str, str]:
    """Return the tests that only `make test-all` runs, with the reasons. `*` is the whole suite."""
    table: dict[str, dict[str, str]] = tomllib.loads(SECOND_TIER.read_text())
    return table.get(suite, {})


def junit(report: Path) -> Tally:
    """Count the results in reports of pytest or Node. Node writes one XML document for each file."""
    tally, passed = Tally(), set()
    text = report.read_text() if report.exists() else ""
    # Node does not escape control characters, which XML excludes.
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text)
    for document in filter(str.strip, re.split(r"<\?xml.*?\?>", text)):
        for case in ElementTree.fromstring(document).iterfind(".//testcase[@name]"):
            name = f"{case.get('file') or case.get('classname')}::{case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                tally.failures.append(name)
            elif skipped is None:
                passed.add(name)
            elif skipped.get("type") != "pytest.xfail":
                tally.left_out[skipped.get("message", "")] += 1
    # A test can pass and then fail in its teardown.
    tally.passed = len(passed - set(tally.failures))
    return tally


def pytest(
    directory: str,
    *options: str,
    cwd: str | Path = "tests",
    quiet: bool = True,
    limit: float = SUITE_LIMIT,
    test_limit: int = TEST_LIMIT,
) -> Tally:
    """Run a directory of Python tests."""
    with TemporaryDirectory() as scratch:
        settings = ("junit_family=xunit1", "faulthandler_exit_on_timeout=true")
        command = [PYTHON, "-m", "pytest", "-q", f"--junitxml={scratch}/report", directory, *options]
        for setting in (*settings, f"faulthandler_timeout={test_limit}"):
            command += ["-o", setting]
        ended = execute(command, cwd=ROOT / cwd, limit=limit, quiet=quiet)
        print(ended.text, end="", flush=True)
        return summed(f"{Path(cwd).name}/{directory}", junit(Path(scratch, "report")), ended, limit)


def node(
    *command: str, suite: str = "node", cwd: str | Path = "bindings-node", limit: float = SUITE_LIMIT
) -> Tally:
    """Run Node's tests with the given command, by default the binding's own."""
    with TemporaryDirectory() as scratch:
        reporters = ["--test-reporter=junit", f"--test-reporter-destination={scratch}/report"]
        reporters += ["--test-reporter=spec", "--test-reporter-destination=stdout"]
        runner = command or ("npm", "test", "--silent", "--")
        env = {"ZKLOCK_PYTHON": PYTHON}
        ended = execute([*runner, *reporters], cwd=ROOT / cwd, limit=limit, env=env)
        print(ended.text, end="", flush=True)
        return summed(suite, junit(Path(scratch, "report")), ended, limit)


def rust_outcomes(text: str) -> Tally:
    """Sum up the output of `cargo test`: each program ends with a list of its failures and a result."""
    tally = Tally()
    _, *programs = re.split(r"^ +(?:Running|Doc-tests) ", text, flags=re.MULTILINE)
    for program in programs:
        if (result := re.search(r"^test result: \w+\. (\d+) passed", program, re.MULTILINE)) is not None:
            tally.passed += int(result[1])
            _, failed, listed = program[: result.start()].rpartition("\nfailures:\n")
            tally.failures += re.findall(r"^    (\S.*)$", listed, re.MULTILINE) if failed else []
            continue
        ended = dict(re.findall(r"^test (\S+) .*?(ok|FAILED|ignored.*)$", program, re.MULTILINE))
        tally.passed += sum(outcome == "ok" for outcome in ended.values())
        tally.failures += [name for name, outcome in ended.items() if outcome == "FAILED"]
        begun = re.findall(r"^test (\S+) .*(?:\.\.\.|has been running)", program, re.MULTILINE)
        hung = ", ".join(sorted(set(begun) - set(ended)))
        tally.failures.append(f"{program.splitlines()[0]} did not end{hung and f': {hung} still ran'}")
    return tally


def cargo(suite: str, *options: str, limit: float = SUITE_LIMIT, program_limit: int = PROGRAM_LIMIT) -> Tally:
    """Run Rust tests. If this system has timeout(1), each test program has its own timeout."""
    command = ["cargo", "test", "--locked", "--no-fail-fast"]
    if (timeout := shutil.which("timeout")) is not None:
        runner = f"['{timeout}', '--signal=KILL', '{program_limit}']"
        command += ["--config", f"target.'cfg(all())'.runner = {runner}"]
    ended = execute([*command, *options], cwd=ROOT, limit=limit)
    tally = summed(suite, rust_outcomes(ended.text), ended, limit)
    if tally.failures:
        print(ended.text, flush=True)
    return tally
