"""Draws a random sample of mutants of the code around the queue and checks that its tests notice them.

    python3 tools/sample_mutants.py [--seed S] [--number N] [--jobs J] [--again] [part of a mutant ...]

With parts, only mutants of the sample whose name contains one of them run. With --again, only those that
survived the last run. The mutants in tests/mutants/survivors.toml may survive. The last line is `k of n
killed`. The program fails if fewer than nine tenths are killed, if an unlisted mutant survives, or if an
entry of that list is stale. See tests/mutants/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from planting import BUILD_LIMIT, tracked
from schemata import SWITCH, Mutant, Source, UnsuitableError, blamed, planted
from suites import KILLED, ROOT, run

HOME = ROOT / "target" / "sampled-mutants"
TREE = HOME / "tree"

CARGO_MUTANTS = "27.1.0"
INSTALLED = ROOT / "target" / "cargo-mutants"

SUBJECT = [
    "driver/**",
    "lease/mod.rs",
    "lock/mod.rs",
    "lock/multi.rs",
    "lock/semaphore/**",
    "session/mod.rs",
    "session/term.rs",
]
"""The mutated files, below core/src."""

TESTS_ONLY = "core/src/driver/event_loop/bounds/**"
"""Files for tests only, under a condition that cargo-mutants does not recognize."""

SURVIVORS = ROOT / "tests" / "mutants" / "survivors.toml"
REASONS = {"equivalent", "speed", "words", "open"}

SUITES = ["clocks", "replies", "served"]
"""Test programs of core/tests that run in addition to the unit tests. The others test only the queue, or
processes.
"""

MESSAGES = "--message-format=json"

SIMULATION = "tests/simulation/Cargo.toml"
SEEDS = ["--from", "200", "--seeds", "200"]
"""No seed in this range is listed as failing in tests/simulation/README.md."""

SLOW = ["--skip", "costs::"]
"""Unit tests that count instructions take longer than all the others."""

OPTIONS = {"unit": SLOW, "simulation": SEEDS}

SPARE = 1.4
"""Factor of mutants in the tree compared with the wanted number, because some do not compile."""

ENOUGH = 0.9

FAILED = re.compile(r"^test (\S+) (?:- should panic )?\.\.\. FAILED|^(seed \d+) fails", re.MULTILINE)


class BrokenError(Exception):
    """No statement about any mutant is possible."""


@dataclass(frozen=True)
class Survivor:
    """A mutant that may survive. Its key does not change when lines move."""

    file: str
    mutant: str
    line: str
    """Text of the line where it begins."""
    nth: int
    """Its number among equal mutants in equal lines."""

    def __str__(self) -> str:
        which = f", number {self.nth}" if self.nth > 1 else ""
        return f"{self.file}: {self.mutant}{which}, in: {self.line}"


@dataclass
class Killer:
    """A test program."""

    name: str
    command: list[str]
    seconds: float = 0.0
    reached: set[int] = field(default_factory=set)
    """The mutants that some of its tests reach."""

    @property
    def limit(self) -> float:
        """Timeout in seconds."""
        return 30 + 4 * self.seconds

    def run(self, *, mutant: int | None = None, test: str | None = None) -> tuple[int, str]:
        """Run the program. Return its status, and the first failed test or its last line of output. The
        program is killed after the first failed test.
        """
        environment = {**os.environ, "RUST_BACKTRACE": "0", "ZKLOCK_REACHED": str(self.record)}
        if mutant is not None:
            environment["ZKLOCK_MUTANT"] = str(mutant)
        command = [*self.command, "--exact", test] if test else self.command
        process = subprocess.Popen(
            command,
            cwd=TREE / "core",
            env=environment,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        late = threading.Event()

        def end() -> None:
            late.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(self.limit, end)
        timer.start()
        last = ""
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last = line.strip() or last
                if failed := FAILED.match(line):
                    os.killpg(process.pid, signal.SIGKILL)
                    return 1, failed[1] or failed[2]
            status = process.wait()
        finally:
            timer.cancel()
            process.stdout.close() if process.stdout else None
            process.wait()
        return (KILLED, "hangs") if late.is_set() else (status, last)

    @property
    def record(self) -> Path:
        return HOME / f"reached-{self.name}"

    def get_to_know(self) -> None:
        """Run it without a mutant to measure its duration and the mutants that it reaches."""
        self.seconds = 90.0
        for attempt in (1, 2):
            self.record.unlink(missing_ok=True)
            began = time.monotonic()
            status, said = self.run()
            if status == 0:
                break
            print(f"{self.name}: fails without any mutant: {said}", flush=True)
            if attempt == 2:
                raise BrokenError(f"{self.name}: fails without any mutant")
        self.seconds = time.monotonic() - began
        self.reached = {int(number) for number in self.record.read_text().split()}

    def kills(self, mutant: int) -> str | None:
        """Return the test that notices a mutant, or None. A test that fails only once might be affected by a
        busy machine.
        """
        for _ in range(2):
            status, said = self.run(mutant=mutant)
            if status == 0:
                return None
            deterministic = self.name == "simulation"
            test = said if status == 1 and FAILED.match(f"test {said} ... FAILED") else None
            if deterministic or status == KILLED or test is None:
                return said
            if self.run(mutant=mutant, test=test)[0] != 0:
                return said
            print(f"  {self.name}: {said} failed with {mutant}, but not again", flush=True)
        return None


def tool() -> str:
    """Return the path of cargo-mutants, in the version for which the list of survivors was made."""
    program = INSTALLED / "bin" / "cargo-mutants"
    wanted = f"cargo-mutants {CARGO_MUTANTS}"
    if program.exists():
        said = subprocess.run(
            [program, "mutants", "--version"], capture_output=True, text=True, check=False
        ).stdout
        if said.strip() == wanted:
            return str(program)
    install = [
        "cargo",
        "install",
        "--locked",
        "--force",
        "--version",
        CARGO_MUTANTS,
        "--root",
        str(INSTALLED),
    ]
    subprocess.run([*install, "cargo-mutants"], cwd=ROOT, check=True)
    return str(program)


def proposed() -> tuple[list[Mutant], int]:
    """Return all mutants that cargo-mutants proposes, and the number of further ones outside functions, which
    cannot be switched.
    """
    command = [tool(), "mutants", "--list", "--json", "--package", "zklock", "--exclude", TESTS_ONLY]
    command += [word for name in SUBJECT for word in ("--file", f"core/src/{name}")]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found, outside = [], 0
    for entry in json.loads(listed):
        try:
            found.append(Mutant.read(entry))
        except UnsuitableError:
            outside += 1
    return found, outside


def keys(mutants: Iterable[Mutant]) -> dict[Mutant, Survivor]:
    """Return the key of each mutant."""
    sources: dict[str, Source] = {}
    seen: Counter[tuple[str, str, str]] = Counter()
    found = {}
    for mutant in sorted(mutants, key=lambda mutant: (mutant.file, mutant.span, mutant.what)):
        if mutant.file not in sources:
            sources[mutant.file] = Source((ROOT / mutant.file).read_text())
        name = (mutant.file, mutant.what, sources[mutant.file].line(mutant.span[0]))
        seen[name] += 1
        found[mutant] = Survivor(*name, seen[name])
    return found


def accepted() -> dict[Survivor, str]:
    """Return the mutants that may survive, with the reasons."""
    found = {}
    for entry in tomllib.loads(SURVIVORS.read_text()).get("survivor", []):
        survivor = Survivor(entry["file"], entry["mutant"], entry["line"], entry.get("nth", 1))
        if entry["reason"] not in REASONS or not entry["because"] or survivor in found:
            raise BrokenError(f"{SURVIVORS.name}: {survivor}: twice, or without a reason")
        found[survivor] = f"{entry['reason']}: {entry['because']}"
    return found


def drawn(known: dict[Mutant, Survivor], seed: int) -> list[Mutant]:
    """Return all mutants in the order of drawing. The order is stable for mutants whose
    lines do not change.
    """
    return sorted(known, key=lambda mutant: sha256(f"{seed} {known[mutant]}".encode()).digest())


def write(chosen: dict[int, Mutant]) -> dict[str, str]:
    """Write mutants into the copy of the tree. Return the texts of the changed files."""
    texts = {}
    for file in {mutant.file for mutant in chosen.values()}:
        own = {number: mutant for number, mutant in chosen.items() if mutant.file == file}
        texts[file] = planted((ROOT / file).read_text(), own)
    texts["core/src/planted.rs"] = SWITCH.format(size=max(chosen) + 1)
    texts["core/src/lib.rs"] = (ROOT / "core/src/lib.rs").read_text() + "\n#[doc(hidden)]\npub mod planted;\n"
    manifest = (ROOT / "core/Cargo.toml").read_text()
    # Copied code violates lints.
    texts["core/Cargo.toml"] = manifest.replace("[lints]\nworkspace = true\n", "")
    for name in sorted({*tracked(), *texts}):
        wanted = texts[name].encode() if name in texts else (ROOT / name).read_bytes()
        copy = TREE / name
        # Unchanged files keep their date, because cargo would compile them again.
        if not copy.is_file() or copy.read_bytes() != wanted:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(wanted)
    return texts


def built(command: str, texts: dict[str, str]) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Return the executables that cargo has built, or the mutants that do not compile, each with the
    compiler's message.
    """
    environment = {"CARGO_TARGET_DIR": str(HOME / "build")}
    status, output = run(shlex.split(command), cwd=TREE, limit=BUILD_LIMIT, quiet=True, env=environment)
    messages = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if status == 0:
        return [message for message in messages if message.get("executable")], {}
    found: dict[int, str] = {}
    errors = [message["message"] for message in messages if message["reason"] == "compiler-message"]
    for error in errors:
        if error["level"] == "error" and error["spans"]:
            for number in blamed(error, texts):
                found.setdefault(number, error["message"].partition("\n")[0])
    if not found:
        shown = "\n".join(error["rendered"] for error in errors if error["level"] == "error")
        raise BrokenError(f"{command}: fails, whatever is left out\n{shown or output}")
    return [], found


