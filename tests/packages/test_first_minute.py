"""From the packages to a lock, in an empty directory, without a compiler and without Java."""

from __future__ import annotations

import re
from pathlib import Path

from harness import installed
from harness.installed import dev, first_snippet, processor_time, run

FIRST = "127.0.0.1:2181"
LIMIT = 60.0
"""Seconds of a processor for both languages. Seconds of the clock would count what else the machine does."""


def test_s590_the_readme_runs_from_the_packages(tmp_path: Path) -> None:
    began = processor_time()
    bare = installed.bare(tmp_path / "bin")
    assert all(not (tmp_path / "bin" / name).exists() for name in ("cargo", "cc", "java", "python3"))
    python = installed.environment(tmp_path / "venv")
    project = tmp_path / "project"
    project.mkdir()
    modules = installed.project(project, bare)
    with dev(python.parent / "zklock") as hosts:
        assert first_snippet("python").count(FIRST) == first_snippet("js").count(FIRST) == 1
        said = run(python, "-c", first_snippet("python").replace(FIRST, hosts), cwd=tmp_path, whole=bare)
        assert re.fullmatch(r"holding /locks/report with token \d+\n", said)
    with dev(modules / ".bin" / "zklock") as hosts:
        (project / "first.mjs").write_text(first_snippet("js").replace(FIRST, hosts))
        said = run("node", "first.mjs", cwd=project, whole=bare)
        assert re.fullmatch(r"holding with token \d+n\n", said)
    assert processor_time() - began < LIMIT
