"""The README's programs run from the packages in an empty directory, without a compiler and without Java.

The release workflow runs this file on every platform, with the packages that it has built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from harness.installed import ELSEWHERE, dev, processor_time, tarballs, wheel
from harness.paths import REPOSITORY

FIRST = "127.0.0.1:2181"
"""The address in the README. Another server might use it."""
LIMIT = 60.0
"""Limit in seconds. For debug builds it applies to processor time, because other programs can prolong
wall-clock time."""
PROGRAMS = {
    "python3": os.path.realpath(sys.executable),
    **{name: shutil.which(name) or name for name in ("node", "npm", "sh")},
}
# The programs that npm's scripts and the command's script need.
UTILITIES = ("basename", "cat", "chmod", "cp", "dirname", "env", "ls", "mkdir", "readlink", "rm", "uname")


def snippet(language: str) -> str:
    """Return the README's first program in a language."""
    found = re.search(rf"```{language}\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert found is not None
    assert found[1].count(FIRST) == 1
    return found[1]


def first_minute(directory: Path) -> float:
    """Install everything, and run the first programs. Return the elapsed seconds."""
    here, path = directory / "here", directory / "bin"
    here.mkdir()
    path.mkdir()
    for name, program in PROGRAMS.items():
        # Write a script instead of a symbolic link, because Python would look for its library next to the
        # link.
        (path / name).write_text(f'#!{PROGRAMS["sh"]}\nexec "{program}" "$@"\n')
        (path / name).chmod(0o755)
    for name in UTILITIES:
        (path / name).symlink_to(shutil.which(name) or name)
    env = {
        "PATH": str(path),
        "HOME": str(here),
        "TMPDIR": str(directory),
        "NO_COLOR": "1",
        "PIP_NO_INDEX": "1",
    }
    began = time.monotonic()

    def run(*command: str | Path, status: int = 0) -> str:
        done = subprocess.run(
            command,
            executable=shutil.which(command[0], path=env["PATH"]),
            cwd=here,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    run("python3", "-m", "venv", "venv")
    python = here / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--disable-pip-version-check", wheel())
    (here / "package.json").write_text('{ "private": true }\n')
    run("npm", "install", "--offline", "--no-audit", "--no-fund", *tarballs())
    by_pip, by_npm = python.parent / "zklock", here / "node_modules" / ".bin" / "zklock"
    with dev(by_pip, env) as hosts:
        said = run(python, "-c", snippet("python").replace(FIRST, hosts))
        assert re.fullmatch(r"holding /locks/report with token \d+\n", said)
        (here / "first.mjs").write_text(snippet("js").replace(FIRST, hosts))
        assert re.fullmatch(r"holding with token \d+n\n", run("node", "first.mjs"))
        env["ZKLOCK_HOSTS"] = hosts
        for command in (by_pip, by_npm):
            run(command, "run", "/locks/report", "--", "sh", "-c", "exit 7", status=7)
    return time.monotonic() - began


def test_s590_the_readme_runs_from_the_packages(tmp_path: Path) -> None:
    began = processor_time()
    took = first_minute(tmp_path)
    print(f"the first minute: Python and Node lock after {took:.1f} s")
    assert (took if ELSEWHERE else processor_time() - began) < LIMIT
