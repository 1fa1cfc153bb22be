"""Mutants are planted so that a number selects one of them, and the listed survivors still exist."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from sample_mutants import REASONS, SURVIVORS, Survivor, drawn, keys  # noqa: E402
from schemata import SWITCH, Mutant, Source, UnsuitableError, blamed, lines_of, planted  # noqa: E402

PROGRAM = r"""
mod planted;

/// Brackets where they mean nothing: { ( [ '"'
pub const fn both(a: bool, b: bool) -> bool {
    a && b // }
}

fn odd<'a>(numbers: &'a [u32], _open: [char; { 1 + 1 }]) -> impl Iterator<Item = &'a u32> {
    let odd = |number: &&u32| *number % 2 == 1;
    numbers.iter().filter(odd)
}

fn brace(of: &str) -> char {
    fn first(of: &str) -> usize {
        of.len() - 1
    }
    match first(of) {
        0 => '{',
        _ if of == "\"}" => '}',
        _ => r#""}"#.chars().last().unwrap(),
    }
}

fn main() {
    let odd: Vec<_> = odd(&[1, 2, 3], ['{'; 2]).collect();
    println!("{} {odd:?} {}{}", both(true, false), brace("x"), brace("\"}"));
}
"""


def mutant(function: str, text: str, replacement: str, returns: str = "") -> Mutant:
    """Return a mutant that replaces this text within `function`."""

    def place(offset: int) -> dict[str, int]:
        before = PROGRAM[:offset].split("\n")
        return {"line": len(before), "column": len(before[-1]) + 1}

    begin = PROGRAM.index(function)
    indent = PROGRAM[PROGRAM.rindex("\n", 0, begin) + 1 : begin]
    end = PROGRAM.index(f"\n{indent}}}\n", begin) + len(indent) + 2
    start = PROGRAM.index(text, begin)
    function_entry = {"return_type": returns, "span": {"start": place(begin), "end": place(end)}}
    return Mutant.read(
        {
            "file": "main.rs",
            "name": f"main.rs:1:1: replace {text} with {replacement}",
            "function": function_entry,
            "span": {"start": place(start), "end": place(start + len(text))},
            "replacement": replacement,
        }
    )


AND = mutant("pub const fn both", "&&", "||", "-> bool")
MUTANTS = {
    0: AND,
    1: mutant("pub const fn both", "a && b", "true", "-> bool"),
    2: mutant("fn odd", "==", "!=", "-> impl Iterator<Item = &'a u32>"),
    3: mutant("    fn first".strip(), "- 1", "- 0", "-> usize"),
    4: mutant("fn brace", 'of == "\\"}"', "false", "-> char"),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    (folder / "main.rs").write_text(planted(PROGRAM, MUTANTS))
    (folder / "planted.rs").write_text(SWITCH.format(size=len(MUTANTS)))
    compile_it = ["rustc", "--edition", "2024", "main.rs"]
    compiled = subprocess.run(compile_it, cwd=folder, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    return folder / "main"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (None, "false [1, 3] {}"),
        (0, "true [1, 3] {}"),
        (1, "true [1, 3] {}"),
        (2, "false [2] {}"),
        (3, "false [1, 3] }}"),
        (4, "false [1, 3] {}"),
    ],
)
def test_a_number_chooses_the_mutant(program: Path, number: int | None, said: str) -> None:
    chosen = {} if number is None else {"ZKLOCK_MUTANT": str(number)}
    ran = subprocess.run([program], env=os.environ | chosen, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == said


def test_reachable_mutants_are_recorded_if_none_is_chosen(program: Path, tmp_path: Path) -> None:
    record = tmp_path / "reached"
    environment = os.environ | {"ZKLOCK_REACHED": str(record)}
    subprocess.run([program], env=environment, stdout=subprocess.DEVNULL, check=True)
    assert sorted(record.read_text().split()) == ["0", "1", "2", "3", "4"]


def test_compiler_errors_are_attributed_to_their_mutant(tmp_path: Path) -> None:
    wrong = mutant("fn brace", '"\\"}"', "7", "-> char")
    (tmp_path / "main.rs").write_text(planted(PROGRAM, MUTANTS | {5: wrong}))
    (tmp_path / "planted.rs").write_text(SWITCH.format(size=6))
    compile_it = ["rustc", "--edition", "2024", "--error-format=json", "main.rs"]
    compiled = subprocess.run(compile_it, cwd=tmp_path, capture_output=True, text=True, check=False)
    messages: list[dict[str, Any]] = [json.loads(line) for line in compiled.stderr.splitlines()]
    errors = [message for message in messages if message["level"] == "error" and message["spans"]]
    assert errors
    texts = {"main.rs": (tmp_path / "main.rs").read_text()}
    assert {number for error in errors for number in blamed(error, texts)} == {5}
    assert lines_of(texts["main.rs"]).keys() == {0, 1, 2, 3, 4, 5}


def test_mutants_outside_functions_are_refused() -> None:
    with pytest.raises(UnsuitableError):
        Mutant.read({"name": "main.rs:1:1: replace + with -", "function": None})


def test_a_sample_follows_from_its_seed_and_survives_other_lines() -> None:
    known = {one: Survivor("main.rs", one.what, f"line {number}", 1) for number, one in MUTANTS.items()}
    backwards = dict(reversed(known.items()))
    assert drawn(known, 1) == drawn(backwards, 1)
    assert len({tuple(drawn(known, seed)) for seed in range(10)}) > 1
    del known[AND]
    assert [one for one in drawn(backwards, 1) if one != AND] == drawn(known, 1)


def test_equal_mutants_on_one_line_are_distinguished() -> None:
    text = (ROOT / "core/src/session/term.rs").read_text()
    assert Source(text).line((1, 1)) == text.split("\n", 1)[0]
    here = ((1, 1), (2, 1))
    first, second = (
        Mutant("core/src/session/term.rs", "delete !", "", here, ((1, column), (1, column + 1)), "")
        for column in (1, 2)
    )
    known = keys([second, first])
    assert (known[first].nth, known[second].nth) == (1, 2)


def test_listed_survivors_still_exist() -> None:
    for entry in tomllib.loads(SURVIVORS.read_text()).get("survivor", []):
        lines = [line.strip() for line in (ROOT / entry["file"]).read_text().splitlines()]
        assert lines.count(entry["line"]) >= 1, entry["mutant"]
        assert entry["reason"] in REASONS, entry["mutant"]
        assert entry["because"], entry["mutant"]