def builds() -> Iterator[str]:
    """Yield the build commands."""
    suites = "".join(f" --test {name}" for name in SUITES)
    # Encryption is not tested here and takes long to compile.
    yield f"cargo test --locked -p zklock --no-default-features --lib{suites} --no-run {MESSAGES}"
    yield f"cargo build --locked --release --manifest-path {SIMULATION} {MESSAGES}"


def remembered(what: str) -> set[str]:
    """Return the stored result of an earlier run."""
    path = HOME / what
    return set(path.read_text().splitlines()) if path.exists() else set()


def remember(what: str, lines: Iterable[str]) -> None:
    """Store a result for later runs."""
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / what).write_text("\n".join(sorted(lines)))


def unfit(known: dict[Mutant, Survivor]) -> dict[Mutant, str]:
    """Return the key of each mutant in the list of those that do not compile, which includes a digest of its
    file.
    """
    digests = {file: sha256((ROOT / file).read_bytes()).hexdigest() for file in {one.file for one in known}}
    return {one: f"{digests[one.file]} {known[one]}" for one in known}


def killers(known: dict[Mutant, Survivor], seed: int, wanted: int) -> tuple[list[Killer], dict[int, Mutant]]:
    """Build the programs with the sample. Return them and the sample."""
    names = unfit(known)
    before = remembered("unfit")
    candidates = dict(enumerate(drawn(known, seed)[: round(wanted * SPARE)]))
    for number in [number for number, one in candidates.items() if names[one] in before]:
        print(f"left out, as before: {candidates.pop(number)}")
    while True:
        texts = write(candidates)
        found = []
        guilty: dict[int, str] = {}
        for command in builds():
            executables, guilty = built(command, texts)
            if guilty:
                break
            for one in executables:
                own = "unit" if one["target"]["kind"] == ["lib"] else one["target"]["name"]
                found.append(Killer(own, [one["executable"], *OPTIONS.get(own, [])]))
        for number, said in sorted(guilty.items()):
            before.add(names[candidates[number]])
            print(f"left out: {candidates.pop(number)}: {said}", flush=True)
        remember("unfit", before)
        if guilty:
            continue
        if len(candidates) < wanted:
            raise BrokenError(f"{len(candidates)} of {wanted} compile: more are needed")
        return found, dict(list(candidates.items())[:wanted])


