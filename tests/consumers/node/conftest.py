"""The project into which everything here is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.node.project import Project
from harness import installed


@pytest.fixture(scope="session", params=["package", "platform"])
def tarball(request: pytest.FixtureRequest) -> Path:
    """Each package as `npm publish` would send it."""
    package, platform = installed.tarballs()
    return package if request.param == "package" else platform


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the example projects, with the packages installed from their tarballs."""
    made = Project(tmp_path_factory.mktemp("project"))
    made.install()
    return made
