"""The project into which everything here is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.node.project import Project, pack


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as `npm publish` would send it."""
    return pack(tmp_path_factory.mktemp("tarball"))


@pytest.fixture(scope="session")
def project(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the example projects, with the package installed from its tarball."""
    made = Project(tmp_path_factory.mktemp("project"))
    made.install(tarball)
    return made
