"""The project into which the packages and tools are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.node.project import Project
from harness import installed


@pytest.fixture(scope="session")
def tarball() -> Path:
    """Return the main package as `npm publish` would upload it. It contains all JavaScript code."""
    return installed.tarballs()[0]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the example projects, with the packages installed from their tarballs."""
    made = Project(tmp_path_factory.mktemp("project"))
    made.install()
    return made
