"""A client copes with hundreds of servers at a time, each of which sends a different wrong message.

The program neither aborts nor panics, no call exceeds its timeout, and the client does not reconnect too
fast. Its memory stays bounded, and it never believes that it holds a lock that was not granted. Another
client in the same program keeps its lease on a real server.
"""

from __future__ import annotations

import pytest

from harness.liar import bulk, errors, floods, frames, headers
from harness.liar.judge import assert_unharmed
from harness.server import Standalone
from harness.steps import Start

# All false replies of a module take about six seconds. The rest of the limit is for finding the reply that
# harmed the process.
pytestmark = pytest.mark.timeout(300)


def test_s330_lies_in_frames(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, frames.lies())


def test_s331_lies_in_headers(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, headers.lies())


def test_s332_lies_about_success(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, errors.lies())


def test_s336_lies_by_size(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, bulk.lies())


def test_s337_floods(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, floods.lies())
