"""A client copes with false replies about connections and sessions, even while it holds a lock."""

from __future__ import annotations

import pytest

from harness.liar import crowds, held, links, logins, sessions
from harness.liar.judge import assert_unharmed
from harness.server import Standalone
from harness.steps import Start

# All false replies of a module take about six seconds. The rest of the limit is for finding the reply that
# harmed the process.
pytestmark = pytest.mark.timeout(300)


def test_s333_connections_that_end_or_fall_silent(
    surface: str, server: Standalone, path: str, start: Start
) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, links.lies())


def test_s334_lies_about_sessions(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, [*sessions.lies(), *logins.lies()])


def test_s335_lies_to_a_holder(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, held.lies())


def test_s338_hostile_contenders(surface: str, server: Standalone, path: str, start: Start) -> None:
    assert_unharmed(lambda: start(surface), server.hosts, path, crowds.lies())
