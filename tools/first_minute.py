"""Tries a user's first minute: `first_minute.py PACKAGES [--platform NAME] [--limit SECONDS]`.

It works in an empty directory, with no compiler and no Java on the PATH. It installs the wheel with pip and
the npm packages with npm, starts `zklock dev`, and runs the README's first program in each language. It needs
only Python and Node. The release workflow runs it on every platform.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

README = Path(__file__).resolve().parent.parent / "README.md"
FIRST = "127.0.0.1:2181"
"""The address in the README. Another server might use it."""

PROGRAMS = {
    "python3": os.path.realpath(sys.executable),
    **{name: shutil.which(name) or name for name in ("node", "npm", "sh")},
}
# The programs that npm's scripts and the command's script need.
UTILITIES = ("basename", "cat", "chmod", "cp", "dirname", "env", "ls", "mkdir", "readlink", "rm", "uname")
FORBIDDEN = ("cargo", "rustc", "cc", "gcc", "clang", "c++", "g++", "make", "java", "javac")


STEP = 300.0
"""Timeout of a step, in seconds."""

PATIENCE = 3
"""A busy machine can take this many times as long as an idle one."""


class FailedError(Exception):
    """A step failed; the message has its output."""


class Minute:
    """An empty directory, and the time since its creation."""

    def __init__(self, directory: Path) -> None:
        self.here = directory / "here"
        self.here.mkdir()
        path = directory / "bin"
        path.mkdir()
        for name, program in PROGRAMS.items():
            # A symbolic link does not work, because Python looks for its library next to the name by which it
            # is started.
            (path / name).write_text(f'#!{PROGRAMS["sh"]}\nexec "{program}" "$@"\n')
            (path / name).chmod(0o755)
        for name in UTILITIES:
            (path / name).symlink_to(shutil.which(name) or name)
        self.env = {"PATH": str(path), "HOME": str(self.here), "TMPDIR": str(directory), "NO_COLOR": "1"}
        if found := [name for name in FORBIDDEN if shutil.which(name, path=str(path))]:
            raise FailedError(f"on the PATH: {', '.join(found)}")
        self.began = time.monotonic()

    def step(self, what: str) -> None:
        """Report a step that has worked."""
        print(f"{time.monotonic() - self.began:6.1f} s  {what}", flush=True)

    def run(self, *command: str | Path, env: Mapping[str, str] | None = None, status: int = 0) -> str:
        """Run a program that must exit with this status. Return its output."""
        try:
            done = subprocess.run(
                [*map(str, command)],
                cwd=self.here,
                env={**self.env, **(env or {})},
                # Found on the user's PATH, like a command that a user types.
                executable=shutil.which(str(command[0]), path=self.env["PATH"]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=STEP,
                check=False,
            )
        except subprocess.TimeoutExpired as problem:
            raise FailedError(str(problem)) from problem
        if done.returncode != status:
            raise FailedError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
        return done.stdout

    @contextmanager
    def server(self, command: Path) -> Iterator[str]:
        """Run the block with `zklock dev`; yield its address."""
        process = subprocess.Popen(
            [command, "dev", "--port", "0"], cwd=self.here, env=self.env, stdout=subprocess.PIPE, text=True
        )
        # Kill the server if it prints nothing.
        silent = threading.Timer(STEP, process.kill)
        silent.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            silent.cancel()
            listening = re.match(r"listening on (127\.0\.0\.1:\d+)\b", line)
            if listening is None:
                raise FailedError(f"zklock dev says {line!r}")
            yield listening[1]
        finally:
            silent.cancel()
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    def locks(self, language: str, hosts: str, pattern: str, *command: str | Path) -> None:
        """Run the README's first program in a language."""
        program = snippet(language).replace(FIRST, hosts)
        said = self.run(*command, program) if language == "python" else self.module(program)
        if not re.fullmatch(pattern, said):
            raise FailedError(f"the README's program in {language} says {said!r}")
        self.step(f"README, {language}: {said.strip()}")

    def module(self, program: str) -> str:
        """Run a JavaScript module."""
        (self.here / "first.mjs").write_text(program)
        return self.run("node", "first.mjs")


