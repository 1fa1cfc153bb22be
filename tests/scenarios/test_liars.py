"""A client among servers whose messages are wrong, hundreds at a time, each with a lie of its own.

Whatever they say: the program neither aborts nor panics, no call hangs beyond its time-out, connections are
retried slowly, memory is bounded, nothing is held that was not granted, and another client's lease on a real
server goes on.
"""

from __future__ import annotations

import pytest

from harness.liar import bulk, errors, floods, frames, headers
from harness.liar.judge import assert_unharmed
from harness.server import Standalone
from harness.steps import Start

# A set takes about six seconds; the rest is for finding out which of its lies harmed the process.
pytestmark = pytest.mark.timeout(300)


def test_s330_lies_in_frames(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, frames.lies())


def test_s331_lies_in_headers(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, headers.lies())


def test_s332_lies_about_success(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, errors.lies())


def test_s336_lies_by_mass(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, bulk.lies())


def test_s337_floods(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, floods.lies())
