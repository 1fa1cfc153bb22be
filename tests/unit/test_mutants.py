"""The planted bugs still apply to the code. `make mutants` checks that tests notice them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import planting  # noqa: E402
from covered import TABLE, covered, rows, table  # noqa: E402
from mutant import PATCHES, Mutant, StaleError  # noqa: E402
from planting import failing_seed, has_failed, ran, reason  # noqa: E402

ALL = sorted(PATCHES.glob("*.patch"))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_patch_applies_and_says_what_notices_it(path: Path) -> None:
    mutant = Mutant.read(path)
    assert mutant.files
    assert mutant.promise
    assert mutant.promise != mutant.found_by
    check = ["git", "apply", "--check", "-"]
    applied = subprocess.run(check, cwd=ROOT, input=mutant.patch, text=True, capture_output=True, check=False)
    assert applied.returncode == 0, f"{applied.stderr}: make the patch anew"


def test_there_are_forty_of_them_for_core_and_both_bindings() -> None:
    files = [file for path in ALL for file in Mutant.read(path).files]
    assert len(ALL) >= 40
    for part in ("core/src/driver", "bindings-node", "bindings-python"):
        assert any(file.startswith(part) for file in files), part


def test_each_rule_transition_and_handle_has_its_bugs() -> None:
    mutants = [Mutant.read(path) for path in ALL]
    found = covered(mutants)
    assert {
        "rule 3",
        "rule 18",
        "lease held > lost: held too long",
        "rust ReadWriteLock: write",
    } <= found.keys()
    assert "rule 1" not in found, "the queue's alone"
    assert {row: found[row] for row, least in rows() if len(found[row]) < least} == {}
    assert {row for one in mutants for row in one.covers} <= found.keys()
    assert TABLE.read_text() == table(mutants), "run `python3 tools/covered.py`"


def test_a_file_without_headers_is_refused(tmp_path: Path) -> None:
    patch = tmp_path / "a-promise.patch"
    patch.write_text("promise: something\n\n--- a/x\n+++ b/x\n")
    with pytest.raises(StaleError, match=r"a-promise\.patch"):
        Mutant.read(patch)


@pytest.mark.parametrize("seeds", ["0", "1001", "all"])
def test_a_simulation_has_at_most_a_thousand_seeds(tmp_path: Path, seeds: str) -> None:
    patch = tmp_path / "a-promise.patch"
    patch.write_text(f"promise: something\nsimulation: {seeds}\n\n--- a/x\n+++ b/x\n")
    with pytest.raises(StaleError, match="1 to 1000 seeds"):
        Mutant.read(patch)
    patch.write_text("promise: something\nsimulation: 40\n\n--- a/x\n+++ b/x\n")
    assert Mutant.read(patch).seeds == 40
    assert Mutant.read(patch).command is None


def test_what_the_runners_say_is_understood() -> None:
    cargo = "test result: ok. 3 passed; 0 failed; 0 ignored\ntest result: ok. 4 passed; 0 failed"
    assert ran(cargo) == 7
    assert ran("...\n12 passed in 3.21s\n") == 12
    assert ran("# tests 2\n# pass 2\n# fail 0\n") == 2
    assert ran("ok. 0 passed; 0 failed") == 0
    assert reason("thread 'x' panicked at core/src/x.rs:1:2:\nit is lost\n") == "it is lost"
    assert reason("nothing") == "no word"


def test_what_fails_without_a_test_that_failed_notices_nothing() -> None:
    assert has_failed(101, "test result: FAILED. 0 passed; 1 failed; 0 ignored")
    assert has_failed(101, "error: test failed\n(signal: 6, SIGABRT: process abort signal)")
    assert has_failed(1, "1 failed, 3 passed in 2.10s")
    assert has_failed(1, "2 passed, 1 error in 2.10s")
    assert has_failed(1, "# pass 1\n# fail 2\n")
    assert has_failed(1, "# pass 7\n# fail 0\n# cancelled 1\n")
    assert not has_failed(1, "# pass 7\n# fail 0\n# cancelled 0\n")
    assert not has_failed(4, "ERROR: python is out of date: core/src/lease/mod.rs changed; run `make python`")
    assert not has_failed(1, "# pass 3\n# fail 0\n")


def test_seeds_that_fail_without_any_bug_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    failing = {131: "two hold", 710: "a token falls", 712: "a release takes too long"}

    def simulation(command: str, _: float) -> tuple[int, str]:
        words = command.split()
        begin, seeds = int(words[2]), int(words[4])
        asked.append(begin)
        first = next((seed for seed in sorted(failing) if begin <= seed < begin + seeds), None)
        if first is None:
            return 0, f"{seeds} seeds, 7 grants, 0 violations\n"
        return (
            1,
            f"seed {first} fails:\n  {failing[first]}\n{first - begin + 1} seeds, 7 grants, 1 violations\n",
        )

    monkeypatch.setattr(planting, "execute", simulation)
    assert failing_seed(1000, {131, 710}) == (712, "a release takes too long")
    assert asked == [0, 132, 711]
    assert failing_seed(700, {131}) is None
    assert failing_seed(132, set()) == (131, "two hold")


def test_a_simulation_that_panics_notices_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planting, "execute", lambda *_: (101, "thread 'main' panicked at x.rs:1:2:\nno"))
    with pytest.raises(StaleError, match="does not end as it should"):
        failing_seed(10, set())
