"""The parts that tests need built, and whether each was built from its current sources.

A build records a digest of each source. Only content counts: touching a file, or switching to another branch
and back, makes no part stale. An edit does, whatever its time is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMPS = ROOT / ".make"
VENV = ROOT / ".venv"
STAGE = STAMPS / "stage"
"""The demo's environment, which is built without the tests' environments."""

BUILT = ROOT / "tests" / "target"

EVERYTHING = "ZKLOCK_TEST_ALL"
"""Environment variable that forbids leaving out tests. Continuous integration sets it."""

SHOWN = 3
"""Number of changed files that a message names."""


@dataclass(frozen=True)
class Part:
    """Something that is built."""

    name: str
    sources: tuple[str, ...]
    """Files and patterns below the repository. A directory means everything in it."""
    products: tuple[Path, ...]
    shown: str = ""
    """Name for users, if tests can run without the part."""
    override: str | None = None
    """Environment variable that replaces it with another one."""
    apart: bool = False
    """True if only one suite of the second tier needs it."""
    needs: tuple[str, ...] = ()
    """Parts that must be built before it."""
    built_by: tuple[str, ...] = ()
    run_by: tuple[str, ...] = ()
    """Programs that are needed to build it, and to run it. Without them, the tests run without the part."""
    commit: Path | None = None
    """A file that names the commit it is built from. A shallow clone might not have that commit."""

    @property
    def stamp(self) -> Path:
        """Return the file with the digests of the last build."""
        return STAMPS / f"{self.name}.json"

    def files(self) -> Iterator[Path]:
        """Yield every source."""
        for pattern in self.sources:
            for found in sorted(ROOT.glob(pattern)):
                if found.is_file():
                    yield found
                else:
                    yield from sorted(path for path in found.rglob("*") if path.is_file())

    def digests(self) -> dict[str, str]:
        """Return the digests of the current sources."""
        return {
            str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.files()
            if "__pycache__" not in path.parts
        }

    def recorded(self) -> dict[str, str]:
        """Return the digests of the sources at the last build."""
        try:
            recorded: dict[str, str] = json.loads(self.stamp.read_text())
        except (OSError, ValueError):
            return {}
        return recorded

    def record(self, digests: dict[str, str]) -> None:
        """Record a build. The digests must be from before the build, because a source
        can change meanwhile.
        """
        STAMPS.mkdir(exist_ok=True)
        self.stamp.write_text(json.dumps(digests, indent=0))

    def changed(self) -> list[str]:
        """Return the sources that are new, removed or different since the last build."""
        now, then = self.digests(), self.recorded()
        return sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))

    def missing(self) -> str | None:
        """Return why it is not usable at all, or None."""
        for product in self.products:
            if not product.exists():
                return f"{self.name} is not built: run `make {self.name}`"
        return None

    def stale(self) -> str | None:
        """Return why it is out of date, or None."""
        if changed := self.changed():
            names = ", ".join(changed[:SHOWN]) + (", …" if len(changed) > SHOWN else "")
            return f"{self.name} is out of date: {names} changed; run `make {self.name}`"
        return None

    def problem(self) -> str | None:
        """Return why it must be built again, or None."""
        if self.override is not None and self.override in os.environ:
            return None
        return self.missing() or self.stale()

    def absent(self) -> list[str]:
        """Return the programs that it needs now and that this machine lacks."""
        programs = [program for need in self.needs for program in PARTS[need].absent()]
        if self.override is None or self.override not in os.environ:
            wanted = self.run_by if self.problem() is None else (*self.built_by, *self.run_by)
            programs += [program for program in wanted if shutil.which(program) is None]
        return list(dict.fromkeys(programs))

    def lacking(self) -> str | None:
        """Return why this machine cannot use it, or None."""
        if absent := self.absent():
            return f"{self.shown} (needs {', '.join(absent)} on the PATH)"
        if self.commit is not None and self.problem() is not None and not has_commit(named(self.commit)):
            return f"{self.shown} (needs commit {named(self.commit)}: run `git fetch --unshallow`)"
        return None


def named(file: Path) -> str:
    """Return the commit that a file names."""
    return file.read_text().split()[0]


def has_commit(commit: str) -> bool:
    """Return whether this clone has a commit with its files."""
    command = ("git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{tree}}")
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


WORKSPACE = ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo")
CORE = ("core/Cargo.toml", "core/src", "core/shims", "core/transport")
EMBEDDED = ("embedded/Cargo.toml", "embedded/src")
PACKAGE = ROOT / "bindings-node"
JAVA = os.environ.get("ZKLOCK_JAVA", "java")
CHROMIUM = STAMPS / "chromium" / "usr" / "lib" / "chromium" / "chromium-headless-shell"
"""Inside Debian's packages, which are unpacked instead of installed, because that needs no root."""
REDIS = STAMPS / "redis" / "usr" / "bin" / "redis-server"
"""Also inside Debian's unpacked packages."""

