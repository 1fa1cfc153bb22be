"""A copy of the tree in which bugs are planted, and the commands that run in it.

The copy is always in the same place and keeps its builds, so that only changes are compiled again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Set
from contextvars import ContextVar

from mutant import Mutant, StaleError
from suites import KILLED, ROOT, run

HOME = ROOT / "target" / "mutants"
TREE = HOME / "tree"
BUILD = HOME / "build"

BUILD_LIMIT = 30 * 60.0
TEST_LIMIT = 120.0
"""Timeouts in seconds for a build and for the tests of one bug. A test that hangs has noticed the bug too."""

SIMULATION_LIMIT = 600.0

LENT = [".venv", "bindings-node/node_modules"]
"""Directories that are not under version control, and are used as they are."""

PRODUCTS = ["tests/target", ".make"]
"""Directories of build products. A build in the copy must not replace the products in the tree."""

BUILT = [
    "bindings-python/python/zklock/*.so",
    "bindings-node/addon/*",
    "bindings-node/dist/**/*",
    ".make/*.json",
]

SIMULATION = "cargo build --locked --quiet --release --manifest-path tests/simulation/Cargo.toml"

ENVIRONMENT = {
    "CARGO_TARGET_DIR": str(BUILD),
    "RUST_BACKTRACE": "0",
    # Debug information would take most of the disk space.
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_PROFILE_RELEASE_DEBUG": "0",
    "CARGO_INCREMENTAL": "1",
}

CHOSEN: ContextVar[int | None] = ContextVar("chosen", default=None)
"""The bug that is enabled for this thread's commands, if several are compiled together."""


def tracked() -> Iterator[str]:
    """Yield the files of the tree, without ignored ones."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return (name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def built() -> set[str]:
    """Return the build products of the bindings, and their records."""
    found = {path for pattern in BUILT for path in ROOT.glob(pattern) if path.is_file()}
    return {str(path.relative_to(ROOT)) for path in found}


def fingerprint() -> str:
    """Return a hash of the whole tree. With the same hash, the verdict about a bug is the same."""
    every = hashlib.sha256()
    for name in sorted(tracked()):
        if not name.startswith("tests/mutants/"):
            every.update(name.encode() + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return every.hexdigest()


def put_back(name: str) -> None:
    """Copy a file with a new date. Cargo compares only dates, and would otherwise use its earlier build."""
    (TREE / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / name, TREE / name)
    shutil.copymode(ROOT / name, TREE / name)


def equal(name: str) -> bool:
    """Return whether the copy's file equals the tree's."""
    return (TREE / name).is_file() and (TREE / name).read_bytes() == (ROOT / name).read_bytes()


def lend(name: str) -> None:
    """Link a file or directory of the tree into the copy."""
    link = TREE / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / name).exists() and (not link.is_symlink() or link.readlink() != ROOT / name):
        if link.is_symlink() or link.is_file():
            link.unlink()
        link.symlink_to(ROOT / name)


def put_products_back() -> None:
    """Replace the products of a build with a bug by the products of the tree."""
    for directory in PRODUCTS:
        copy = TREE / directory
        if copy.is_symlink():
            copy.unlink()
        for path in sorted((ROOT / directory).glob("*")):
            if path.suffix != ".json":
                lend(str(path.relative_to(ROOT)))
    for name in sorted(built()):
        if not equal(name):
            put_back(name)


def copy_tree(but: Set[str] = frozenset()) -> None:
    """Make the copy equal to the tree, except for the files in `but`, which stay as they are."""
    names = set(tracked()) | but
    for name in sorted(names - but):
        if not equal(name):
            put_back(name)
    kept = names | built()
    for kind in ["rs", "py", "ts", "mjs", "toml"]:
        for path in TREE.glob(f"*/**/*.{kind}"):
            name = str(path.relative_to(TREE))
            if name not in kept and not any(name.startswith(f"{lent}/") for lent in LENT + PRODUCTS):
                path.unlink()
    for name in LENT:
        lend(name)
    put_products_back()


def execute(command: str, limit: float) -> tuple[int, str]:
    """Run a command in the copy."""
    number = CHOSEN.get()
    environment = ENVIRONMENT if number is None else {**ENVIRONMENT, "ZKLOCK_MUTANT": str(number)}
    return run(shlex.split(command), cwd=TREE, limit=limit, quiet=True, env=environment)


def count(word: str, output: str) -> int:
    """Return the number of tests that passed or failed, from the output of cargo, pytest or node."""
    pattern = rf"(?<!\w)(\d+) {word}ed|^\W+{word} (\d+)$"
    counts = re.findall(pattern, output, re.MULTILINE)
    return sum(int(one or other) for one, other in counts)


def ran(output: str) -> int:
    """Return the number of tests that passed."""
    return count("pass", output)


def has_failed(status: int, output: str) -> bool:
    """Return whether a test failed. A command can also fail for other reasons."""
    if status in (0, KILLED):
        return status == KILLED
    # pytest reports an error if a fixture fails, Node cancels a test that takes too long, and cargo reports
    # the signal that has killed a test process.
    other = r"(?<!\w)\d+ errors?\b.* in |^\W+cancelled [1-9]|\(signal: \d"
    return count("fail", output) > 0 or re.search(other, output, re.MULTILINE) is not None


def reason(output: str) -> str:
    """Return the first line of a failed test's message."""
    for pattern in (r"panicked at .*\n(.+)", r"^E +(.+)", r"(AssertionError.*)", r"(\w*Error.*)"):
        if said := re.search(pattern, output, re.MULTILINE):
            return said[1].strip()[:160]
    return "no word"


