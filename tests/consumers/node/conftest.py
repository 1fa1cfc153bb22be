"""The project into which everything here is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.node.project import Project
from harness import installed


@pytest.fixture(scope="session")
def tarball() -> Path:
    """The package as `npm publish` would send it. That of the platform has no JavaScript."""
    return installed.tarballs()[0]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the example projects, with the packages installed from their tarballs."""
    made = Project(tmp_path_factory.mktemp("project"))
    made.install()
    return made
