"""pip can build a wheel from the source distribution, and install it in editable mode."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness import crates, installed
from harness.installed import dev, run
from harness.paths import REPOSITORY, TARGET

SETTINGS = {
    "MATURIN_PEP517_ARGS": "--profile dev",
    # Reuse the dependencies that the build of the tests has already compiled with the same features.
    "CARGO_BUILD_BUILD_DIR": os.environ.get("CARGO_TARGET_DIR", str(REPOSITORY / "target")),
    "CARGO_TARGET_DIR": str(TARGET / "sdist"),
    # The test environment provides the build packages, so pip fetches nothing.
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path.endswith("site-packages")),
}
LIMIT = 800.0
"""Time in seconds to compile everything the first time."""

JOB = """
import sys, zklock
with zklock.Client(sys.argv[1]) as client, zklock.Mutex(client, "/packages/sdist") as lease:
    lease.check()
    print(client.stats().transport, zklock.__file__)
"""


@pytest.mark.timeout(900)
def test_s610_pip_builds_from_the_sources(tmp_path: Path) -> None:
    _, sources = crates.unpack(installed.one("*.tar.gz"))
    env = {**SETTINGS, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    pip = [sys.executable, "-m", "pip"]
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
    run(*pip, "wheel", *options, "--wheel-dir", tmp_path, sources, cwd=tmp_path, env=env, limit=LIMIT)
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    for where, words in ((tmp_path / "venv", [wheel]), (sources / "python", ["--editable", sources])):
        run(*pip, "--python", python, "install", *options, *words, cwd=tmp_path, env=env, limit=LIMIT)
        with dev(python.parent / "zklock") as hosts:
            transport, file = run(python, "-c", JOB, hosts, cwd=tmp_path).split()
        assert transport == "zklock"
        assert Path(file).is_relative_to(where)
        run(*pip, "--python", python, "uninstall", "--quiet", "--yes", "pyzklock", cwd=tmp_path)
