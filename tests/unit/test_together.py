"""Bugs within one Rust function are built together, and a number selects one. Other bugs are built alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import planting  # noqa: E402
import together  # noqa: E402
from mutant import PATCHES, Mutant  # noqa: E402
from schemata import SWITCH, planted  # noqa: E402
from together import builds, functions, sources, switched, texts  # noqa: E402

PROGRAM = r"""mod planted;

const BASE: u32 = 10;

trait Doubled {
    fn doubled(&self) -> u32;
    fn name(&self) -> &'static str {
        "fn none() { }"
    }
}

impl Doubled for u32 {
    fn doubled(&self) -> u32 {
        self * 2
    }
}

pub(crate) const fn next(of: u32, _by: fn(u32) -> u32) -> u32 {
    // fn not_this() {
    of + 1
}

fn even<'a>(numbers: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    fn is(number: u32) -> bool {
        number % 2 == 0
    }
    numbers.iter().copied().filter(|number| is(*number))
}

fn main() {
    let even: Vec<_> = even(&[1, 2, 3]).collect();
    println!("{} {} {even:?} {}", next(BASE, |of| of), 4.doubled(), 4.name());
}
"""


def test_functions_are_found_between_all_that_looks_like_one() -> None:
    names = [PROGRAM[begin:body].split("(")[0] for begin, body, _ in functions(PROGRAM)]
    assert names == ["fn name", "fn doubled", "fn next", "fn even<'a>", "fn is", "fn main"]
    for _, body, close in functions(PROGRAM):
        assert PROGRAM[body - 1] == "{"
        assert PROGRAM[close] == "}"


@pytest.mark.parametrize(
    "changed",
    [
        PROGRAM.replace("= 10", "= 11"),
        PROGRAM.replace("self * 2", "self * 3").replace("of + 1", "of + 2"),
        PROGRAM.replace("fn next(of: u32", "fn next(of: u64"),
    ],
    ids=["a constant", "two functions", "a signature"],
)
def test_what_is_more_than_one_body_is_planted_by_itself(changed: str) -> None:
    assert changed != PROGRAM
    assert switched("main.rs", "a bug", PROGRAM, changed) is None


def test_a_number_chooses_the_bug(tmp_path: Path) -> None:
    changes = [
        ("self * 2", "self * 3"),
        ("    of + 1\n", ""),
        ("% 2 == 0", "% 2 == 1"),
        ('"fn none', '"none'),
    ]
    changes[1] = ("    of + 1\n", "    let _ = of;\n    7\n")
    found = [switched("main.rs", one, PROGRAM, PROGRAM.replace(one, other)) for one, other in changes]
    chosen = {number: one for number, one in enumerate(found) if one is not None}
    assert len(chosen) == len(changes)
    (tmp_path / "main.rs").write_text(planted(PROGRAM, chosen))
    (tmp_path / "planted.rs").write_text(SWITCH.format(size=len(chosen)))
    build = ["rustc", "--edition=2024", "-Anon_snake_case", "-Adead_code", "-o", "program", "main.rs"]
    subprocess.run(build, cwd=tmp_path, check=True)

    def said(number: str) -> str:
        run = subprocess.run(
            [tmp_path / "program"], env={"ZKLOCK_MUTANT": number}, capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    assert said("") == "11 8 [2] fn none() { }"
    assert said("0") == "11 12 [2] fn none() { }"
    assert said("1") == "7 8 [2] fn none() { }"
    assert said("2") == "11 8 [1, 3] fn none() { }"
    assert said("3") == "11 8 [2] none() { }"


def test_all_bugs_of_rust_but_those_of_a_constant_are_planted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planting, "TREE", tmp_path)
    monkeypatch.setattr(planting, "HOME", tmp_path)
    monkeypatch.setattr(together, "TREE", tmp_path)
    mutants = [Mutant.read(path) for path in sorted(PATCHES.glob("*.patch"))]
    mutants = [one for one in mutants if all(file.endswith(".rs") for file in one.files)]
    chosen = {}
    for number, mutant in enumerate(mutants):
        for file in mutant.files:
            planting.put_back(file)
        if (one := together.read(mutant)) is not None:
            chosen[number] = one
    by_themselves = {one.name for number, one in enumerate(mutants) if number not in chosen}
    assert by_themselves == {"the-term-counts-suspension", "the-term-does-not-follow-the-wall-clock"}
    written = texts(chosen)
    assert all(f"planted::is({number})" in written[one.file] for number, one in chosen.items())
    for home in {sources(one.file) for one in chosen.values()}:
        assert written[str(home / "lib.rs")].endswith("pub mod planted;\n")
        assert "[lints]" not in written[str(home.parent / "Cargo.toml")]


def test_each_build_is_made_once() -> None:
    mutants = [Mutant.read(path) for path in sorted(PATCHES.glob("*.patch"))]
    needed = builds(mutants)
    assert len(set(needed)) == len(needed)
    assert needed[-1] == planting.SIMULATION
    assert all(one.build in needed for one in mutants if one.build is not None)
