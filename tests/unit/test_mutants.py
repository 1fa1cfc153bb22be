"""The planted bugs can be applied to the code. `make mutants` checks that tests find them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import mutants  # noqa: E402
from covered import TABLE, covered, rows, table  # noqa: E402
from mutants import FAILED, PASSED, PATCHES, Mutant, StaleError, main  # noqa: E402

ALL = sorted(PATCHES.glob("*.patch"))

# Directories with the tests that the commands name.
TESTED = (
    *("core/src", "core/tests", "core/transport/src", "core/jute", "cli/src", "embedded/src"),
    *("embedded/tests", "bindings-python/tests", "tests/fuzz/src", "tests/fuzz/tests", "tests/threads/src"),
    *("tests/simulation/src", "tests/simulation/tests", "tests/scenarios", "tests/cli", "tests/unit"),
    "tests/harness",
)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_patch_applies_and_says_what_notices_it(path: Path) -> None:
    mutant = Mutant.read(path)
    assert mutant.promise != mutant.found_by
    check = ["git", "apply", "--check", "-"]
    applied = subprocess.run(check, cwd=ROOT, input=mutant.patch, text=True, capture_output=True, check=False)
    assert applied.returncode == 0, f"{applied.stderr}: make the patch anew"


def test_the_command_of_a_patch_names_tests_that_exist() -> None:
    """A renamed test leaves a command that runs no test. Commands name tests by parts of their names."""
    code = {
        file: file.read_text()
        for root in TESTED
        for file in (ROOT / root).rglob("*")
        if file.suffix in (".rs", ".py")
    }

    def exists(name: str) -> bool:
        """Return whether a test has this name, in a module of the name if it has modules."""
        *modules, part = name.split("::")
        within = [text for file, text in code.items() if {file.stem, *file.parent.parts} & set(modules)]
        return any(part in text for text in within or code.values())

    stale = []
    for path in ALL:
        command = Mutant.read(path).command
        rust = " ".join(command.split(" -- ")[1:]) if command.startswith("cargo test ") else ""
        names = {name for name in rust.split() if not name.startswith("--")}
        chosen = re.findall(r"(?<= -k )(?:\"[^\"]+\"|'[^']+'|[^\s\"']+)", command)
        names |= {word for one in chosen for word in re.findall(r"\w+", one)} - {"and", "or", "not"}
        stale += [f"{path.stem}: {name}" for name in names if not exists(name)]
    assert stale == []


def test_there_are_forty_of_them_for_core_and_both_bindings() -> None:
    files = [file for path in ALL for file in re.findall(r"^--- a/(\S+)", path.read_text(), re.MULTILINE)]
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


@pytest.mark.parametrize("seeds", ["0", "1001", "all", "40 twice"])
def test_a_simulation_has_at_most_a_thousand_seeds(tmp_path: Path, seeds: str) -> None:
    patch = tmp_path / "a-promise.patch"
    patch.write_text(f"promise: something\nsimulation: {seeds}\n\n--- a/x\n+++ b/x\n")
    with pytest.raises(StaleError, match=r"a-promise\.patch"):
        Mutant.read(patch)
    patch.write_text("promise: something\nsimulation: 40 once\n\n--- a/x\n+++ b/x\n")
    assert (Mutant.read(patch).seeds, Mutant.read(patch).kind) == (40, "once")
    assert not Mutant.read(patch).command


def test_what_the_runners_say_is_understood() -> None:
    for passed in (
        "test result: ok. 3 passed; 0 failed",
        "..\n12 passed in 3.21s\n",
        "# tests 2\n# pass 2\n",
    ):
        assert PASSED.search(passed)
    assert not PASSED.search("test result: ok. 0 passed; 0 failed; 7 filtered out")
    assert not PASSED.search("# pass 0\n# fail 0\n")


def test_what_fails_without_a_test_that_failed_notices_nothing() -> None:
    assert FAILED.search("test result: FAILED. 0 passed; 1 failed; 0 ignored")
    assert FAILED.search("error: test failed\n(signal: 6, SIGABRT: process abort signal)")
    assert FAILED.search("1 failed, 3 passed in 2.10s")
    assert FAILED.search("2 passed, 1 error in 2.10s")
    assert FAILED.search("# pass 1\n# fail 2\n")
    assert FAILED.search("# pass 7\n# fail 0\n# cancelled 1\n")
    assert not FAILED.search("test result: ok. 3 passed; 0 failed; 0 ignored; finished in 1.20s")
    assert not FAILED.search("# pass 7\n# fail 0\n# cancelled 0\n")
    assert not FAILED.search("ERROR: python is out of date: core/src/lease/mod.rs changed; run `make python`")


# A tree with a program that is its own test and its own simulation.
PROGRAM = """import sys
VALUE = 2
OTHER = 2

print(f"{VALUE} seeds, 1 grants, 0 violations" if "--seeds" in sys.argv and VALUE < 4 else "")
if "--seeds" not in sys.argv:
    print("1 passed in 0.1s" if VALUE == 2 else "E  not 2\\n1 failed in 0.1s")
