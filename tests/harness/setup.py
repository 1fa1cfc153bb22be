"""Fetch the Java side of the suite (servers, peers) and compile the Java worker; only when something changed.

Run as ``python -m harness.setup`` in the tests directory.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from harness.paths import CLASSES, JARS, TARGET, TESTS

POM = TESTS / "pom.xml"
SOURCES = TESTS / "peers" / "java"
JARS_STAMP = TARGET / "jars.stamp"
CLASSES_STAMP = CLASSES.with_suffix(".stamp")

# Pinned, for the version bound to Maven's own default changes with the Maven that happens to be installed.
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def stale(stamp: Path, inputs: Iterable[Path]) -> bool:
    """Whether any input is newer than the stamp of the last success."""
    if not stamp.exists():
        return True
    made = stamp.stat().st_mtime_ns
    return any(source.stat().st_mtime_ns > made for source in inputs)


def tool(name: str) -> str:
    """The full path of a needed tool, or an exit that says what is missing."""
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"the test harness needs `{name}` on the PATH")
    return found


def fetch_jars() -> None:
    """Copy the jars that the pom pins to one directory, so that a classpath is `lib/*`."""
    shutil.rmtree(JARS, ignore_errors=True)
    command = [tool("mvn"), "-B", "-q", "-f", str(POM), COPY_DEPENDENCIES]
    command += [f"-DoutputDirectory={JARS}", "-DincludeScope=runtime", "-Dmdep.prependGroupId=false"]
    subprocess.run(command, check=True)
    JARS_STAMP.touch()


def compile_worker(sources: list[Path]) -> None:
    """Compile the Java worker."""
    shutil.rmtree(CLASSES, ignore_errors=True)
    CLASSES.mkdir(parents=True)
    command = [tool("javac"), "-Xlint:all,-processing,-classfile", "-Werror", "-proc:none", "--release", "11"]
    command += ["-d", str(CLASSES), "-cp", f"{JARS}/*", *map(str, sources)]
    subprocess.run(command, check=True)
    CLASSES_STAMP.touch()


def main() -> None:
    """Bring everything up to date; quick when it already is."""
    TARGET.mkdir(exist_ok=True)
    sources = sorted(SOURCES.rglob("*.java"))
    if stale(JARS_STAMP, [POM]):
        fetch_jars()
    if stale(CLASSES_STAMP, [*sources, JARS_STAMP]):
        compile_worker(sources)


if __name__ == "__main__":
    main()
