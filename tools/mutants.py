"""Plants the bugs of tests/mutants in a copy of the tree, one at a time. A test must notice each bug.

    python3 tools/mutants.py [--shard K/N] [--go-on] [--quick] [part of a name ...]

The copy and its builds remain in target/mutants. tests/mutants/README.md describes the bugs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "mutants"
HOME = ROOT / "target" / "mutants"
TREE = HOME / "tree"

PRODUCTS = [".venv", ".make/*", "tests/target/*", "bindings-python/python/zklock/*.so"]
PRODUCTS += [f"bindings-node/{name}" for name in ("node_modules", "addon", "dist")]
"""Files that are not under version control, and that the commands need."""

PARTS = "make worker embedded command python node"
"""Command that builds the parts that tests outside cargo need. It rebuilds only changed parts."""

SIMULATION = "cargo build --locked --quiet --release --manifest-path tests/simulation/Cargo.toml"
RUNS = re.compile(r"(?:(1000|[1-9]\d{0,2})(?: (once|together))?)?")
"""At most 1,000 seeds, and the kind of run."""

BUILD_LIMIT, TEST_LIMIT, SIMULATION_LIMIT = 1800.0, 120.0, 600.0
"""Timeouts in seconds."""
HANGS = 124

ENVIRONMENT = {
    "CARGO_TARGET_DIR": str(TREE / "target"),
    "CARGO_INCREMENTAL": "1",
    # The tests need no debug information, and builds without it are shorter.
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_PROFILE_RELEASE_DEBUG": "0",
    "RUST_BACKTRACE": "0",
    # If make runs this program, do not pass make's options on to the builds in the copy.
    "MAKEFLAGS": "",
}

PASSED = re.compile(r"\b[1-9]\d* passed\b|^\W+pass [1-9]", re.MULTILINE)
FAILED = re.compile(
    # Text that shows a failed test. It comes from cargo, from a test process that a signal has killed, from
    # pytest (a failed fixture counts as an error), or from node.
    r"^test result: FAILED|\(signal: \d|\b[1-9]\d* (?:failed|errors?)\b.* in |^\W+(?:fail|cancelled) [1-9]",
    re.MULTILINE,
)
ENDED = re.compile(r"^\d+ seeds, \d+ grants, \d+ violations$", re.MULTILINE)
VIOLATED = re.compile(r"^\w+ \d+ fails:$", re.MULTILINE)
REASON = re.compile(r"panicked at .*\n.+|^E +.+|\w*Error.*|^\w+ \d+ fails:\n.+", re.MULTILINE)


class StaleError(Exception):
    """A planted bug cannot be used.

    It cannot be applied or compiled, or its test fails even without the bug.
    """


@dataclass(frozen=True)
class Mutant:
    """A planted bug and the check that must find it: a command, a number of simulated seeds, or both."""

    name: str
    patch: str
    promise: str
    covers: tuple[str, ...]
    found_by: str
    build: str
    command: str
    seeds: int
    kind: str

    @staticmethod
    def read(path: Path) -> Mutant:
        head, mark, patch = path.read_text().partition("--- a/")
        headers = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
        promise, covers = headers.pop("promise", ""), headers.pop("covers", "")
        found_by, build, command = (headers.pop(name, "") for name in ("found by", "build", "command"))
        simulation = headers.pop("simulation", "")
        runs = RUNS.fullmatch(simulation)
        complete = mark and promise and (command or simulation) and bool(command) == bool(found_by)
        if headers or not complete or runs is None:
            raise StaleError(f"{path.name}: tests/mutants/README.md lists the headers of a bug")
        if command.startswith("cargo test "):
            build = command.split(" -- ")[0] + " --no-run"
        rows = tuple(row.strip() for row in covers.split(",") if row.strip())
        return Mutant(
            path.stem, mark + patch, promise, rows, found_by, build, command, int(runs[1] or 0), runs[2] or ""
        )

    @property
    def parts(self) -> bool:
        """Return whether its command uses built parts of the tree."""
        return bool(self.command) and not self.command.startswith("cargo ")


def patches(parts: list[str]) -> list[Path]:
    """Return the patches whose names contain one of these parts, or all."""
    paths = sorted(PATCHES.glob("*.patch"))
    return [path for path in paths if not parts or any(part in path.stem for part in parts)]


def run(command: str, limit: float) -> tuple[int, str]:
    """Run a command in the copy, and end all its processes afterwards. Return its status and output."""
    with subprocess.Popen(
        shlex.split(command),
        cwd=TREE,
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return HANGS, "Error: it hangs"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def make(build: str, name: str) -> None:
    """Run a build in the copy."""
    status, output = run(build, BUILD_LIMIT)
    if status != 0:
        raise StaleError(f"{name} does not compile: {build}\n{output}")


def git(tree: Path, *words: str, given: str | None = None) -> str:
    """Run git in a tree, and return its output."""
    return subprocess.check_output(["git", *words], cwd=tree, input=given, text=True)


def refresh() -> str:
    """Make the copy equal to the tree, and return a digest of it. The copy is a separate Git repository."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    names = sorted(name for name in listed if name and (ROOT / name).is_file())
    TREE.mkdir(parents=True, exist_ok=True)
    git(TREE, "init", "--quiet")
    digest = hashlib.sha256()
    for name in names:
        source, copy = ROOT / name, TREE / name
        content = source.read_bytes()
        if not name.startswith("tests/mutants/"):
            digest.update(name.encode() + hashlib.sha256(content).digest())
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Keep the modification time, so that make does not consider a copied product older than its
            # sources.
            shutil.copy2(source, copy)
        elif copy.read_bytes() != content:
            # The file gets a new modification time. With the source's time, which can be older than the last
            # build, cargo would not build it again.
            copy.write_bytes(content)
    gone = set(git(TREE, "ls-files", "-z").split("\0")) - {"", *names}
    for name in gone:
        (TREE / name).unlink(missing_ok=True)
    git(TREE, "update-index", "-z", "--add", "--remove", "--stdin", given="\0".join([*names, *gone]))
    for product in (path for pattern in PRODUCTS for path in ROOT.glob(pattern)):
        copy = TREE / product.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if copy.exists() or copy.is_symlink():
            continue
        if product.is_file():
            shutil.copy2(product, copy)
        elif product.parent.name in (".make", "target"):
            copy.symlink_to(product)
        else:
            part = copy.with_name(copy.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(product, part, symlinks=True).rename(copy)
    return digest.hexdigest()


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Run the block with a bug in the copy."""
    try:
        git(TREE, "apply", "-", given=mutant.patch)
    except subprocess.CalledProcessError:
        raise StaleError("the patch no longer applies") from None
    try:
        yield
    finally:
        git(TREE, "apply", "--reverse", "-", given=mutant.patch)


def by_command(command: str) -> tuple[bool, str]:
    """Return whether tests fail or hang, and the output.

    If the command runs no test, or fails although no test fails, raise an error.
    """
    status, output = run(command, TEST_LIMIT)
    if status != HANGS and not (FAILED if status else PASSED).search(output):
        raise StaleError(f"no test {'failed' if status else 'passed'}: {command}\n{output}")
    return status != 0, output


def by_simulation(seeds: int, kind: str) -> tuple[bool, str]:
    """Return whether one of the first simulated seeds shows a violation, and the output."""
    simulation = shlex.quote(str(TREE / "target/release/simulation"))
    _, output = run(f"{simulation} --from 0 --seeds {seeds} --first {kind and f'--{kind}'}", SIMULATION_LIMIT)
    if not ENDED.search(output):
        raise StaleError(f"the simulation does not end as it should\n{output}")
    return VIOLATED.search(output) is not None, output


def prepare(mutants: list[Mutant]) -> dict[str, str]:
    """Build and test everything without a bug.

    Return the commands that fail or run no test, with the reason.
    """
    builds = {one.build for one in mutants if one.build} | {PARTS for one in mutants if one.parts}
    for build in sorted(builds):
        make(build, "the tree")
    for seeds, kind in sorted({(one.seeds, one.kind) for one in mutants if one.seeds}):
        make(SIMULATION, "the tree")
        if (result := by_simulation(seeds, kind))[0]:
            raise StaleError(f"the simulation fails without a bug\n{result[1]}")
    wrong = {}
    for command in sorted({one.command for one in mutants if one.command}):
        try:
            # Run a failed command again, because it can fail once on a busy machine.
            if by_command(command)[0] and (result := by_command(command))[0]:
                raise StaleError(f"fails without a bug: {command}\n{result[1]}")
        except StaleError as stale:
            wrong[command] = str(stale)
    return wrong


def verdict(mutant: Mutant) -> tuple[str, str]:
    """Return the verdict about a bug as a word, with details."""
    began, results = time.monotonic(), []
    try:
        with planted(mutant):
            if mutant.build:
                make(mutant.build, "it")
            if mutant.command:
                results.append((*by_command(mutant.command), mutant.found_by))
            if mutant.seeds:
                make(SIMULATION, "it")
                results.append((*by_simulation(mutant.seeds, mutant.kind), f"{mutant.seeds} seeds"))
    except StaleError as stale:
        return "ERROR", str(stale)
    for noticed, output, by in results:
        if not noticed:
            return "NOT FOUND", f"by {by}: {mutant.promise}\n{output}"
    first = (" ".join("".join(REASON.findall(output)[:1]).split())[:160] for _, output, _ in results)
    reasons = (f"by {by}: {reason}" for (_, _, by), reason in zip(results, first, strict=True))
    return "found", f"in {time.monotonic() - began:.0f} s {'; '.join(reasons)}"


def verdicts(mutants: list[Mutant]) -> Iterator[tuple[Mutant, str, str]]:
    """Yield the verdict about each bug."""
    wrong = prepare(mutants)
    before = ""
    for mutant in mutants:
        if mutant.parts and mutant.build != before:
            # Undo what was built with the bugs before.
            make(PARTS, "the tree")
        before = mutant.build
        yield mutant, *(("ERROR", wrong[mutant.command]) if mutant.command in wrong else verdict(mutant))


def main(arguments: list[str]) -> int:
    """Plant the requested bugs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="part of a name")
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="2/3 is the second third")
    parser.add_argument("--go-on", action="store_true", help="without the bugs found before in this tree")
    parser.add_argument("--quick", action="store_true", help="without the simulation")
    wanted = parser.parse_args(arguments)
    number, _, of = wanted.shard.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        parser.error(f"--shard {wanted.shard}: must be K/N, such as 1/3")
    try:
        # Bugs with the same build are together, so a shard needs only some of the builds.
        mutants = sorted(map(Mutant.read, patches(wanted.names)), key=lambda one: (one.build, one.name))
        first, end = (-(-len(mutants) * each // int(of)) for each in (int(number) - 1, int(number)))
        mutants = mutants[first:end]
        if wanted.quick:
            mutants = [replace(one, seeds=0) for one in mutants if one.command]
        tree, record = refresh(), HOME / "found"
        digests = {one: hashlib.sha256(f"{tree} {one}".encode()).hexdigest() for one in mutants}
        before = set(record.read_text().split() if wanted.go_on and record.exists() else [])
        rest = [one for one in mutants if digests[one] not in before]
        found = len(mutants) - len(rest)
        for mutant, word, text in verdicts(rest):
            print(f"{word:9} {mutant.name} {text}", flush=True)
            if word == "found":
                found += 1
                with record.open("a") as file:
                    file.write(f"{digests[mutant]}\n")
    except StaleError as stale:
        print(stale, file=sys.stderr)
        return 1
    print(f"{found} of {len(mutants)} found")
    return 0 if mutants and found == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
