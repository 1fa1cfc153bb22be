"""Chooses the programs that take part, and their commands."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.paths import JARS, JAVA, NODE, NODE_PACKAGE, TARGET

PROGRAMS = Path(__file__).resolve().parent / "programs"
RUST_JOB = TARGET / "zklock-demo-job"


@dataclass(frozen=True)
class Role:
    """One process: its lane's title and its command, which receives the path and the number of rounds."""

    title: str
    command: tuple[str, ...]
    # True if the demo kills it while it holds the lock.
    victim: bool = False


def without_curator() -> str | None:
    """Return the reason why no Curator process can take part, or None."""
    if shutil.which("javac") is None or shutil.which(JAVA) is None:
        return "With a JDK and Maven, a Java process on Apache Curator would join in."
    if not JARS.is_dir():
        return "With Maven, a Java process on Apache Curator would join in: `make jars` did not fetch it."
    return None


def demo_roles(scratch: Path) -> list[Role]:
    """Return all possible roles. `scratch` becomes a project in which Node finds the package by name."""
    modules = scratch / "node_modules"
    modules.mkdir()
    (modules / "zklock").symlink_to(NODE_PACKAGE)
    job = str(shutil.copy(PROGRAMS / "job.mjs", scratch))
    python = (sys.executable, str(PROGRAMS / "job.py"))
    roles = [
        Role("Python", python),
        Role("asyncio", (sys.executable, str(PROGRAMS / "job_aio.py"))),
        Role("Node", (NODE, job)),
        Role("Rust", (str(RUST_JOB),)),
    ]
    if without_curator() is None:
        quiet = ("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
        curator = (JAVA, *quiet, "-cp", f"{JARS}/*", str(PROGRAMS / "Job.java"))
        roles.append(Role("Java, Curator", curator))
    roles.append(Role("Python, killed", python, victim=True))
    return roles
