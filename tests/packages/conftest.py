"""The packages have to be packed before any of their tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import installed
from harness.built import NotBuilt, OutOfDate


def pytest_configure(config: pytest.Config) -> None:
    if config.option.collectonly:
        return
    try:
        installed.wheel()
    except (NotBuilt, OutOfDate) as problem:
        raise pytest.UsageError(str(problem)) from None


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with nothing but the wheel."""
    return installed.environment(tmp_path_factory.mktemp("wheel") / "venv")


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`node_modules` of a project with nothing but the npm packages."""
    return installed.project(tmp_path_factory.mktemp("project"))