PARTS = {
    part.name: part
    for part in (
        Part("venv", ("tests/requirements.txt", "docs/requirements.txt"), (VENV / "bin" / "python",)),
        Part(
            "worker",
            (*WORKSPACE, *CORE, "tests/workers/rust"),
            (BUILT / "zklock-worker", BUILT / "ends", BUILT / "slots"),
            override="ZKLOCK_RUST_WORKER",
        ),
        Part(
            "previous",
            ("tests/previous-release",),
            (BUILT / "previous-worker",),
            shown="the last release beside this one",
            built_by=("git",),
            commit=ROOT / "tests" / "previous-release",
        ),
        Part(
            "embedded",
            (*WORKSPACE, "embedded/Cargo.toml", "embedded/src", "tests/servers/embedded"),
            (BUILT / "zklock-test-server",),
        ),
        Part(
            "command",
            (*WORKSPACE, *CORE, *EMBEDDED, "cli/Cargo.toml", "cli/src"),
            (BUILT / "zklock",),
        ),
        # The demo's environment, and its Rust program.
        Part(
            "stage",
            (*WORKSPACE, *CORE, "tests/demo/requirements.txt", "tests/demo/programs/rust"),
            (STAGE / "bin" / "python", BUILT / "zklock-demo-job"),
        ),
        # Installed in place: Python sources are used from the source directory.
        Part(
            "python",
            (*WORKSPACE, *CORE, *EMBEDDED, "bindings-python/Cargo.toml", "bindings-python/src"),
            (ROOT / "bindings-python" / "python" / "zklock" / "_zklock.abi3.so",),
        ),
        # The packages for users, from the debug builds.
        Part(
            "packages",
            (
                *WORKSPACE,
                *CORE,
                *("core/README.md", "LICENSE", "THIRD-PARTY-NOTICES.txt", "tools/dist.py"),
                *("embedded", "cli", "bindings-python/src"),
                *(f"bindings-python/{name}" for name in ("*.toml", "*.md", "*.py", "LICENSE")),
                *("bindings-python/python/*/**/*.py", "bindings-python/python/*/**/*.pyi"),
                *(
                    f"bindings-node/{name}"
                    for name in (
                        "*.toml",
                        "*.json",
                        "*.md",
                        "*.mjs",
                        "*.mts",
                        "build.rs",
                        "bin",
                        "native",
                        "src",
                    )
                ),
            ),
            (BUILT / "packages",),
            needs=("venv", "command", "python", "node"),
        ),
        Part("npm", ("bindings-node/package-lock.json",), (PACKAGE / "node_modules" / ".bin" / "napi",)),
        Part(
            "node",
            (
                *WORKSPACE,
                *CORE,
                *EMBEDDED,
                *(
                    f"bindings-node/{name}"
                    for name in ("*.toml", "*.json", "build.rs", "describe.mjs", "native", "src")
                ),
            ),
            (PACKAGE / "addon" / "index.js", PACKAGE / "dist" / "index.js"),
            override="ZKLOCK_NODE_PACKAGE",
            needs=("npm",),
        ),
        Part(
            "jars",
            ("tests/pom.xml",),
            (BUILT / "lib",),
            shown="Apache ZooKeeper",
            built_by=("mvn",),
            run_by=(JAVA,),
        ),
        Part(
            "java",
            ("tests/pom.xml", "tests/peers/java"),
            (BUILT / "classes" / "zklock" / "CuratorWorker.class",),
            shown="Curator",
            override="ZKLOCK_JAVA_CLASSES",
            needs=("jars",),
            built_by=("javac",),
            run_by=(JAVA,),
        ),
        Part(
            "bundlers",
            ("tests/consumers/node/package-lock.json",),
            (ROOT / "tests" / "consumers" / "node" / "node_modules" / ".bin" / "esbuild",),
            apart=True,
        ),
        # Debian's current version, because it keeps no older one.
        Part(
            "chromium",
            (),
            (CHROMIUM,),
            shown="the site in a browser",
            override="ZKLOCK_CHROMIUM",
            apart=True,
            built_by=("apt-get", "dpkg-deb"),
        ),
        Part(
            "redis",
            (),
            (REDIS,),
            shown="BullMQ",
            override="ZKLOCK_REDIS",
            apart=True,
            built_by=("apt-get", "dpkg-deb"),
        ),
        Part(
            "go",
            ("tests/peers/go",),
            (BUILT / "go-worker",),
            shown="go-zookeeper",
            override="ZKLOCK_GO_WORKER",
            built_by=("go",),
        ),
        Part(
            "porcupine",
            ("tests/porcupine/*.go", "tests/porcupine/go.*"),
            (BUILT / "porcupine",),
            shown="the outside judge of histories",
            built_by=("go",),
        ),
    )
}


@cache
def problem(name: str) -> str | None:
    """Return why a part must not be used as it is, or None. The result is cached, because no part is built
    while tests run.
    """
    return PARTS[name].problem()


@cache
def lacking(name: str) -> str | None:
    """Return why this machine cannot use a part, or None."""
    return PARTS[name].lacking()


def everything() -> bool:
    """Return whether nothing may be left out, whatever this machine lacks."""
    return bool(os.environ.get(EVERYTHING))


def server_part() -> str:
    """Return the part that provides the tests' server: the real one, unless this
    machine lacks its programs.
    """
    return "jars" if everything() or lacking("jars") is None else "embedded"


def main() -> int:
    """Print which of the named parts must be built. Return 1 if there are any. `server` means the available
    server.
    """
    names = [server_part() if name == "server" else name for name in sys.argv[1:]]
    found = [what for name in names if (what := problem(name)) is not None]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
