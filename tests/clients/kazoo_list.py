"""Reads `kazoo_list.toml`, the list of kazoo tests that are expected to fail or run only in `make soak`."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("kazoo_list.toml")
_LIST: dict[str, list[dict[str, Any]]] = tomllib.loads(_FILE.read_text())

NEEDING: dict[str, str] = {
    test: f"needs {entry['what']}" for entry in _LIST["needs"] for test in entry["tests"]
}
"""Tests that need a feature that the embedded server lacks, with the name of the feature."""

NOT_RUN: set[str] = {
    test for entry in _LIST["needs"] if not entry.get("runs", True) for test in entry["tests"]
}
"""Tests in `NEEDING` that cannot even start."""

FAILING: dict[str, str] = {test: entry["reason"] for entry in _LIST["fails"] for test in entry["tests"]}
"""Tests that fail because the embedded server differs from ZooKeeper, with the reasons."""

RACING: dict[str, str] = {test: entry["reason"] for entry in _LIST["races"] for test in entry["tests"]}
"""Tests that fail randomly on any server, with the reason."""

SOAKING: list[str] = [pattern for entry in _LIST["soak"] for pattern in entry["tests"]]
"""Name patterns of the tests for `make soak`."""


def soaks(test: str) -> bool:
    """Return whether a test is for `make soak`."""
    return any(fnmatchcase(test, pattern) for pattern in SOAKING)
