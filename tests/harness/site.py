"""Builds the documentation site as `make site` does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MKDOCS = Path(sys.executable).with_name("mkdocs")


# No `--quiet`: it would also hide warnings from `--strict`.
def build(root: Path, target: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the site of the repository at `root`."""
    return subprocess.run(
        [MKDOCS, "build", "--strict", "--config-file", root / "mkdocs.yml", "--site-dir", target],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