def snippet(language: str) -> str:
    """Return the README's first program in a language."""
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    if found is None or found[1].count(FIRST) != 1:
        raise FailedError(f"the README has no program in {language} for {FIRST}")
    return found[1]


def one(packages: Path, pattern: str) -> Path:
    """Return the only package that matches a pattern."""
    found = sorted(packages.glob(pattern))
    if len(found) != 1:
        raise FailedError(f"{packages} has {len(found)} files {pattern}, not one")
    return found[0]


def processor_time() -> float:
    """Return the processor time of this process and its children, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@dataclass(frozen=True)
class Tried:
    """The duration of a trial."""

    took: float
    """Elapsed time in seconds."""
    worked: float
    """Processor time in seconds."""
    load: float

    @property
    def busy(self) -> bool:
        """Return whether the machine is so busy that the elapsed time is misleading."""
        return self.load > (os.cpu_count() or 1)

    @property
    def seconds(self) -> float:
        """Return the duration that counts. On a busy machine this is the processor time, or a part of the
        elapsed time, so that long idle waits still count.
        """
        return max(self.worked, self.took / PATIENCE) if self.busy else self.took

    def verdict(self, limit: float) -> str:
        """Return the summary line."""
        how = "FAILED: too slow" if self.seconds > limit else "passed"
        line = f"the first minute {how}: Python and Node lock after {self.took:.1f} s "
        line += f"({self.worked:.1f} s of a processor) of {limit:g} s"
        return line + (f"; the processor's count, for the load is {self.load:.1f}" if self.busy else "")


def tried(packages: Path, platform: str = "[a-z]*") -> Tried:
    """Install and try everything, and print each step."""
    with TemporaryDirectory() as scratch:
        before = processor_time()
        took = first_minute(packages, platform, Path(scratch).resolve())
        return Tried(took, processor_time() - before, os.getloadavg()[0])


def first_minute(packages: Path, platform: str, scratch: Path) -> float:
    """Install and try everything. Return the elapsed seconds."""
    wheel = one(packages, "*.whl")
    tarballs = one(packages, "zklock-[0-9]*.tgz"), one(packages, f"zklock-{platform}.tgz")
    minute = Minute(scratch)
    minute.run("python3", "-m", "venv", "venv")
    python = minute.here / "venv" / "bin" / "python"
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1"}
    minute.run(python, "-m", "pip", "install", wheel, env=quiet)
    minute.step(f"pip install {wheel.name}, in a new environment")
    (minute.here / "package.json").write_text('{ "private": true }\n')
    minute.run("npm", "install", "--offline", "--no-audit", "--no-fund", *tarballs)
    minute.step(f"npm install {' '.join(one.name for one in tarballs)}")
    by_pip, by_npm = python.parent / "zklock", minute.here / "node_modules" / ".bin" / "zklock"
    with minute.server(by_pip) as hosts:
        minute.step(f"zklock dev, on {hosts}")
        minute.locks("python", hosts, r"holding /locks/report with token \d+\n", python, "-c")
        minute.locks("js", hosts, r"holding with token \d+n\n")
        for command, kind in ((by_pip, "pip"), (by_npm, "npm")):
            job = ("/locks/report", "--", "sh", "-c", "exit 7")
            minute.run(command, "run", *job, env={"ZKLOCK_HOSTS": hosts}, status=7)
            minute.step(f"zklock run, by {kind}: the status of its command")
    return time.monotonic() - minute.began


def main() -> int:
    """Try the packages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path)
    parser.add_argument("--platform", default="[a-z]*", help="such as linux-x64-gnu, if there are several")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    options = parser.parse_args()
    pattern = options.platform if "*" in options.platform else f"{options.platform}-[0-9]*"
    try:
        done = tried(options.packages.resolve(), pattern)
    except FailedError as problem:
        print(f"the first minute FAILED: {problem}", flush=True)
        return 1
    print(done.verdict(options.limit))
    return 1 if done.seconds > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