def verdict(number: int, mutant: Mutant, *, by: list[Killer]) -> tuple[Mutant, str | None]:
    """Return the test that kills a mutant, if any."""
    began = time.monotonic()
    reach = [killer for killer in by if number in killer.reached]
    noticed = None
    for killer in reach:
        if test := killer.kills(number):
            noticed = f"{killer.name}: {test}"
            break
    word = "killed  " if noticed else "SURVIVED"
    by_whom = noticed or ("" if reach else "no test comes by")
    print(f"{word} {number:3} {mutant} ({time.monotonic() - began:.0f} s) {by_whom}", flush=True)
    return mutant, noticed


def sampled(args: argparse.Namespace) -> int:
    """Draw, build, run and report. Return the exit status."""
    everything, outside = proposed()
    known, listed = keys(everything), accepted()
    stale = [f"stale, there is no such mutant: {one}" for one in listed.keys() - set(known.values())]
    print(f"seed {args.seed}: {args.number} of {len(everything)} mutants; {outside} are outside functions")
    by, sample = killers(known, args.seed, args.number)
    left_out = max(sample) + 1 - args.number
    for killer in by:
        killer.get_to_know()
        reached = len(killer.reached & sample.keys())
        print(f"{killer.name}: {killer.seconds:.1f} s, comes by {reached} of {len(sample)}", flush=True)
    by.sort(key=lambda killer: killer.seconds)
    if args.again:
        survivors = remembered("survived")
        sample = {n: one for n, one in sample.items() if str(known[one]) in survivors}
    if args.parts:
        sample = {n: one for n, one in sample.items() if any(part in str(one) for part in args.parts)}
    with ThreadPoolExecutor(args.jobs) as pool:
        results = dict(pool.map(lambda one: verdict(*one, by=by), sample.items()))
    survived = [mutant for mutant, noticed in results.items() if not noticed]
    killed = {known[one] for one, noticed in results.items() if noticed}
    stale += [f"stale, it is killed: {one}" for one in killed & listed.keys()]
    remember("survived", (str(known[mutant]) for mutant in survived))
    unlisted = [mutant for mutant in survived if known[mutant] not in listed]
    print()
    for mutant in survived:
        print(f"survived: {mutant}\n    {listed.get(known[mutant], 'NOT LISTED: ' + str(known[mutant]))}")
    print("\n".join(stale))
    by_whom = Counter(noticed.partition(":")[0] for noticed in results.values() if noticed)
    print(", ".join(f"{count} by {name}" for name, count in by_whom.most_common()))
    print(f"seed {args.seed}: {left_out} left out on the way that do not compile")
    print(f"{len(survived)} survived, {len(unlisted)} of them without a reason in {SURVIVORS.name}")
    print(f"{len(killed)} of {len(results)} killed")
    return 0 if len(killed) >= ENOUGH * len(results) and not unlisted and not stale else 1


def main() -> int:
    """Parse the command line and run the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--number", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--again", action="store_true", help="only those that survived the last run")
    parser.add_argument("parts", nargs="*")
    if shutil.which("cargo") is None:
        print("needs cargo", file=sys.stderr)
        return 1
    try:
        return sampled(parser.parse_args())
    except BrokenError as broken:
        print(broken, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
