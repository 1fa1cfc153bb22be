"""A suite that is killed reports the passed tests and the tests that had not ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import suites
from harness.command import is_alive
from harness.steps import eventually
from suites import Tally

# In seconds. Every test except the hanging one finishes earlier, even on a busy machine.
LIMIT = 40.0

PYTHON_TESTS = """
import time
import pytest

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip
def test_skipped(): pass
@pytest.fixture
def fragile():
    yield
    assert False
def test_fails_behind(fragile): pass
def test_hangs(): time.sleep(600)
def test_never(): pass
"""

NODE_TESTS = """
import test from 'node:test'
test('passes', () => {})
test('fails', () => { throw new Error('on purpose') })
test('is skipped', { skip: true }, () => {})
test('hangs', () => new Promise((resolve) => setTimeout(resolve, 600_000)))
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Provide a directory with tests, one of which hangs."""
    (tmp_path / "test_planted.py").write_text(PYTHON_TESTS)
    (tmp_path / "planted.test.mjs").write_text(NODE_TESTS)
    return tmp_path


def test_a_suite_that_is_killed_reports_what_passed(
    planted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[Callable[[], Tally]] = [
        lambda: suites.pytest("test_planted.py", cwd=planted, limit=LIMIT),
        lambda: suites.pytest("test_planted.py", "-n", "1", cwd=planted, limit=LIMIT),
        lambda: suites.node("node", "--test", suite="planted", cwd=planted, limit=LIMIT),
    ]
    with ThreadPoolExecutor() as pool:
        alone, spread, node = pool.map(lambda run: run(), runs)
    for tally in (alone, spread):
        assert tally.passed == 1
        assert tally.failures == [
            "test_planted.py::test_fails",
            "test_planted.py::test_fails_behind",
            "test_planted.py::test_hangs (had not ended when test_planted.py was killed)",
            "1 tests that test_planted.py never began: test_planted.py::test_never",
        ]
    assert node.passed == 1
    assert node.failures == [
        "planted.test.mjs::fails",
        "planted.test.mjs::hangs (had not ended when planted was killed)",
    ]
    assert capsys.readouterr().out.count(f"KILLED after {LIMIT:.0f} s") == len(runs)


def test_a_suite_that_ends_reports_the_same(planted: Path) -> None:
    chosen = ("-k", "not hangs")
    tally = suites.pytest("test_planted.py", *chosen, cwd=planted)
    assert tally.passed == 2
    assert tally.failures == ["test_planted.py::test_fails", "test_planted.py::test_fails_behind"]


def test_a_suite_that_cannot_begin_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name")
    assert suites.pytest("test_broken.py", cwd=tmp_path).failures == ["test_broken.py"]
    assert suites.pytest("test_missing.py", cwd=tmp_path).failures == ["test_missing.py (exit status 4)"]
    (tmp_path / "broken.test.mjs").write_text("import 'nothing-of-that-name'")
    assert suites.node("node", "--test", suite="broken", cwd=tmp_path).failures == ["broken.test.mjs"]


def test_a_suite_that_ran_no_test_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "none.test.mjs").write_text("import test from 'node:test'\ntest.skip('one', () => {})")
    assert suites.node("node", "--test", suite="none", cwd=tmp_path).failures == ["none ran no test"]


STUCK = """
import signal
import subprocess
import time

def test_before(): pass

def test_stuck():
    print("so far")
    # As native code that never comes back: nothing that interrupts Python ends it.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(600)

def test_behind(): pass
def test_last(): pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_a_test_that_nothing_interrupts_is_ended_alone(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_stuck.py").write_text(STUCK)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 2\ntimeout_method = signal\ngrace = 3\n")
    tally = suites.pytest("test_stuck.py", *options, cwd=tmp_path)
    stuck = "test_stuck.py::test_stuck"
    if options:
        # Another worker runs the remaining tests.
        assert (tally.passed, tally.failures) == (3, [stuck])
    else:
        assert tally.passed == 1
        assert tally.failures[0] == f"{stuck} (had not ended when test_stuck.py was killed)"
        assert tally.failures[1].startswith("2 tests that test_stuck.py never began")


FILES = """
import { runFiles } from '%(files)s';
const options = process.argv.slice(2);
const well = await runFiles(
  ['hangs.test.mjs', 'waits.test.mjs', 'passes.test.mjs', 'fails.test.mjs', 'broken.test.mjs'],
  { options, cwd: '%(cwd)s', limit: %(limit)s, atATime: 4 },
);
process.exitCode = well ? 0 : 1;
"""

# An endless loop behind a child process in its own session. The process does not react to any message.
HANGS = """
import test from 'node:test';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
test('before', () => {});
test('spins', { timeout: 1000 }, () => {
  const child = spawn('sleep', ['600'], { detached: true, stdio: 'inherit' });
  writeFileSync('started', String(child.pid));
  console.log('so far');
  for (;;);
});
test('behind', () => {});
"""


def test_a_file_of_node_that_hangs_is_ended_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hangs.test.mjs").write_text(HANGS)
    for name, body in (("passes", ""), ("fails", "throw new Error('on purpose')")):
        tests = f"import test from 'node:test'\ntest('one', () => {{ {body} }})\ntest('other', () => {{}})"
        (tmp_path / f"{name}.test.mjs").write_text(tests)
    (tmp_path / "broken.test.mjs").write_text("import 'nothing-of-that-name'")
    waits = "import test from 'node:test'\ntest('waits', () => new Promise(() => setInterval(Date, 1000)))"
    (tmp_path / "waits.test.mjs").write_text(waits)
    files = suites.ROOT / "bindings-node" / "test" / "files.mjs"
    values = {"files": files.as_uri(), "cwd": tmp_path, "limit": int(LIMIT * 1000)}
    (tmp_path / "run.mjs").write_text(FILES % values)
    tally = suites.node("node", "run.mjs", suite="planted", cwd=tmp_path)
    killed = f"(killed after {LIMIT:.0f} s)"
    assert sorted(tally.failures) == [
        "broken.test.mjs",
        "fails.test.mjs::one",
        f"hangs.test.mjs {killed}",
        # The event loop of this file still runs, so its test is named too.
        f"waits.test.mjs {killed}",
        "waits.test.mjs::waits (had not ended when planted was killed)",
    ]
    # The passed tests of the other files count.
    assert tally.passed == 3
    said = capsys.readouterr().out
    assert f"KILLED after {LIMIT:.0f} s: hangs.test.mjs, whose last output was" in said
    assert "so far" in said
    eventually(lambda: not is_alive(int((tmp_path / "started").read_text())), "its child has ended as well")
