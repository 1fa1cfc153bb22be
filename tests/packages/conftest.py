"""Fixtures with the installed packages. The packages must be built before any test here runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import installed
from harness.built import NotBuilt


def pytest_configure(config: pytest.Config) -> None:
    if config.option.collectonly:
        return
    try:
        installed.wheel()
    except NotBuilt as problem:
        raise pytest.UsageError(str(problem)) from None


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a new environment that contains only the wheel."""
    return installed.environment(tmp_path_factory.mktemp("wheel") / "venv")


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return `node_modules` of a project that contains only the npm packages."""
    return installed.project(tmp_path_factory.mktemp("project"))