elif VALUE == 3:
    print("seed 0 fails:\\n    not 2")
sys.exit(VALUE != 2)
"""
COMMAND = f"found by: it\ncommand: {sys.executable} program.py"


def bug(*headers: str, old: str = "VALUE = 2", new: str) -> str:
    lines = "".join(
        f"-{line}\n+{new}\n" if line == old else f" {line}\n" for line in PROGRAM.splitlines()[:4]
    )
    if old not in PROGRAM:
        lines = f"-{old}\n+{new}\n"
    end = lines.count("\n") - 1
    text = f"@@ -1,{end} +1,{end} @@\n{lines}"
    return "\n".join(["promise: it is 2", *headers, "", "--- a/program.py", "+++ b/program.py", text])


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / ".gitignore").write_text("/target/\n")
    (tmp_path / "tests" / "mutants").mkdir(parents=True)
    home = tmp_path / "target" / "mutants"
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "PATCHES", tmp_path / "tests" / "mutants")
    monkeypatch.setattr(mutants, "HOME", home)
    monkeypatch.setattr(mutants, "TREE", home / "tree")
    monkeypatch.setattr(mutants, "PARTS", "true")
    monkeypatch.setattr(mutants, "SIMULATION", "true")
    simulation = home / "tree" / "target" / "release" / "simulation"
    simulation.parent.mkdir(parents=True)
    simulation.write_text(f'#!/bin/sh\nexec {sys.executable} program.py "$@"\n')
    simulation.chmod(0o755)
    yield tmp_path
    assert (home / "tree" / "program.py").read_text() == (tmp_path / "program.py").read_text()


@pytest.mark.parametrize(
    ("patch", "word"),
    [
        (bug(COMMAND, new="VALUE = 3"), "found     it by it: E not 2"),
        (bug("simulation: 2", new="VALUE = 3"), "found     it by 2 seeds: seed 0 fails: not 2"),
        (bug(COMMAND, "simulation: 2", new="VALUE = 3"), "found"),
        (bug("simulation: 2", new="VALUE = 5"), "ERROR     it the simulation does not end as it should"),
        (bug(COMMAND, new="VALUE = 1 + 1"), "NOT FOUND it by it: it is 2"),
        (bug(COMMAND, "simulation: 2", new="VALUE = 1 + 1"), "NOT FOUND"),
        (bug("simulation: 2", new="VALUE = 1 + 1"), "NOT FOUND it by 2 seeds: it is 2"),
        (bug(COMMAND, new="VALUE ="), "ERROR     it no test failed"),
        (bug(COMMAND, old="VALUE = 7", new="VALUE = 3"), "ERROR     it the patch no longer applies"),
        (bug(COMMAND, "build: false", new="VALUE = 3"), "the tree does not compile: false"),
        (
            bug(COMMAND, f"build: {sys.executable} -c 'import program' --seeds", new="VALUE = 3"),
            "ERROR     it it does not compile",
        ),
        (bug(COMMAND + " --seeds", new="VALUE = 3"), "ERROR     it no test passed"),
        (
            bug("found by: it\ncommand: sleep 99", new="VALUE = 3"),
            "ERROR     it fails without a bug: sleep 99",
        ),
    ],
)
def test_a_bug_is_found_only_by_a_test_that_fails(
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    patch: str,
    word: str,
) -> None:
    if "sleep" in patch:
        monkeypatch.setattr(mutants, "TEST_LIMIT", 0.2)
    (tree / "tests" / "mutants" / "it.patch").write_text(patch)
    found = word.startswith("found")
    assert main([]) == (0 if found else 1)
    captured = capsys.readouterr()
    assert re.sub(r" in \d+ s", "", captured.out + captured.err).startswith(word)
    assert captured.out.endswith(f"{int(found)} of 1 found\n") or not captured.out


def test_a_bug_that_makes_tests_hang_is_found(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutants, "TEST_LIMIT", 8.0)
    (tree / "tests" / "mutants" / "it.patch").write_text(
        bug(COMMAND, new="VALUE = __import__('time').sleep(99)")
    )
    assert main([]) == 0
    assert "it hangs" in capsys.readouterr().out


def test_what_was_found_in_this_tree_is_not_tried_again(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "tests" / "mutants" / "it.patch").write_text(bug(COMMAND, new="VALUE = 3"))
    assert main([]) == 0
    assert main(["--go-on"]) == 0
    assert capsys.readouterr().out.count("by it") == 1
    (tree / "program.py").write_text(PROGRAM + "\n")
    (tree / "new.py").write_text("")
    assert main(["--go-on"]) == 0
    assert capsys.readouterr().out.count("by it") == 1
    assert (tree / "target" / "mutants" / "tree" / "new.py").exists()
    (tree / "new.py").unlink()
    assert main(["--shard", "1/2"]) == 0
    assert main(["--shard", "2/2"]) == 1, "an empty shard finds nothing"
    assert not (tree / "target" / "mutants" / "tree" / "new.py").exists()
