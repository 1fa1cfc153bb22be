"""The parts that the tests need, and the reasons for which this machine cannot build one.

tools/parts.mk builds the parts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMPS = ROOT / ".make"
BUILT = ROOT / "tests" / "target"
PACKAGE = ROOT / "bindings-node"
JAVA = os.environ.get("ZKLOCK_JAVA", "java")

EVERYTHING = "ZKLOCK_TEST_ALL"
"""Environment variable that forbids leaving out tests. Continuous integration sets it."""


@dataclass(frozen=True)
class Part:
    """A part that is built. If this machine lacks a program to build or run it, its tests are left out."""

    name: str
    files: tuple[str, ...]
    """Its products, below the repository."""
    shown: str = ""
    """Name for users, if tests can run without the part."""
    built_by: tuple[str, ...] = ()
    run_by: tuple[str, ...] = ()
    override: str = ""
    """Environment variable that replaces it with another one."""
    apart: bool = False
    """True if only one suite of the second tier needs it."""
    commit: str = ""
    """A file that contains the hash of the commit to build. A shallow clone might lack that commit."""

    @property
    def products(self) -> tuple[Path, ...]:
        """Return the paths of its products."""
        return tuple(ROOT / file for file in self.files)

    def problem(self) -> str | None:
        """Return why it cannot be used as it is, or None."""
        if self.override in os.environ or all(product.exists() for product in self.products):
            return None
        return f"{self.name} is not built: run `make {self.name}`"

    def lacking(self) -> str | None:
        """Return why this machine cannot use it, or None."""
        if self.override in os.environ:
            return None
        built = self.problem() is None
        wanted = self.run_by if built else (*self.built_by, *self.run_by)
        if absent := [program for program in wanted if shutil.which(program) is None]:
            return f"{self.shown} (needs {', '.join(absent)} on the PATH)"
        if self.commit and not built:
            commit = (ROOT / self.commit).read_text().split()[0]
            command = ("git", "-C", ROOT, "cat-file", "-e", f"{commit}^{{tree}}")
            if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode != 0:
                return f"{self.shown} (needs commit {commit}: run `git fetch --unshallow`)"
        return None


RUST_WORKER = ("tests/target/zklock-worker", "tests/target/ends", "tests/target/slots")
NODE_PACKAGE = ("bindings-node/addon/index.js", "bindings-node/dist/index.js")
CURATOR = ("tests/target/classes/zklock/CuratorWorker.class",)
CHROMIUM = (".make/chromium/usr/lib/chromium/chromium-headless-shell",)
REDIS = (".make/redis/usr/bin/redis-server",)
OLD_WORKER = ("tests/target/previous-worker",)
PREVIOUS = "tests/previous-release"
APT = ("apt-get", "dpkg-deb")

PARTS = {
    part.name: part
    for part in (
        Part("venv", (".venv/bin/python",)),
        Part("worker", RUST_WORKER, override="ZKLOCK_RUST_WORKER"),
        Part("embedded", ("tests/target/zklock-test-server",)),
        Part("command", ("tests/target/zklock",)),
        Part("python", ("bindings-python/python/zklock/_zklock.abi3.so",)),
        Part("npm", ("bindings-node/node_modules/.bin/napi",)),
        Part("node", NODE_PACKAGE, override="ZKLOCK_NODE_PACKAGE"),
        Part("packages", ("tests/target/packages",)),
        Part("previous", OLD_WORKER, "the last release beside this one", ("git",), commit=PREVIOUS),
        Part("jars", ("tests/target/lib",), "Apache ZooKeeper", ("mvn",), (JAVA,)),
        Part("java", CURATOR, "Curator", ("mvn", "javac"), (JAVA,), "ZKLOCK_JAVA_CLASSES"),
        Part("go", ("tests/target/go-worker",), "go-zookeeper", ("go",), override="ZKLOCK_GO_WORKER"),
        Part("porcupine", ("tests/target/porcupine",), "the outside judge of histories", ("go",)),
        Part("bundlers", ("tests/consumers/node/node_modules/.bin/esbuild",), apart=True),
        Part("chromium", CHROMIUM, "the site in a browser", APT, override="ZKLOCK_CHROMIUM", apart=True),
        Part("redis", REDIS, "BullMQ", APT, override="ZKLOCK_REDIS", apart=True),
    )
}


def everything() -> bool:
    """Return whether it is an error if this machine lacks a part."""
    return bool(os.environ.get(EVERYTHING))


def server_part() -> str:
    """Return the part with the tests' server: the real one, unless this machine lacks its programs."""
    return "jars" if everything() or PARTS["jars"].lacking() is None else "embedded"


def within_reach(apart: bool = False) -> list[str]:
    """Return the parts that this machine can build, and print which ones are left out."""
    found = {name: part.lacking() for name, part in PARTS.items() if apart or not part.apart}
    for what in filter(None, found.values()):
        print(f"left out: {what}", file=sys.stderr, flush=True)
    if any(found.values()) and everything():
        raise SystemExit(f"{EVERYTHING} is set: nothing may be left out")
    return [name for name, what in found.items() if what is None]


if __name__ == "__main__":
    print(*within_reach())
