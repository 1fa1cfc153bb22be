"""Plants the bugs of tests/mutants, one by one, in a copy of the tree, and looks whether their tests notice.

    python3 tools/mutants.py [part of a name ...]

Ends with `k of n found`, and fails unless all are. What a patch is: tests/mutants/README.md.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from suites import KILLED, ROOT, run

PATCHES = ROOT / "tests" / "mutants"
HOME = ROOT / "target" / "mutants"
TREE = HOME / "tree"
"""Where the copy is: always the same place, so that only what changes is compiled again."""

BUILD_LIMIT = 30 * 60.0
TEST_LIMIT = 120.0
"""Seconds for a build, and for the tests of one bug: a test that hangs has noticed it too."""

LENT = [".venv", ".make", "bindings-node/node_modules", "tests/target"]
"""What is not under version control, but used as it is."""

HEADERS = {"promise", "found by", "build", "command"}


class StaleError(Exception):
    """A patch says nothing any more."""


@dataclass(frozen=True)
class Mutant:
    """A bug, and what is to notice it."""

    name: str
    patch: str
    promise: str
    found_by: str
    build: str | None
    command: str

    @staticmethod
    def read(path: Path) -> Mutant:
        text = path.read_text()
        head, mark, patch = text.partition("--- a/")
        lines = [line.split(": ", 1) for line in head.splitlines() if line]
        headers = {line[0]: line[-1] for line in lines}
        if not mark or not {"promise", "found by", "command"} <= headers.keys() <= HEADERS:
            raise StaleError(f"{path.name}: the headers are {', '.join(sorted(HEADERS))}, and a diff follows")
        return Mutant(
            path.stem,
            mark + patch,
            headers["promise"],
            headers["found by"],
            headers.get("build") or built_first(headers["command"]),
            headers["command"],
        )

    @property
    def files(self) -> list[str]:
        """The files that it changes."""
        return re.findall(r"^--- a/(\S+)", self.patch, re.MULTILINE)


def built_first(command: str) -> str | None:
    """What compiles the tests of a command: a bug that does not compile proves nothing."""
    if not command.startswith("cargo test "):
        return None
    return command.split(" -- ")[0] + " --no-run"


def tracked() -> Iterator[str]:
    """The files of the tree, without those that are ignored."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return (name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def put_back(name: str) -> None:
    """Copies a file, with a new date: cargo compares dates only, and would use what it built before."""
    (TREE / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / name, TREE / name)
    shutil.copymode(ROOT / name, TREE / name)


def copy_tree() -> None:
    """Makes the copy equal to the tree."""
    names = set(tracked())
    built = {str(path.relative_to(ROOT)) for path in ROOT.glob("bindings-*/**/*.so")}
    built |= {str(path.relative_to(ROOT)) for path in ROOT.glob("bindings-node/native/*")}
    built = {name for name in built if "node_modules" not in name}
    for name in sorted(names | built):
        copy = TREE / name
        if not copy.is_file() or copy.read_bytes() != (ROOT / name).read_bytes():
            put_back(name)
    for kind in ["rs", "py", "ts", "mjs", "toml"]:
        for path in TREE.glob(f"*/**/*.{kind}"):
            name = str(path.relative_to(TREE))
            if name not in names | built and not any(name.startswith(f"{lent}/") for lent in LENT):
                path.unlink()
    for lent in LENT:
        link = TREE / lent
        link.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / lent).exists() and not link.is_symlink():
            link.symlink_to(ROOT / lent)


def execute(command: str, limit: float) -> tuple[int, str]:
    """Runs a command in the copy."""
    environment = {"CARGO_TARGET_DIR": str(HOME / "build"), "RUST_BACKTRACE": "0"}
    return run(shlex.split(command), cwd=TREE, limit=limit, quiet=True, env=environment)


def ran(output: str) -> int:
    """How many tests passed, in the words of cargo, pytest and node."""
    counts = re.findall(r"(?<!\w)(\d+) passed|^\W+pass (\d+)$", output, re.MULTILINE)
    return sum(int(one or other) for one, other in counts)


def reason(output: str) -> str:
    """The first words of a test that failed."""
    for pattern in (r"panicked at .*\n(.+)", r"^E +(.+)", r"(AssertionError.*)", r"(\w*Error.*)"):
        if said := re.search(pattern, output, re.MULTILINE):
            return said[1].strip()[:160]
    return "no word"


def check(command: str, build: str | None) -> None:
    """Whether the tests pass where there is no bug."""
    if build is not None:
        status, output = execute(build, BUILD_LIMIT)
        if status != 0:
            raise StaleError(f"{build}: fails without any bug\n{output}")
    status, output = execute(command, TEST_LIMIT)
    if status != 0 or ran(output) == 0:
        raise StaleError(f"{command}: fails, or tests nothing, without any bug\n{output}")


def plant(mutant: Mutant) -> tuple[bool, str]:
    """Whether the tests notice a bug; and what they said."""
    # Outside any repository, or git would take the paths for those of the tree that is around the copy.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(HOME)}
    try:
        apply = ["git", "apply", "-"]
        applied = subprocess.run(
            apply, cwd=TREE, input=mutant.patch, text=True, capture_output=True, env=environment, check=False
        )
        if applied.returncode != 0:
            raise StaleError(f"{mutant.name}: the patch no longer applies\n{applied.stderr}")
        if mutant.build is not None:
            status, output = execute(mutant.build, BUILD_LIMIT)
            if status != 0:
                raise StaleError(f"{mutant.name}: does not compile\n{output}")
        status, output = execute(mutant.command, TEST_LIMIT)
        return status != 0, "Error: it hangs" if status == KILLED else output
    finally:
        for name in mutant.files:
            put_back(name)


def sound(mutants: list[Mutant]) -> dict[str, str]:
    """What is wrong with commands that fail without any bug: together, as that is compiled once."""
    wrong: dict[str, str] = {}
    for command, build in sorted({mutant.command: mutant.build for mutant in mutants}.items()):
        try:
            check(command, build)
        except StaleError as stale:
            wrong[command] = str(stale)
    return wrong


def verdict(mutant: Mutant) -> tuple[str, str]:
    """What became of a bug, in a word and in more."""
    try:
        noticed, output = plant(mutant)
    except StaleError as stale:
        return "ERROR", str(stale)
    if noticed:
        return "found", reason(output)
    return "NOT FOUND", f"{mutant.promise}\n{output}\nexpected of {mutant.found_by}"


def main(wanted: list[str]) -> int:
    """Plants the bugs whose names have one of these parts, or all."""
    paths = sorted(PATCHES.glob("*.patch"))
    paths = [path for path in paths if not wanted or any(part in path.name for part in wanted)]
    try:
        mutants = [Mutant.read(path) for path in paths]
    except StaleError as stale:
        print(stale, file=sys.stderr)
        return 1
    copy_tree()
    wrong = sound(mutants)
    found = 0
    for mutant in mutants:
        began = time.monotonic()
        problem = wrong.get(mutant.command)
        word, more = ("ERROR", problem) if problem is not None else verdict(mutant)
        found += word == "found"
        print(f"{word:9} {mutant.name} ({time.monotonic() - began:.0f} s): {more}", flush=True)
    print(f"{found} of {len(mutants)} found")
    return 0 if found == len(mutants) and mutants else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
