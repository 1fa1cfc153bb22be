"""A suite reports passed, failed and hung tests, and processes that it left behind, even if it was killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import suites
from harness.command import is_alive
from harness.steps import eventually

# Timeout in seconds. Every test except the hanging one finishes earlier, even on a busy machine.
LIMIT = 40.0

PYTHON_TESTS = """
import time
import pytest

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip(reason="no server")
def test_skipped(): pass
@pytest.mark.xfail
def test_known(): assert False
@pytest.fixture
def fragile():
    yield
    assert False
def test_fails_behind(fragile): pass
def test_hangs(): time.sleep(600)
def test_never(): pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_a_suite_that_is_killed_reports_what_passed(
    tmp_path: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_planted.py").write_text(PYTHON_TESTS)
    tally = suites.pytest("test_planted.py", *options, cwd=tmp_path, limit=LIMIT)
    assert tally.passed == 1
    assert tally.failures == [
        "test_planted.py::test_fails",
        "test_planted.py::test_fails_behind",
        f"{tmp_path.name}/test_planted.py had not ended after {LIMIT:.0f} s",
    ]
    assert tally.left_out == {"no server": 1}
    assert f"KILLED after {LIMIT:.0f} s" in capsys.readouterr().out


def test_a_suite_that_cannot_begin_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name")
    assert suites.pytest("test_broken.py", cwd=tmp_path).failures == ["test_broken.py::test_broken"]
    (missing,) = suites.pytest("test_missing.py", cwd=tmp_path).failures
    assert missing.endswith("/test_missing.py (exit status 4)")
    (tmp_path / "broken.test.mjs").write_text("import 'nothing-of-that-name'")
    (broken,) = suites.node("node", "--test", suite="broken", cwd=tmp_path).failures
    assert "broken.test.mjs" in broken


def test_a_suite_that_ran_no_test_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "none.test.mjs").write_text("import test from 'node:test'\ntest.skip('one', () => {})")
    assert suites.node("node", "--test", suite="none", cwd=tmp_path).failures == ["none ran no test"]


def test_a_process_that_a_suite_leaves_behind_is_a_failure(tmp_path: Path) -> None:
    started = tmp_path / "started"
    command = ["sh", "-c", f"setsid sleep 600 >/dev/null 2>&1 & echo $! > {started}"]
    tally = suites.step("planted", command, limit=LIMIT)
    assert tally.passed == 1
    pid = int(started.read_text())
    assert tally.failures == [f"planted left a process behind: {pid} sleep 600"]
    eventually(lambda: not is_alive(pid), "it has been killed")


def test_a_command_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    command = ["sh", "-c", f"trap '' INT; setsid sleep 600 & echo $! > {started}; wait"]
    status, text = suites.run(command, limit=2, quiet=True)
    assert status == suites.KILLED
    assert "KILLED after 2 s: sh -c" in text
    eventually(lambda: not is_alive(int(started.read_text())), "its child has ended as well")


STUCK = """
import signal
import subprocess
import time

def test_before(): pass

def test_stuck():
    # As native code that never comes back: nothing that interrupts Python ends it.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(600)

def test_behind(): pass
def test_last(): pass
"""


def test_a_test_that_nothing_interrupts_is_ended_alone(tmp_path: Path) -> None:
    (tmp_path / "test_stuck.py").write_text(STUCK)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 2\ntimeout_method = signal\n")
    tally = suites.pytest("test_stuck.py", "-n", "1", cwd=tmp_path, test_limit=5)
    # Another worker runs the remaining tests.
    assert (tally.passed, tally.failures) == (3, ["test_stuck.py::test_stuck"])


FILES = """
import { runFiles } from '%(files)s';
const options = process.argv.slice(2);
const well = await runFiles(
  ['hangs.test.mjs', 'passes.test.mjs', 'fails.test.mjs', 'broken.test.mjs'],
  { options, cwd: '%(cwd)s', limit: %(limit)s, atATime: 4 },
);
process.exitCode = well ? 0 : 1;
"""

# A test that starts a child process in a separate session and then loops forever, so its process no longer
# handles messages from the runner.
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
    files = suites.ROOT / "bindings-node" / "test" / "files.mjs"
    values = {"files": files.as_uri(), "cwd": tmp_path, "limit": int(LIMIT * 1000)}
    (tmp_path / "run.mjs").write_text(FILES % values)
    tally = suites.node("node", "run.mjs", suite="planted", cwd=tmp_path)
    assert sorted(tally.failures) == [
        f"broken.test.mjs::{tmp_path}/broken.test.mjs",
        "fails.test.mjs::one",
        f"hangs.test.mjs::killed after {LIMIT:.0f} s",
    ]
    # The passed tests of the other files count.
    assert tally.passed == 3
    said = capsys.readouterr().out
    assert f"KILLED after {LIMIT:.0f} s: hangs.test.mjs, whose last output was" in said
    assert "so far" in said
    eventually(lambda: not is_alive(int((tmp_path / "started").read_text())), "its child has ended as well")


RUST = """
     Running unittests src/lib.rs (target/debug/deps/planted-1)

running 3 tests
test fails ... FAILED
test passes ... ok
test panics - should panic ... ok

failures:

---- fails stdout ----
    not a name

failures:
    fails

test result: FAILED. 2 passed; 1 failed; 0 ignored

     Running tests/hangs.rs (target/debug/deps/hangs-2)

running 3 tests
test passes ... ok
test waits has been running for over 60 seconds
test hangs has been running for over 60 seconds
test waits ... ok
error: test failed, to rerun pass `-p planted --test hangs`

   Doc-tests planted
test result: ok. 2 passed; 0 failed; 0 ignored
"""


def test_the_outcomes_of_rust_tests() -> None:
    tally = suites.rust_outcomes(RUST)
    assert tally.passed == 6
    assert tally.failures == [
        "fails",
        "tests/hangs.rs (target/debug/deps/hangs-2) did not end: hangs still ran",
    ]


PLANTED = """
#[test]
fn passes() {}
#[test]
fn fails() { panic!() }
#[test]
fn hangs() { std::thread::sleep(std::time::Duration::from_secs(600)) }
"""


def test_a_program_of_rust_tests_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "planted"\nedition = "2024"\n[workspace]\n')
    (tmp_path / "Cargo.lock").write_text('version = 4\n[[package]]\nname = "planted"\nversion = "0.0.0"\n')
    for name, code in (("planted", PLANTED), ("zlast", "#[test]\nfn last() {}\n")):
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests" / f"{name}.rs").write_text(code)
    target = ("--config", f"build.target-dir={json.dumps(str(tmp_path / 'target'))}")
    options = (*target, "--manifest-path", str(tmp_path / "Cargo.toml"), "--", "--test-threads=4")
    tally = suites.cargo("planted", *options, program_limit=65)
    assert tally.passed == 2
    failed, hung = tally.failures
    assert failed == "fails"
    assert hung.startswith("tests/planted.rs (")
    assert hung.endswith("did not end: hangs still ran")
