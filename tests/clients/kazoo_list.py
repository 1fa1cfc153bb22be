"""`kazoo_list.toml`, read: which of kazoo's tests are not expected to pass, and which are for `make soak`."""

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
"""Tests of what the embedded server is not for, and what they need."""

NOT_RUN: set[str] = {
    test for entry in _LIST["needs"] if not entry.get("runs", True) for test in entry["tests"]
}
"""Those of them that do not even begin."""

FAILING: dict[str, str] = {test: entry["reason"] for entry in _LIST["fails"] for test in entry["tests"]}
"""Tests in which the embedded server differs from ZooKeeper, and why."""

RACING: dict[str, str] = {test: entry["reason"] for entry in _LIST["races"] for test in entry["tests"]}
"""Tests that fail by chance on any server, and why."""

SOAKING: list[str] = [pattern for entry in _LIST["soak"] for pattern in entry["tests"]]
"""Patterns of the tests that are for `make soak`."""


def soaks(test: str) -> bool:
    """Whether a test is for `make soak`."""
    return any(fnmatchcase(test, pattern) for pattern in SOAKING)