def make(build: str | None, name: str) -> None:
    """Run a build in the copy."""
    if build is not None:
        status, output = execute(build, BUILD_LIMIT)
        if status != 0:
            raise StaleError(f"{name}: does not compile\n{output}")


def pass_at_once(commands: list[str]) -> bool:
    """Return whether tests of one cargo program pass with one command and no bug. Return False if that is
    uncertain.
    """
    heads = {command.partition(" -- ")[0] for command in commands}
    filters = [command.partition(" -- ")[2] for command in commands]
    if len(heads) != 1 or not commands[0].startswith("cargo test ") or any(" " in one for one in filters):
        return False
    status, output = execute(f"{heads.pop()} -- {' '.join(filters)}", 3 * TEST_LIMIT)
    passed = re.findall(r"^test (\S+) .*\.\.\. ok$", output, re.MULTILINE)
    return status == 0 and all(any(one in name for name in passed) for one in filters)


def check(command: str) -> None:
    """Check that tests pass without a bug, at the second attempt at the latest, because the machine might be
    busy.
    """
    for last in (False, True):
        status, output = execute(command, TEST_LIMIT)
        if status == 0 and ran(output) > 0:
            return
        if last:
            raise StaleError(f"{command}: fails, or tests nothing, without any bug\n{output}")


def failing_seed(most: int, known: set[int], kind: str = "seed") -> tuple[int, str] | None:
    """Return the first of `most` seeds that fails and is not known, with its violation, or None."""
    begin = 0
    while begin < most:
        words = [BUILD / "release" / "simulation", "--from", begin, "--seeds", most - begin, "--first"]
        words += [] if kind == "seed" else [f"--{kind}"]
        status, output = execute(shlex.join(map(str, words)), SIMULATION_LIMIT)
        if re.search(r"^\d+ seeds, \d+ grants, \d+ violations$", output, re.MULTILINE) is None:
            raise StaleError(f"the simulation does not end as it should (status {status})\n{output[-2000:]}")
        failed = [int(seed) for seed in re.findall(rf"^{kind} (\d+) fails:$", output, re.MULTILINE)]
        if not failed:
            return None
        if new := sorted(set(failed) - known):
            said = re.search(rf"^{kind} {new[0]} fails:\n +(.+)", output, re.MULTILINE)
            return new[0], said[1][:160] if said else "no word"
        begin = max(failed) + 1
    return None


def failing_without_bugs(most: int, kind: str = "seed") -> set[int]:
    """Return the seeds that fail even without a bug, so that they prove nothing."""
    make(SIMULATION, "without any bug")
    known: set[int] = set()
    while (found := failing_seed(most, known, kind)) is not None:
        known.add(found[0])
    return known


def apply(mutant: Mutant) -> None:
    """Plant a bug in the copy."""
    # Outside any repository. Otherwise, git would apply the paths to the tree around the copy.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(HOME)}
    command = ["git", "apply", "-"]
    applied = subprocess.run(
        command, cwd=TREE, input=mutant.patch, text=True, capture_output=True, env=environment, check=False
    )
    if applied.returncode != 0:
        raise StaleError(f"{mutant.name}: the patch no longer applies\n{applied.stderr}")


def remove(mutant: Mutant) -> None:
    """Remove a bug from the copy, together with what was built with it."""
    for name in mutant.files:
        if (ROOT / name).exists():
            put_back(name)
    if mutant.build is not None and not mutant.build.startswith("cargo test "):
        put_products_back()


def notices(mutant: Mutant) -> tuple[bool, str]:
    """Return whether the command of a planted and built bug notices it, with its output."""
    assert mutant.command is not None
    status, output = execute(mutant.command, TEST_LIMIT)
    if status == KILLED:
        return True, "Error: it hangs"
    if status != 0 and not has_failed(status, output):
        raise StaleError(f"{mutant.name}: no test failed, but the command did\n{output}")
    return status != 0, output
